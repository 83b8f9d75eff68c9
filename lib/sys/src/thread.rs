//! Other threads of the process: are they there, a signal to one of them, and giving way.

use crate::raw::syscall;
use crate::{Errno, Result};

/// Sends `signal` to the thread `tid` of process `pid` (tgkill(2)); signal 0 only looks.
///
/// # Errors
/// `ESRCH` when the process has no such thread, `EAGAIN` when a queue is full, `EPERM` in a sandbox.
pub fn send_signal(pid: i32, tid: i32, signal: i32) -> Result<()> {
    // SAFETY: tgkill touches no memory.
    unsafe { syscall(libc::SYS_tgkill, [pid as usize, tid as usize, signal as usize, 0, 0, 0]) }.map(drop)
}

/// False when process `pid` certainly has no thread `tid` any more.
///
/// A thread of which this is said runs no user code again. The kernel may give its number to a new one.
pub fn exists(pid: i32, tid: i32) -> bool {
    send_signal(pid, tid, 0) != Err(Errno(libc::ESRCH))
}

/// Lets another thread run on this CPU (sched_yield(2)).
pub fn give_way() {
    // SAFETY: no arguments, no memory.
    let _ = unsafe { syscall(libc::SYS_sched_yield, [0; 6]) };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::process::{pid, tid};

    #[test]
    fn a_thread_exists_until_it_has_ended() {
        let other = std::thread::spawn(tid).join().unwrap();
        assert!(exists(pid(), tid()));
        // The kernel takes the thread off its list a moment after pthread_join has returned.
        while exists(pid(), other) {
            give_way();
        }
    }
}
