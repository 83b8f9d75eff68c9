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
//! [`Events`] is one [`Source`]; analyses and views take any. Where its packets come from is a [`Storage`]: a file,
//! memory, a session that still records (`mote_live::Growing`), later a decoder that makes packets ([`Trace::of`]).
//!
//! # While it is recorded
//! The crate `live` reads a recording that still grows: packets, streams, events and names come to it while it is read.
//! What of that changes a [`Trace`] or [`Events`] is here: [`Trace::extend`], [`Events::pause`], [`Events::arrived`].
//!
//! # Moments
//! [`Events::seek`] goes to a range of time, forward or back. What packet headers say of times and sizes is kept on the
//! way as an index, which is never written to a file: computing it costs one small read for each packet, some
//! milliseconds for a recording of ten million events.
//!
//! # Damage
//! Broken input ends nothing but the packet that it is in: reading goes on at the next packet that can be found, and
//! what was wrong, and how many bytes were passed over, is a [`Problem`].
//!
//! # Cost
//! Memory: one packet and at most 200 KiB of index per stream. Files are read with `pread`, never mapped, so a
//! recording that is cut or rewritten meanwhile cannot kill the reader. Time: bench `view`, case `null`.
#![forbid(unsafe_code)]

mod clock;
mod context;
mod discover;
mod facts;
mod growth;
mod index;
mod loss;
mod merge;
mod merge_heap;
mod origin;
mod pause;
mod problem;
mod reader;
mod record;
mod source;
mod storage;
mod trace;
mod window;

pub use facts::{Facts, Named};
pub use growth::{Growth, NoGrowth};
pub use loss::{Loss, Place};
pub use merge::Events;
pub use origin::{ClassId, Origin, Stream};
pub use pause::Paused;
pub use problem::{Fault, OpenError, Problem, Problems};
pub use record::{Entry, LossRecord, Record};
pub use source::Source;
pub use storage::{Bytes, Storage, copy_at};
pub use trace::{Part, Trace};

/// A range of time, in nanoseconds since 1970-01-01 UTC; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First moment that belongs to it.
    pub from: i64,
    /// Last moment that belongs to it.
    pub to: i64,
}

impl Range {
    /// Every moment that a trace can have.
    pub const ALL: Range = Range { from: i64::MIN, to: i64::MAX };
}

impl Default for Range {
    fn default() -> Range {
        Range::ALL
    }
}
