//! Stopping a thread of another process, looking at its registers, and letting it go (ptrace(2), by `PTRACE_SEIZE`).
//!
//! The thread that calls [`seize`] is the tracer: the other calls work on it only, and when it ends, however it ends,
//! the kernel lets all its threads go.

use crate::raw::syscall;
use crate::{Errno, Result};
use core::mem::MaybeUninit;

const SEIZE: usize = 0x4206;
const INTERRUPT: usize = 0x4207;
const GETREGSET: usize = 0x4204;
const SETREGSET: usize = 0x4205;
const DETACH: usize = 17;
const CONT: usize = 7;
const SINGLESTEP: usize = 9;
const GETSIGMASK: usize = 0x420a;
const SETSIGMASK: usize = 0x420b;
const SETOPTIONS: usize = 0x4200;
const LISTEN: usize = 0x4208;
const SEQUENCES: usize = 0x420f;
/// Have the thread stop in exec (`PTRACE_O_TRACEEXEC`), and the event of that stop.
const OPTION_EXEC: usize = 1 << 4;
const EVENT_EXEC: i32 = 4;
/// Have what it forks and clones traced, too (`PTRACE_O_TRACEFORK`, `..VFORK`, `..CLONE`), and the events of its stops.
const OPTION_CHILDREN: usize = 1 << 1 | 1 << 2 | 1 << 3;
const EVENTS_CHILDREN: core::ops::RangeInclusive<i32> = 1..=3;
/// General registers (`elf.h`).
const NT_PRSTATUS: usize = 1;
/// The event of a stop that [`interrupt`] has asked for, or that is a group's (`PTRACE_EVENT_STOP`).
const EVENT_STOP: i32 = 128;

/// How a traced thread was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not stopped.
    Runs,
    /// It has stopped because [`interrupt`] has asked for it.
    Interrupted,
    /// Its whole process is being stopped, by SIGSTOP or a terminal.
    GroupStop,
    /// It has become another program, of which no instruction has run ([`seize_until_exec`]).
    Exec,
    /// It has a child or another thread, which is traced, too ([`follow_children`]).
    Bears,
    /// It is about to take this signal, which [`detach`] has to give back.
    Signal(i32),
    /// It has ended.
    Gone,
}

/// Begins to trace a thread; it goes on running.
///
/// # Errors
/// `EPERM` when it is traced already or may not be traced by us, `ESRCH` when it is not there.
pub fn seize(tid: i32) -> Result<()> {
    // SAFETY: without options no memory of ours is involved.
    unsafe { syscall(libc::SYS_ptrace, [SEIZE, tid as usize, 0, 0, 0, 0]) }.map(drop)
}

/// As [`seize`]; it stops when it has become another program.
///
/// # Errors
/// As [`seize`].
pub fn seize_until_exec(tid: i32) -> Result<()> {
    // SAFETY: no memory of ours is involved.
    unsafe { syscall(libc::SYS_ptrace, [SEIZE, tid as usize, 0, OPTION_EXEC, 0, 0]) }.map(drop)
}

/// Whether what a stopped thread forks and clones from now on is traced by us, too; it stops in exec in either case.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn follow_children(tid: i32, follow: bool) -> Result<()> {
    let options = if follow { OPTION_EXEC | OPTION_CHILDREN } else { OPTION_EXEC };
    // SAFETY: no memory.
    unsafe { syscall(libc::SYS_ptrace, [SETOPTIONS, tid as usize, 0, options, 0, 0]) }.map(drop)
}

