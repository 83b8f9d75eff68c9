//! The kernel's clocks. [`crate::tsc`] has the processor's.

use crate::Result;
use crate::raw::syscall;

/// A clock of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ClockId {
    /// Wall clock, nanoseconds since 1970-01-01 UTC.
    Realtime = libc::CLOCK_REALTIME,
    /// Never set back; slewed by NTP. What the kernel's tracers show by default.
    Monotonic = libc::CLOCK_MONOTONIC,
    /// Never set back, not slewed.
    MonotonicRaw = libc::CLOCK_MONOTONIC_RAW,
    /// What the calling thread has had of processors. A system call.
    ThreadCpu = libc::CLOCK_THREAD_CPUTIME_ID,
}

/// Reads a clock of the kernel through the vDSO, in nanoseconds.
///
/// # Errors
/// None in practice: the clock ids of [`ClockId`] exist on every Linux.
///
/// # Signal safety
/// Callable from a handler; `errno` stays as it is because the call cannot fail.
#[inline]
pub fn clock_gettime(clock: ClockId) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid, writable timespec.
    let _ = unsafe { libc::clock_gettime(clock as i32, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How often the kernel counts time by itself, in nanoseconds: the resolution of `CLOCK_MONOTONIC_COARSE`, which is a
/// tick (`jiffies`).
pub fn tick_ns() -> u64 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 4_000_000 };
    // SAFETY: `tick` is a valid, writable timespec.
    let _ = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut tick) };
    tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
}

/// Sleeps for `nanos` nanoseconds, or until a signal arrives.
///
/// # Errors
/// `EINTR` when a signal arrived first.
pub fn sleep(nanos: u64) -> Result<()> {
    let wanted =
        libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    // SAFETY: `wanted` outlives the call; the remainder pointer is null, which the call allows.
    unsafe { syscall(libc::SYS_nanosleep, [&raw const wanted as usize, 0, 0, 0, 0, 0]) }.map(drop)
}
