//! Which other threads run in this process, and whether a breakpoint would kill them.
//!
//! The kernel kills a thread that meets an int3 while it blocks SIGTRAP (`force_sig`), and a debugger takes the
//! trap away. So before a batch we look for both. What we look at changes under us; what remains is in
//! `docs/soundness/patch.md`, "Residual races".

use crate::arch::SYS_IO_PGETEVENTS;
use crate::maps::hex;
use core::ops::ControlFlow;
use mote_sys::mem::read_own;
use mote_sys::tasks::{self, Task};
use mote_sys::{Result, fd, process, signal};

/// `/proc` text of one thread is below 2 KiB; what is beyond is not looked at.
type Buffer = [u8; 4096];

/// True when one of these signals of the processor's could kill a thread, or not reach our handlers, which are
/// installed.
///
/// # Cost
/// Three reads in `/proc` for each thread, and 63 other system calls.
pub(crate) fn is_closed(signals: Signals) -> bool {
    a_handler_blocks(signals) || a_thread_blocks(signals).unwrap_or(true)
}

/// What is to be known of this process before its text is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// It has one thread, for sure.
    pub(crate) is_alone: bool,
    /// Other pages may come to be where its text is: no debugger writes there, and no memory is locked, as that of
    /// programs is that must not meet a fault.
    pub(crate) may_remap: bool,
}

/// Looks at this process.
///
/// # Cost
/// One read of `/proc/self/status`.
pub(crate) fn own() -> Own {
    let mut buffer: Buffer = [0; 4096];
    let status =
        fd::open(c"/proc/self/status", libc::O_RDONLY, 0).and_then(|file| fd::read(&file, &mut buffer));
    status.map_or(Own::default(), |len| own_by(buffer.get(..len).unwrap_or_default()))
}

fn own_by(status: &[u8]) -> Own {
    let is = |name, value: &[u8]| field(status, name) == Some(value);
    Own { is_alone: is(b"Threads:", b"1"), may_remap: is(b"TracerPid:", b"0") && is(b"VmLck:", b"0 kB") }
}

/// Signals by which threads come to our handlers, as a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signals(u64);

impl Signals {
    /// SIGTRAP: of breakpoints.
    pub(crate) const TRAP: Signals = Signals(signal::bit(libc::SIGTRAP));
    /// And SIGILL: of guards that are no breakpoints.
    pub(crate) const TRAP_AND_INVALID: Signals = Signals(signal::TRAPS);

    fn has(self, number: i32) -> bool {
        self.are_in(signal::bit(number))
    }

    /// Whether one of them is in a mask.
    fn are_in(self, mask: u64) -> bool {
        mask & self.0 != 0
    }
}

/// True when some signal's handler runs with one of these blocked: it could start at any moment, on any thread.
///
/// They themselves do not count: while a batch runs their handlers are ours.
fn a_handler_blocks(signals: Signals) -> bool {
    (1..=64).filter(|number| !signals.has(*number)).any(|number| {
        signal::action(number)
            .is_ok_and(|action| action.handler > libc::SIG_IGN && signals.are_in(action.mask))
    })
}

