//! Clocks for measuring: wall time, and the time that a thread really ran.
//!
//! The cost of an event is measured in the thread's own CPU time: on a machine with other work it is the same as on an
//! idle one, but for shared caches. Where waiting is part of the cost (disk, startup) wall time is taken.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds that the calling thread has run.
pub(crate) fn thread_ns() -> u64 {
    nanos(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds that all threads of this process have run.
pub(crate) fn process_ns() -> u64 {
    nanos(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, which all processes share.
pub(crate) fn wall_ns() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// A clock that cannot be read stands still; no such kernel is known.
fn nanos(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Seconds of CPU time, user and system, of the children that have ended.
pub(crate) fn children_seconds() -> f64 {
    let seconds = |usage: Usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        micros as f64 / 1e6
    };
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, seconds)
}
