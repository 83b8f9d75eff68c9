//! When instructions were executed: time stamp counter values between bounds that are always true.
//!
//! ```text
//! packets ─ Points ─▶ Point: when, by the timing packets ─┐
//! packets ─ Flow ─▶ blocks, events ───────────────────────┴─ Timed ─▶ blocks and events, each with its Moment
//! ```
//! [`Points`] reads packets only, and runs ahead of the flow: what is behind an instruction bounds its time from above.
//! [`Timed`] is a [`crate::flow::Sink`] that has the points of the same packets. [`calls`] gives calls their times,
//! [`Nanoseconds`] is what a time stamp counter means, [`Resolution`] how fine the times of a trace are.
//!
//! # What bounds a time (SDM 33.3.6.2, 33.4.2.10 to 33.4.2.14, 33.8.3)
//! | packet | |
//! |---|---|
//! | TSC | packets before it are of instructions that were executed before, those behind it of later ones |
//! | MTC | the same, of a tick of the crystal clock (ART), which TMA has related to a TSC: 8 of its bits |
//! | CYC | the same, of a core cycle; the packet directly behind it is of that very cycle |
//! | CBR | core cycles have another length from here on, which is then constant up to the next CBR |
//!
//! Of a TNT packet it is the first branch whose cycle a CYC tells. Code between two branches lies between their times.
//!
//! How long core cycles are follows from CBR, where [`Clocks::bus`] is known, and from the cycles between two points of
//! the other clocks. Both give bounds, which are intersected with those of the packets around. No bound is taken from
//! averages of other parts of a trace.
//!
//! # What is not known
//! A bound that no packet gives is absent. Behind lost packets (OVF, damage) it is unknown how many times the 8 bits of
//! MTC or the counter of cycles have wrapped: MTC is a lower bound there, CYC is none, up to the next TSC.
//!
//! Other readers give one number instead. Where the manual leaves room, what they do is the model: libipt's
//! `pt_time.c`, perf's `intel-pt-decoder.c` (Linux 6.1).

mod bounds;
pub mod calls;
mod clocks;
mod crystal;
mod cycles;
mod nanoseconds;
mod points;
mod resolution;
mod span;
mod timed;
mod waiting;

pub use clocks::Clocks;
pub use nanoseconds::Nanoseconds;
pub use points::{Point, Points};
pub use resolution::Resolution;
pub use span::Span;
pub use timed::{Moment, Timed, TimedSink};
