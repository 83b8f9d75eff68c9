//! The events of a recording, all streams merged, in the order of time.
//!
//! A recording is a directory with CTF traces in it: one that `mote record` wrote, with its journal, or any tree of
//! traces that others wrote (LTTng keeps one per user and one of the kernel). [`Trace::open`] reads what does not
//! change (metadata, journal, names of stream files), [`Trace::events`] goes through the events:
//!
//! ```no_run
//! # use mote_timeline::{Entry, Range, Trace};
//! let trace = Trace::open("recording".as_ref())?;
//! let mut events = trace.events(Range::ALL);
//! while let Some(entry) = events.next() {
//!     match entry {
//!         Entry::Event(record) => println!("{} {}", record.time(), record.name()),
//!         Entry::Loss(loss) => println!("lost {}", loss.loss.events),
//!     }
//! }
//! for problem in events.problems().list() {
//!     eprintln!("{problem}");
//! }
//! # Ok::<(), mote_timeline::OpenError>(())
//! ```
//!
//! # Damage
//! Broken input ends nothing but the packet that it is in: reading goes on at the next packet that can be found, and what
//! was wrong, and how many bytes were passed over, is a [`Problem`].
//!
//! # Cost
//! Memory: one packet per stream. Files are read with `pread`, never mapped, so a recording that is cut or rewritten
//! meanwhile cannot kill the reader. Time: bench `view`, case `null`.
#![forbid(unsafe_code)]

mod clock;
mod context;
mod discover;
mod facts;
mod file;
mod loss;
mod merge;
mod origin;
mod problem;
mod reader;
mod record;
mod trace;
mod waiting;

pub use facts::{Facts, Named};
pub use loss::{Loss, Place};
pub use merge::Events;
pub use origin::{ClassId, Origin, Stream};
pub use problem::{Fault, OpenError, Problem, Problems};
pub use record::{Entry, LossRecord, Record};
pub use trace::Trace;

/// A range of time, in nanoseconds since 1970-01-01 UTC; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First moment.
    pub from: i64,
    /// Last moment.
    pub to: i64,
}

impl Range {
    /// All of time.
    pub const ALL: Range = Range { from: i64::MIN, to: i64::MAX };
}

impl Default for Range {
    fn default() -> Range {
        Range::ALL
    }
}
