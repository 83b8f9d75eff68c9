//! Clocks in a process that may forbid itself the time-stamp counter.
//!
//! `prctl(PR_SET_TSC, PR_TSC_SIGSEGV)` does that to a thread, and so does strict seccomp (`disable_TSC` in the kernel):
//! RDTSC and RDTSCP fail then, also those of the kernel's own code in the process (vDSO), which `clock_gettime` runs. A
//! thread cannot see beforehand whether they would: asking is a system call, which a sandbox may kill for. So code that
//! reads the counter in a process of others says in the section `mote_clocks` where the instruction is and where to go
//! on if it fails, and a handler of SIGSEGV asks [`resume`]. In a restartable sequence it is the abort handler that
//! stands for the instruction: the kernel has sent the thread there before it runs the handler of a signal.
//!
//! # What is left then
//! System calls, when it is known that the process may make them ([`allow_calls`]): the kernel's clock, or the counter,
//! allowed for a moment. Else no clock.

use crate::raw::syscall;
use crate::signal;
use crate::time::{ClockId, clock_gettime};
use crate::{arch, exception_table};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

/// The kernel's name for the counter, when that is what it keeps time with (`clocksource` in sysfs).
pub const CLOCKSOURCE: &str = arch::CLOCKSOURCE;

/// Of linux/prctl.h; libc does not name them.
const PR_GET_TSC: i32 = 25;
const PR_SET_TSC: i32 = 26;
const PR_TSC_ENABLE: i32 = 1;
const PR_TSC_SIGSEGV: i32 = 2;

/// The thread may make system calls beside those of strict seccomp.
static CALLS: AtomicBool = AtomicBool::new(false);

exception_table! {
    mote_clocks:
    /// Where a thread goes on that failed at `ip` ([`signal::Registers::is_denied_counter`]), if that is where we read
    /// the counter.
    ///
    /// # Cost
    /// Linear in the places that read it, some tens.
    ///
    /// # Signal safety
    /// Reads constants only.
    pub fn resume
}

/// Whether the calling thread may read the counter (prctl(2), `PR_GET_TSC`); true where the kernel does not say.
pub fn is_allowed() -> bool {
    let mut mode = 0i32;
    // SAFETY: PR_GET_TSC writes one int.
    let asked =
        unsafe { syscall(libc::SYS_prctl, [PR_GET_TSC as usize, &raw mut mode as usize, 0, 0, 0, 0]) };
    asked.is_err() || mode != PR_TSC_SIGSEGV
}

/// Allows the calling thread the counter, for good.
pub fn enable() {
    set(PR_TSC_ENABLE);
}

/// Notes that threads without the counter may make system calls for a clock: it is not strict seccomp that has taken it
/// from them.
pub fn allow_calls() {
    CALLS.store(true, Ordering::Relaxed);
}

/// The counter, in its own unit, for a program that has not forbidden it to itself: ours.
///
/// # Cost
/// About 8 ns on a virtual machine; bench `event_cost`, case `rdtsc`.
#[inline(always)]
pub fn count() -> u64 {
    arch::count()
}

/// The counter, if the calling thread may read it and a handler of SIGSEGV asks [`resume`].
#[inline]
pub fn read() -> Option<u64> {
    arch::count_guarded()
}

/// Whether [`read_after_loads`] may be called.
///
/// # Cost
/// A microsecond or two in a virtual machine.
pub fn can_read_after_loads() -> bool {
    arch::can_count_after_loads()
}

/// As [`read`], read when the instructions before it have been executed and their loads are done.
///
/// # Safety
/// [`can_read_after_loads`].
#[inline]
pub unsafe fn read_after_loads() -> Option<u64> {
    // SAFETY: the caller's promise.
    unsafe { arch::count_guarded_after_loads() }
}

/// Waits until the loads before it are done: what [`read`] needs in front of it where there is no [`read_after_loads`].
#[inline(always)]
pub fn finish_loads() {
    arch::finish_loads();
}

/// Whether the processor promises that the counter runs at one rate, whatever its power state.
///
/// # Cost
/// A microsecond or two in a virtual machine.
pub fn is_invariant() -> bool {
    arch::is_invariant()
}

/// `CLOCK_MONOTONIC` in nanoseconds; `None` where the calling thread has no clock.
///
/// # Cost
/// That of `clock_gettime` and of reading the counter: it is tried first, because the vDSO's own code cannot be helped
/// when it fails.
///
/// # Signal safety
/// Callable from a handler.
pub fn monotonic() -> Option<u64> {
    if read().is_some() {
        return Some(clock_gettime(ClockId::Monotonic));
    }
    CALLS.load(Ordering::Relaxed).then(monotonic_by_call)
}

/// `CLOCK_MONOTONIC` in nanoseconds, by the system call: for what is not on a probe's path.
pub fn monotonic_by_call() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = ClockId::Monotonic as usize;
    // SAFETY: the kernel writes one timespec. It cannot fail for this clock.
    let _ = unsafe { syscall(libc::SYS_clock_gettime, [clock, &raw mut now as usize, 0, 0, 0, 0]) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// While it lives, the calling thread may read the counter, and takes no signal but those that it raises itself.
#[derive(Debug)]
pub struct Allowed {
    mask: u64,
    /// Of this thread: not `Send`.
    thread: PhantomData<*mut ()>,
}

/// Allows a thread the counter that it has forbidden itself, if it is known that it may make system calls.
///
/// # Cost
/// Two system calls, and two more when it is dropped.
///
/// # Signal safety
/// Callable from a handler.
pub fn allow() -> Option<Allowed> {
    if !CALLS.load(Ordering::Relaxed) {
        return None;
    }
    let allowed = Allowed { mask: signal::block(!signal::chain::SYNCHRONOUS), thread: PhantomData };
    set(PR_TSC_ENABLE).then_some(allowed)
}

impl Drop for Allowed {
    fn drop(&mut self) {
        set(PR_TSC_SIGSEGV);
        signal::set_mask(self.mask);
    }
}

fn set(mode: i32) -> bool {
    // SAFETY: PR_SET_TSC touches no memory.
    unsafe { syscall(libc::SYS_prctl, [PR_SET_TSC as usize, mode as usize, 0, 0, 0, 0]) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_it_is_allowed_it_is_read() {
        assert!(is_allowed());
        let first = read().unwrap();
        assert!(read().unwrap() >= first);
        let before = clock_gettime(ClockId::Monotonic);
        let (now, by_call) = (monotonic().unwrap(), monotonic_by_call());
        assert!(before <= now && now <= by_call);
    }

    #[test]
    fn instructions_of_others_do_not_go_on() {
        assert_eq!(resume(0), None);
        assert_eq!(resume(read as *const () as u64 + 0x1000_0000), None);
    }
}