/// True when a thread other than the caller blocks one of them, or may once its system call ends, or is traced.
///
/// The caller runs nothing but this crate until the batch is done, and meets no site there.
fn a_thread_blocks(signals: Signals) -> Result<bool> {
    let me = Task(process::tid() as u32);
    let mut found = false;
    tasks::each(|task| {
        found = task != me && thread_blocks(task, signals);
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// True when a thread blocks one of them, or may once its system call ends, or when a debugger takes its traps; false
/// when it has gone.
fn thread_blocks(task: Task, signals: Signals) -> bool {
    // Before and behind: one that waits again and again is in neither look, or it has waited for less than a look.
    is_in_wait(task, signals) || is_closed_now(task, signals) || is_in_wait(task, signals)
}

/// True when a thread blocks one of them at this moment, or when a debugger takes its traps; false when it has gone.
fn is_closed_now(task: Task, signals: Signals) -> bool {
    let mut buffer: Buffer = [0; 4096];
    let Ok(len) = task.read("status", &mut buffer) else { return false };
    let status = buffer.get(..len).unwrap_or_default();
    let is_traced = field(status, b"TracerPid:") != Some(b"0");
    let is_open = field(status, b"SigBlk:").and_then(hex).is_some_and(|mask| !signals.are_in(mask as u64));
    is_traced || !is_open
}

/// True when a thread may block one of them once its system call ends.
///
/// Not every kernel has this file; without it the race of a thread that leaves `sigwait` stays.
fn is_in_wait(task: Task, signals: Signals) -> bool {
    let mut buffer: Buffer = [0; 4096];
    let read = task.read("syscall", &mut buffer);
    read.is_ok_and(|len| waits_with_other_mask(buffer.get(..len).unwrap_or_default(), signals))
}

/// True when `call`, the text of `/proc/.../syscall`, is a wait with a signal mask for its duration, after
/// which one of the signals could be blocked.
fn waits_with_other_mask(call: &[u8], signals: Signals) -> bool {
    let mut words = call.trim_ascii_end().split(|byte| *byte == b' ');
    let Some(call) = words.next().and_then(number) else { return false };
    let mut argument = |n| {
        let word = words.nth(n).unwrap_or_default();
        hex(word.strip_prefix(b"0x").unwrap_or_default()).unwrap_or(0)
    };
    match call as libc::c_long {
        // Waits for signals that the thread blocks otherwise.
        libc::SYS_rt_sigtimedwait => waited_for(argument(0)).is_none_or(|mask| signals.are_in(mask)),
        libc::SYS_rt_sigsuspend => true,
        libc::SYS_ppoll => argument(3) != 0,
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 | libc::SYS_io_uring_enter => argument(4) != 0,
        libc::SYS_pselect6 | SYS_IO_PGETEVENTS => argument(5) != 0,
        _ => false,
    }
}

/// The signal set at `addr` of another thread's stack, which may vanish: read in a way that cannot fault.
fn waited_for(addr: usize) -> Option<u64> {
    let mut set = [0; size_of::<u64>()];
    let read = read_own([(addr, set.len())], &mut set);
    (read == set.len()).then(|| u64::from_ne_bytes(set))
}

/// The word behind `name` at the start of a line.
fn field<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii)
}

fn number(digits: &[u8]) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_status() {
        let status = b"Name:\tx\nTracerPid:\t0\nThreads:\t12\nSigBlk:\t0000000000000010\n";
        assert_eq!(field(status, b"Threads:"), Some(&b"12"[..]));
        assert_eq!(field(status, b"SigBlk:").and_then(hex), Some(0x10));
        assert!(Signals::TRAP.are_in(0x10) && Signals::TRAP_AND_INVALID.are_in(0x10));
        assert!(!Signals::TRAP.are_in(!0x10) && Signals::TRAP_AND_INVALID.are_in(!0x10));
        assert!(Signals::TRAP_AND_INVALID.has(libc::SIGILL) && !Signals::TRAP.has(libc::SIGILL));
        assert_eq!(field(status, b"Nothing:"), None);
    }

    #[test]
    fn what_status_says_of_this_process() {
        let own = |status: &str| {
            let Own { is_alone, may_remap } = own_by(status.as_bytes());
            (is_alone, may_remap)
        };
        assert_eq!(own("TracerPid:\t0\nVmLck:\t       0 kB\nThreads:\t1\n"), (true, true));
        assert_eq!(own("TracerPid:\t7\nVmLck:\t       0 kB\nThreads:\t12\n"), (false, false));
        assert_eq!(own("TracerPid:\t0\nVmLck:\t       4 kB\nThreads:\t2\n"), (false, false));
        assert_eq!(own(""), (false, false));
        assert_eq!(super::own(), Own { is_alone: false, may_remap: true });
    }

    #[test]
    fn waits_that_change_the_mask() {
        let check = |call: &[u8], expect| assert_eq!(waits_with_other_mask(call, Signals::TRAP), expect);
        check(b"running\n", false);
        check(b"-1 0x7ffc 0x7f\n", false);
        check(b"130 0x7ffd 0x8 0x0 0x0 0x0 0x0 0x1 0x2\n", true);
        check(b"271 0x7ffd 0x1 0x0 0x0 0x8 0x0 0x1 0x2\n", false);
        check(b"271 0x7ffd 0x1 0x0 0x7ffe 0x8 0x0 0x1 0x2\n", true);
        check(b"281 0x3 0x7f00 0x10 0xffffffff 0x0 0x8 0x1 0x2\n", false);
        check(b"281 0x3 0x7f00 0x10 0xffffffff 0x7f 0x8 0x1 0x2\n", true);
        check(b"270 0x3 0x7f00 0x10 0x0 0x0 0x0 0x1 0x2\n", false);
        let sets = [0x10u64, 0x20];
        for (set, expect) in sets.iter().zip([true, false]) {
            let call = std::format!("128 {:#x} 0x0 0x0 0x8 0x0 0x0 0x1 0x2\n", &raw const *set as usize);
            check(call.as_bytes(), expect);
        }
        check(b"128 0x8 0x0 0x0 0x8 0x0 0x0 0x1 0x2\n", true);
    }

    extern crate std;
}
