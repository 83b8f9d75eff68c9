//! Clocks: the time-stamp counter and the kernel's clocks.

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
}

/// Reads the time-stamp counter, in cycles.
///
/// # Cost
/// About 8 ns on a virtual machine; bench `event_cost`, case `rdtsc`.
#[inline(always)]
pub fn rdtsc() -> u64 {
    // SAFETY: RDTSC is unprivileged unless CR4.TSD is set, which Linux does only on request (prctl).
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the processor has RDTSCP ([`rdtscp`]).
///
/// # Cost
/// CPUID twice: a microsecond or two in a virtual machine.
pub fn has_rdtscp() -> bool {
    use core::arch::x86_64::__cpuid;
    const EXTENDED: u32 = 0x8000_0001;
    __cpuid(0x8000_0000).eax >= EXTENDED && __cpuid(EXTENDED).edx & (1 << 27) != 0
}

/// As [`rdtsc`], but read when the instructions before it have been executed and their loads are done (SDM vol. 2 and APM vol. 3, RDTSCP). An LFENCE before
/// RDTSC does that on Intel's processors; on AMD's it must have been switched on (APM vol. 3, LFENCE), which a guest can neither do nor always see.
///
/// # Safety
/// [`has_rdtscp`].
#[inline(always)]
pub unsafe fn rdtscp() -> u64 {
    let mut _cpu = 0;
    // SAFETY: the caller's promise; unprivileged as RDTSC is.
    unsafe { core::arch::x86_64::__rdtscp(&mut _cpu) }
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

/// How often the kernel counts time by itself, in nanoseconds: the resolution of `CLOCK_MONOTONIC_COARSE`, which is a tick (`jiffies`).
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