/// Leaves a thread of a stopped process stopped, until that is continued.
///
/// # Errors
/// `ESRCH` when it has not stopped so.
pub fn listen(tid: i32) -> Result<()> {
    // SAFETY: no memory.
    unsafe { syscall(libc::SYS_ptrace, [LISTEN, tid as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Has a stopped thread go on, with a signal or 0; it stays traced.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn resume(tid: i32, signal: i32) -> Result<()> {
    // SAFETY: no memory.
    unsafe { syscall(libc::SYS_ptrace, [CONT, tid as usize, 0, signal as usize, 0, 0]) }.map(drop)
}

/// As [`resume`], for one instruction: the thread stops with `SIGTRAP` behind it, or where a handler begins.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn step(tid: i32, signal: i32) -> Result<()> {
    // SAFETY: no memory.
    unsafe { syscall(libc::SYS_ptrace, [SINGLESTEP, tid as usize, 0, signal as usize, 0, 0]) }.map(drop)
}

/// Asks a traced thread to stop; [`state`] tells when it has.
///
/// # Errors
/// `ESRCH`.
pub fn interrupt(tid: i32) -> Result<()> {
    // SAFETY: no memory.
    unsafe { syscall(libc::SYS_ptrace, [INTERRUPT, tid as usize, 0, 0, 0, 0]) }.map(drop)
}

/// How a traced thread is. Does not wait, and leaves the stop to be told again (`WNOWAIT`): a signal that a thread is
/// about to take is lost when its tracer has been told of it and dies before it gives it back.
///
/// # Errors
/// `ECHILD` when we do not trace it.
pub fn state(tid: i32) -> Result<State> {
    wait((libc::P_PID, tid), libc::WNOHANG | libc::WNOWAIT).map(|(_, state)| state)
}

/// A thread that the calling one traces, and that has stopped or ended, and how; 0 and [`State::Runs`] when there is
/// none. As [`state`] otherwise.
///
/// # Errors
/// `ECHILD` when it traces none.
pub fn any_state() -> Result<(i32, State)> {
    wait((libc::P_ALL, 0), libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD)
}

/// As [`any_state`], and waits until there is one: never [`State::Runs`].
///
/// # Errors
/// As [`any_state`]; `EINTR`.
pub fn next_state() -> Result<(i32, State)> {
    wait((libc::P_ALL, 0), libc::WNOWAIT | libc::__WNOTHREAD)
}

/// Takes the signal away that a stopped thread was about to take: it goes on without it, also when its tracer dies.
///
/// # Errors
/// As [`state`].
pub fn take_signal(tid: i32) -> Result<()> {
    wait((libc::P_PID, tid), libc::WNOHANG).map(drop)
}

/// Has the kernel forget a traced thread that has ended, so that its own parent is told.
///
/// # Errors
/// As [`state`].
pub fn let_rest(tid: i32) -> Result<()> {
    wait((libc::P_PID, tid), libc::WNOHANG).map(drop)
}

fn wait((whose, id): (libc::idtype_t, i32), more: i32) -> Result<(i32, State)> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let flags = (libc::WSTOPPED | libc::WEXITED | libc::__WALL | more) as usize;
    let arguments = [whose as usize, id as usize, info.as_mut_ptr() as usize, flags, 0, 0];
    // SAFETY: the kernel writes one `siginfo_t` to `info`; no usage is asked for.
    unsafe { syscall(libc::SYS_waitid, arguments) }?;
    // SAFETY: all zero bytes are a valid one, which is what is left when the thread runs.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid(2) fills this part.
    let tid = unsafe { info.si_pid() };
    // SAFETY: and this one.
    let status = unsafe { info.si_status() };
    Ok((tid, meaning(info.si_code, status)))
}

/// What waitid(2) says of a seized thread.
fn meaning(code: i32, status: i32) -> State {
    // The signal is below the event.
    match (code, status & 0xff, status >> 8) {
        (0, ..) => State::Runs,
        (libc::CLD_TRAPPED | libc::CLD_STOPPED, libc::SIGTRAP, EVENT_STOP) => State::Interrupted,
        (libc::CLD_TRAPPED, libc::SIGTRAP, EVENT_EXEC) => State::Exec,
        (libc::CLD_TRAPPED, libc::SIGTRAP, event) if EVENTS_CHILDREN.contains(&event) => State::Bears,
        (libc::CLD_TRAPPED | libc::CLD_STOPPED, _, EVENT_STOP) => State::GroupStop,
        (libc::CLD_TRAPPED | libc::CLD_STOPPED, signal, _) => State::Signal(signal),
        _ => State::Gone,
    }
}

/// The general registers of a stopped thread.
///
/// # Errors
/// `ESRCH` when it has not stopped, `EINVAL` when it is not a thread of this processor's own bitness.
pub fn registers(tid: i32) -> Result<libc::user_regs_struct> {
    let mut into = MaybeUninit::<libc::user_regs_struct>::zeroed();
    let room = size_of::<libc::user_regs_struct>();
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: room };
    // SAFETY: the kernel writes at most `iov_len` bytes to `into`, and the length to `part`.
    unsafe {
        syscall(libc::SYS_ptrace, [GETREGSET, tid as usize, NT_PRSTATUS, &raw mut part as usize, 0, 0])
    }?;
    if part.iov_len != room {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: all zero bytes are valid registers, and the kernel has filled them.
    Ok(unsafe { into.assume_init() })
}

/// Sets the general registers of a stopped thread.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn set_registers(tid: i32, registers: &libc::user_regs_struct) -> Result<()> {
    let from = core::ptr::from_ref(registers).cast_mut().cast();
    let part = libc::iovec { iov_base: from, iov_len: size_of::<libc::user_regs_struct>() };
    // SAFETY: the kernel reads `iov_len` bytes of `registers`; it changes another process, and nothing of ours.
    unsafe {
        syscall(libc::SYS_ptrace, [SETREGSET, tid as usize, NT_PRSTATUS, &raw const part as usize, 0, 0])
    }
    .map(drop)
}

/// The signals that a stopped thread has blocked: bit n - 1 for signal n.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn signal_mask(tid: i32) -> Result<u64> {
    let mut mask = 0_u64;
    let arguments = [GETSIGMASK, tid as usize, size_of::<u64>(), &raw mut mask as usize, 0, 0];
    // SAFETY: the kernel writes one `u64`.
    unsafe { syscall(libc::SYS_ptrace, arguments) }?;
    Ok(mask)
}

