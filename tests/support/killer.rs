//! Kills a program at a chosen system call of one of its threads (ptrace(2)).

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{fs, io};

/// Waits for children of the calling thread only: other claims have theirs.
const WAIT: i32 = libc::__WALL | libc::__WNOTHREAD;
/// How many calls a new thread may make before it has its name.
const NAMING: u32 = 40;

/// How a thread is followed.
#[derive(Default)]
struct Thread {
    tid: i32,
    /// The chosen one.
    is_it: bool,
    /// Not it, for sure.
    is_other: bool,
    /// Its next stop is a call's end.
    inside: bool,
    calls: u32,
}

fn ptrace(request: u32, tid: i32, data: usize) {
    // SAFETY: the requests here touch no memory of ours. Who has died meanwhile is told by wait4.
    let _ = unsafe { libc::ptrace(request, tid, 0usize, data) };
}

/// Runs a recorder, and kills it when its threads of this name are about to make their call number `number`, from 0 on.
/// When the first of them ends before, the recorder is asked to end by SIGINT. Returns whether it was killed.
pub(crate) fn killed_at_call(command: &mut Command, thread: &str, number: u64) -> bool {
    let trace_me = || {
        // What was started behind a shell ignores it.
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        // SAFETY: no memory; the parent traces us from now on.
        let done = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: one system call.
    let child = unsafe { command.pre_exec(trace_me) }.spawn().expect("it starts");
    // Waited for below, as all that are traced.
    let pid = std::mem::ManuallyDrop::new(child).id() as i32;
    let mut threads: Vec<Thread> = vec![Thread { tid: pid, is_other: true, ..Thread::default() }];
    let mut made = 0;
    let mut was_killed = false;
    let mut is_first = true;
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes to `status`.
        let tid = unsafe { libc::waitpid(-1, &mut status, WAIT) };
        assert!(tid > 0, "it ends with a status");
        let stopped = libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status));
        let Some(signal) = stopped else {
            if tid == pid {
                return was_killed;
            }
            // The first of this name makes the others, and ends after them.
            let first = threads.iter().find(|known| known.is_it).map(|known| known.tid);
            if first == Some(tid) && !was_killed {
                // SAFETY: no memory.
                unsafe { libc::kill(pid, libc::SIGINT) };
            }
            continue;
        };
        if is_first {
            is_first = false;
            let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
            ptrace(libc::PTRACE_SETOPTIONS, pid, options as usize);
        }
        if !threads.iter().any(|known| known.tid == tid) {
            threads.push(Thread { tid, ..Thread::default() });
        }
        let Some(known) = threads.iter_mut().find(|known| known.tid == tid) else { continue };
        let is_call = signal == libc::SIGTRAP | 0x80;
        if is_call {
            known.inside = !known.inside;
            known.calls += 1;
            let name = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
            known.is_it |= name.trim() == thread;
            known.is_other |= !known.is_it && known.calls > NAMING;
            if known.is_it && known.inside {
                if made == number {
                    was_killed = true;
                    // SAFETY: no memory.
                    unsafe { libc::kill(pid, libc::SIGKILL) };
                    continue;
                }
                made += 1;
            }
        }
        // A new thread begins with SIGSTOP, events of ours come as SIGTRAP.
        let is_ours = is_call || signal == libc::SIGTRAP || signal == libc::SIGSTOP;
        let request = if known.is_other { libc::PTRACE_CONT } else { libc::PTRACE_SYSCALL };
        ptrace(request, tid, if is_ours { 0 } else { signal as usize });
    }
}
