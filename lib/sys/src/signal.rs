//! Signals: actions, masks, and handing a signal on to oneself.
//!
//! By raw system call, so that neither `errno` nor an interposed `sigaction` is touched. That needs an
//! own restorer: the code that a handler returns to.

pub mod chain;

pub use crate::arch::Registers;
use crate::raw::syscall;
use crate::{Result, arch};

/// `SA_RESTORER` of the kernel, which libc hides.
const SA_RESTORER: u64 = 0x0400_0000;
/// Bytes of the kernel's signal set.
const SET_BYTES: usize = 8;

/// What a signal does: the kernel's `struct sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// Address of the handler, `libc::SIG_DFL` or `libc::SIG_IGN`.
    pub handler: usize,
    /// `libc::SA_*`, ORed.
    pub flags: u64,
    restorer: usize,
    /// Signals blocked while the handler runs, see [`bit`].
    pub mask: u64,
}

const _: () = assert!(size_of::<Action>() == 32);

impl Action {
    /// An action of `handler` with `flags`, that runs with `mask` blocked.
    pub fn new(handler: usize, flags: i32, mask: u64) -> Action {
        Action { handler, flags: flags as u32 as u64 | SA_RESTORER, restorer: arch::restorer(), mask }
    }
}

/// The bit of `signal` (`1..=64`) in a mask; 0 for a number that is no signal.
pub const fn bit(signal: i32) -> u64 {
    match signal {
        1..=64 => 1 << (signal - 1),
        _ => 0,
    }
}

/// The signals by which breakpoints come to handlers, and bytes that are no instruction: live patching needs them open.
pub const TRAPS: u64 = bit(libc::SIGTRAP) | bit(libc::SIGILL);

/// The present action of `signal`.
///
/// # Errors
/// `EINVAL` when it is no signal.
pub fn action(signal: i32) -> Result<Action> {
    let mut now = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: the kernel writes one `Action` to `now`; a null new action changes nothing.
    unsafe { syscall(libc::SYS_rt_sigaction, [signal as usize, 0, &raw mut now as usize, SET_BYTES, 0, 0]) }?;
    Ok(now)
}

/// Sets the action of `signal` and returns the one before.
///
/// # Errors
/// `EINVAL` for `SIGKILL`, `SIGSTOP` and what is no signal.
///
/// # Safety
/// A handler in `new` is callable with the arguments that its flags say, at any moment, on any thread.
pub unsafe fn set_action(signal: i32, new: &Action) -> Result<Action> {
    let mut before = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: the kernel reads one `Action` and writes one; the handler is the caller's promise.
    unsafe {
        syscall(
            libc::SYS_rt_sigaction,
            [signal as usize, core::ptr::from_ref(new) as usize, &raw mut before as usize, SET_BYTES, 0, 0],
        )
    }?;
    Ok(before)
}

fn change_mask(how: i32, mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: the kernel reads 8 bytes and writes 8 bytes. It cannot fail with these arguments.
    let _ = unsafe {
        syscall(
            libc::SYS_rt_sigprocmask,
            [how as usize, &raw const mask as usize, &raw mut before as usize, SET_BYTES, 0, 0],
        )
    };
    before
}

/// Blocks the signals of `mask` in the calling thread, beside those blocked, and returns the mask before.
pub fn block(mask: u64) -> u64 {
    change_mask(libc::SIG_BLOCK, mask)
}

/// Lets the calling thread take the signals of `mask`, and returns the mask before.
pub fn unblock(mask: u64) -> u64 {
    change_mask(libc::SIG_UNBLOCK, mask)
}

/// Makes `mask` the calling thread's and returns the mask before.
pub fn set_mask(mask: u64) -> u64 {
    change_mask(libc::SIG_SETMASK, mask)
}

/// Signals that wait for the calling thread or its process and are blocked (rt_sigpending(2)).
pub fn pending() -> u64 {
    let mut all = 0u64;
    // SAFETY: the kernel writes 8 bytes. It cannot fail with these arguments.
    let _ = unsafe { syscall(libc::SYS_rt_sigpending, [&raw mut all as usize, SET_BYTES, 0, 0, 0, 0]) };
    all
}

/// Sends `signal` with `info`, as it is, to the calling thread (rt_tgsigqueueinfo(2)).
///
/// # Errors
/// `EAGAIN` when the queue is full, `EPERM` or `ENOSYS` in a sandbox.
///
/// # Safety
/// `info` points to a whole `siginfo_t`.
pub unsafe fn queue_to_self(signal: i32, info: *const libc::siginfo_t) -> Result<()> {
    let (pid, tid) = (crate::process::pid() as usize, crate::process::tid() as usize);
    // SAFETY: the kernel reads one `siginfo_t`, the caller's promise.
    unsafe { syscall(libc::SYS_rt_tgsigqueueinfo, [pid, tid, signal as usize, info as usize, 0, 0]) }
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_signals() {
        assert_eq!(bit(1), 1);
        assert_eq!(bit(libc::SIGTRAP), 1 << 4);
        assert_eq!(bit(64), 1 << 63);
        assert_eq!(bit(0), 0);
        assert_eq!(bit(65), 0);
    }

    #[test]
    fn a_handler_runs_and_returns() {
        use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
        static RUNS: AtomicU32 = AtomicU32::new(0);
        extern "C" fn count(_: i32) {
            RUNS.fetch_add(1, SeqCst);
        }
        let new = Action::new(count as *const () as usize, 0, 0);
        // SAFETY: `count` takes the signal number and only adds to an atomic.
        let before = unsafe { set_action(libc::SIGUSR2, &new) }.unwrap();
        assert_eq!(action(libc::SIGUSR2).unwrap().handler, new.handler);
        // SAFETY: raise(3) of a handled signal.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
        assert_eq!(RUNS.load(SeqCst), 1);
        // SAFETY: puts back what was there.
        unsafe { set_action(libc::SIGUSR2, &before) }.unwrap();
    }
}
