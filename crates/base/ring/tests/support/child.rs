//! Child processes.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seconds after which a child that hangs is killed by SIGALRM.
pub const PATIENCE_S: u32 = 300;

/// Starts a child that runs `life` and leaves; a panic is exit status 101.
pub fn start(life: impl FnOnce()) -> i32 {
    let _ = std::io::stdout().flush();
    // Held across the fork: the child must not wait for a lock that another thread of the parent had.
    let streams = (std::io::stdout().lock(), std::io::stderr().lock());
    // SAFETY: the child has this one thread and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    drop(streams);
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        let panicked = catch_unwind(AssertUnwindSafe(life)).is_err();
        let _ = std::io::stdout().flush();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if panicked { 101 } else { 0 }) };
    }
    pid
}

/// How a child ended: exit status, or 1000 and the signal.
pub fn wait(pid: i32) -> i32 {
    loop {
        if let Some(end) = poll(pid, 0) {
            return end;
        }
    }
}

/// As [`wait`], at once: `None` while it lives.
pub fn ended(pid: i32) -> Option<i32> {
    poll(pid, libc::WNOHANG)
}

fn poll(pid: i32, flags: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: `status` is writable.
    let done = unsafe { libc::waitpid(pid, &mut status, flags) };
    if done != pid {
        let error = std::io::Error::last_os_error();
        assert!(done == 0 || error.kind() == std::io::ErrorKind::Interrupted, "waitpid: {error}");
        return None;
    }
    Some(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1000 + libc::WTERMSIG(status) })
}

pub fn kill(pid: i32, signal: i32) {
    // SAFETY: a signal to a child of ours that was not waited for.
    unsafe { libc::kill(pid, signal) };
}

/// Runs `scenario` in a child of its own, which begins with one thread, and expects it to come to its end.
#[track_caller]
pub fn passes(scenario: impl FnOnce()) {
    let pid = start(|| {
        // SAFETY: alarm(2) only arms a timer.
        unsafe { libc::alarm(PATIENCE_S) };
        scenario();
    });
    assert_eq!(wait(pid), 0, "end of the child");
}
