//! The trace clock.
//!
//! # Which clock
//! Events are stamped with *ticks* of a [`Source`]: the time-stamp counter where the kernel itself
//! keeps time with it ([`Source::choose`]), else `CLOCK_MONOTONIC` in nanoseconds. The kernel
//! takes `tsc` as its clocksource only after it has checked that the counters of all CPUs run
//! together, and drops it when a watchdog finds that they no longer do, so its choice is better
//! evidence than any check of ours. When the clock is not the TSC, everything else stays as it
//! is: ticks are nanoseconds, the frequency is 10^9 Hz, the conversion to monotonic time is the
//! identity; only the cost of an event rises, by that of one `clock_gettime`.
//!
//! # Agreement with the kernel
//! Ticks are made comparable with the kernel's clocks by [`Sample`]s: the same moment on the
//! counter, on `CLOCK_MONOTONIC` and on `CLOCK_REALTIME`, with a bound of its own error. Take one
//! at each end of a trace and one every [`SAMPLE_INTERVAL_NS`] between. Out of them come
//! - a [`Timeline`]: piecewise linear, follows the slewing of the kernel's clock (NTP), for mote's
//!   own tools; how close it stays is derived in [`timeline`];
//! - a [`Conversion`]: one frequency and one offset for the whole trace, which is all that a CTF
//!   clock class can say. It agrees with the kernel at both ends of the trace;
//!   [`Conversion::worst_deviation_ns`] says by how much it strays between them.
//!
//! Both show time as LTTng does: monotonic time plus an offset to the Unix epoch that is taken
//! once, at the first sample. When the wall clock is set during a trace, the time line does
//! not bend.
//!
//! # Why not the conversion that perf publishes
//! The first page of a perf mapping has `time_mult`, `time_shift` and `time_zero`
//! (`perf_event_open(2)`, `cap_user_time_zero`), ready to use without any sampling. They convert
//! the TSC to `sched_clock`, the clock of perf's own records: a fixed rate from the kernel's
//! calibration at boot, started at an arbitrary point, never slewed. `CLOCK_MONOTONIC` is
//! disciplined by NTP and runs away from it by tens of parts per million, so after a minute the
//! two differ by milliseconds. The kernel's present multiplier for `CLOCK_MONOTONIC` lies in the
//! vDSO's data page, whose layout is no interface and changes from version to version.
//!
//! # Counters narrower than 64 bits
//! [`extend`] reads time stamps that were *stored* with fewer bits (48 in an event header).
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod convert;
pub mod extend;
mod sample;
mod segment;
mod source;
pub mod timeline;

pub use convert::{Conversion, frequency_error_ppb, frequency_hz};
pub use sample::{Sample, quick_pair};
pub use segment::Segment;
pub use source::{Choice, ClocksourceName, Source, Verdict};
pub use timeline::{Cursor, Disorder, Timeline};

/// How often to sample during a trace, in nanoseconds: ten times a second.
///
/// A sample costs 2 to 3 us, so this is 0.003 % of one CPU. Module [`timeline`] derives what
/// accuracy it buys.
pub const SAMPLE_INTERVAL_NS: u64 = 100_000_000;

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: u64 = 1_000_000_000;
