//! Live reading: the events of a recording that is still written, in the order of time.
//!
//! Packets come to a [`Growing`] stream at any time; [`Events::arrived`](mote_timeline::Events::arrived) says how far
//! all streams are, so that events come in order. New streams, events and names come to the recording while the reading
//! is put aside:
//!
//! ```no_run
//! # use mote_live::{Growth, NoGrowth};
//! # use mote_timeline::{Events, Trace};
//! # fn show(events: &mut Events<'_>) {}
//! # fn news() -> Option<(Growth, i64)> { None }
//! # let mut trace = Trace::of(Vec::new());
//! let mut reading = trace.events(mote_timeline::Range::ALL).pause();
//! while let Some((growth, until)) = news() {
//!     trace.extend(0, growth)?;
//!     let mut events = trace.go_on(reading);
//!     events.arrived(until);
//!     show(&mut events);
//!     reading = events.pause();
//! }
//! # Ok::<(), NoGrowth>(())
//! ```
//!
//! | module | job |
//! |---|---|
//! | `packets` | the storage of a stream whose packets arrive from a session that records |
//! | `pause` of `timeline` | reading up to the time until which everything has arrived; a reading that is put aside |
//! | `growth` of `timeline` | new streams, event classes and names of a recording |
#![forbid(unsafe_code)]

mod packets;

pub use mote_timeline::{Growth, NoGrowth, Paused};
pub use packets::Growing;