/// Sets the signals that a stopped thread has blocked.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn set_signal_mask(tid: i32, mask: u64) -> Result<()> {
    let arguments = [SETSIGMASK, tid as usize, size_of::<u64>(), &raw const mask as usize, 0, 0];
    // SAFETY: the kernel reads one `u64`; it changes another process, and nothing of ours.
    unsafe { syscall(libc::SYS_ptrace, arguments) }.map(drop)
}

/// What `PTRACE_GET_RSEQ_CONFIGURATION` says (`struct ptrace_rseq_configuration`).
#[repr(C)]
#[derive(Default)]
struct Sequences {
    area: u64,
    bytes: u32,
    signature: u32,
    flags: u32,
    _free: u32,
}

/// Where a stopped thread has told the kernel that its restartable sequences are (`struct rseq`); 0 where it has none.
///
/// # Errors
/// `ESRCH` when it has not stopped, `EIO` before Linux 5.13.
pub fn sequences(tid: i32) -> Result<u64> {
    let mut found = Sequences::default();
    let arguments = [SEQUENCES, tid as usize, size_of::<Sequences>(), &raw mut found as usize, 0, 0];
    // SAFETY: the kernel writes one structure of this size, borrowed exclusively.
    unsafe { syscall(libc::SYS_ptrace, arguments) }?;
    Ok(found.area)
}

/// Lets a stopped thread go, with the signal that it was about to take, or 0.
///
/// # Errors
/// `ESRCH` when it has not stopped.
pub fn detach(tid: i32, signal: i32) -> Result<()> {
    // SAFETY: no memory.
    unsafe { syscall(libc::SYS_ptrace, [DETACH, tid as usize, 0, signal as usize, 0, 0]) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart() {
        let stopped = |status| meaning(libc::CLD_TRAPPED, status);
        assert_eq!(meaning(0, 0), State::Runs);
        assert_eq!(stopped(0x8005), State::Interrupted);
        assert_eq!(stopped(0x8013), State::GroupStop);
        assert_eq!(stopped(0x0405), State::Exec);
        assert_eq!(stopped(libc::SIGUSR1), State::Signal(libc::SIGUSR1));
        // A real-time signal.
        assert_eq!(stopped(36), State::Signal(36));
        assert_eq!(meaning(libc::CLD_KILLED, 9), State::Gone);
        assert_eq!(meaning(libc::CLD_EXITED, 0), State::Gone);
    }

    #[test]
    fn who_is_not_there_is_not_traced() {
        assert_eq!(seize(i32::MAX), Err(Errno(libc::ESRCH)));
        assert_eq!(state(i32::MAX), Err(Errno(libc::ECHILD)));
        assert_eq!(registers(i32::MAX).map(drop), Err(Errno(libc::ESRCH)));
    }
}
