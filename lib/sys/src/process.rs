//! The calling process and thread: ids, name.

use crate::raw::syscall;
use crate::{Errno, Result};

/// Process id as the process sees it.
pub fn pid() -> i32 {
    // SAFETY: no arguments, no memory.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as i32
}

/// Has the calling process sent a signal when the thread that has started it ends; 0: none. It stays over exec.
///
/// # Errors
/// `EINVAL`: there is no such signal.
pub fn signal_at_parents_end(signal: i32) -> Result<()> {
    let arguments = [libc::PR_SET_PDEATHSIG as usize, signal as usize, 0, 0, 0, 0];
    // SAFETY: no memory is involved.
    unsafe { syscall(libc::SYS_prctl, arguments) }.map(drop)
}

/// Process id of the parent of the calling process; 0 when it is in another PID namespace (getppid(2)).
pub fn parent() -> i32 {
    // SAFETY: no arguments, no memory.
    unsafe { syscall(libc::SYS_getppid, [0; 6]) }.unwrap_or(0) as i32
}

/// Thread id as the thread sees it.
pub fn tid() -> i32 {
    // SAFETY: no arguments, no memory.
    unsafe { syscall(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as i32
}

/// Name of the calling thread: up to 15 bytes and a NUL (prctl(2), `PR_GET_NAME`).
pub fn comm() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    let _ = unsafe {
        syscall(libc::SYS_prctl, [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0])
    };
    name[15] = 0;
    name
}

/// Names the calling thread; `name` is cut at 15 bytes.
pub fn set_comm(name: &core::ffi::CStr) {
    // SAFETY: `name` is NUL-terminated and outlives the call.
    let _ =
        unsafe { syscall(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// Sleeps while `word` holds `expected`, until woken by [`futex_wake`] (private futex).
///
/// # Errors
/// `EAGAIN` when the word differs already, `EINTR`.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32) -> Result<()> {
    let op = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the futex word outlives the call; a null timeout means forever.
    unsafe { syscall(libc::SYS_futex, [word.as_ptr() as usize, op, expected as usize, 0, 0, 0]) }.map(drop)
}

/// Wakes up to `count` threads that wait on `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32, count: u32) {
    let op = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the futex word outlives the call.
    let _ = unsafe { syscall(libc::SYS_futex, [word.as_ptr() as usize, op, count as usize, 0, 0, 0]) };
}

/// A descriptor of a process, which can be read once it has ended (pidfd_open(2)).
///
/// # Errors
/// `ESRCH` when there is none.
pub fn pidfd_open(pid: i32) -> Result<crate::fd::Fd> {
    // SAFETY: no memory.
    let fd = unsafe { syscall(libc::SYS_pidfd_open, [pid as usize, 0, 0, 0, 0, 0]) }?;
    Ok(crate::fd::Fd::from_raw(fd as i32))
}

/// A descriptor of ours for what another process has as `number` (pidfd_getfd(2), Linux 5.6); closed by execve(2).
///
/// # Errors
/// `EPERM` without the right to trace it; `EBADF` where it has none; `ESRCH` when it has ended.
pub fn descriptor_of(process: &crate::fd::Fd, number: i32) -> Result<crate::fd::Fd> {
    // SAFETY: no memory.
    let fd =
        unsafe { syscall(libc::SYS_pidfd_getfd, [process.raw() as usize, number as usize, 0, 0, 0, 0]) }?;
    Ok(crate::fd::Fd::from_raw(fd as i32))
}

/// Leaves the last close of these descriptors, in rising order, to a child that is made for it: where the kernel waits
/// when it closes something, the calling process does not have to. The caller closes its own ones.
///
/// The child has a session of its own, keeps nothing else open, and ends at once; the kernel closes while it ends.
/// No thread waits for it: as long as the calling process lives it stays a zombie.
///
/// # Errors
/// As fork(2).
pub fn leave_to_child(descriptors: &[i32]) -> Result<()> {
    // SAFETY: as fork(2): without flags and a stack, the child has a copy of everything, and nothing in common with the
    // caller.
    if unsafe { syscall(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]) }? > 0 {
        return Ok(());
    }
    // The child: other threads are not there, and may have held locks. So nothing but system calls.
    let mut from = 0;
    for kept in descriptors {
        close_from(from, kept - 1);
        from = kept + 1;
    }
    close_from(from, i32::MAX);
    // SAFETY: no memory.
    let _ = unsafe { syscall(libc::SYS_setsid, [0; 6]) };
    loop {
        // SAFETY: ends the child, which owns nothing that has to be dropped.
        let _ = unsafe { syscall(libc::SYS_exit_group, [0; 6]) };
    }
}

/// Closes descriptors of the child that [`leave_to_child`] has made.
fn close_from(first: i32, last: i32) {
    if first <= last {
        // SAFETY: the numbers' owners are in the parent; the child runs none of their code.
        let _ = unsafe { syscall(libc::SYS_close_range, [first as usize, last as usize, 0, 0, 0, 0]) };
    }
}

/// Number of CPUs that may ever be online, from the affinity-independent mask in sysfs.
///
/// # Errors
/// As open(2) and read(2); `EINVAL` when the file is not a CPU list.
pub fn possible_cpus() -> Result<u32> {
    let file = crate::fd::open(c"/sys/devices/system/cpu/possible", libc::O_RDONLY, 0)?;
    let mut text = [0u8; 256];
    let len = crate::fd::read(&file, &mut text)?;
    last_number(text.get(..len).unwrap_or(&[])).map(|last| last + 1).ok_or(Errno(libc::EINVAL))
}

/// The last number in a CPU list such as `0-3,8-11`.
fn last_number(list: &[u8]) -> Option<u32> {
    let end = list.iter().rposition(u8::is_ascii_digit)?;
    let digits = list.get(..=end)?;
    let start = digits.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |i| i + 1);
    digits.get(start..)?.iter().try_fold(0u32, |n, d| n.checked_mul(10)?.checked_add(u32::from(d - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_takes_what_is_left_to_it_and_nothing_else() {
        let mut ends = [0; 4];
        for pair in ends.chunks_mut(2) {
            // SAFETY: the kernel writes two numbers.
            let made = unsafe { syscall(libc::SYS_pipe2, [pair.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) };
            assert!(made.is_ok());
        }
        let [read, write, other_read, other_write] = ends.map(crate::fd::Fd::from_raw);
        assert_eq!(leave_to_child(&[read.raw(), write.raw()]), Ok(()));
        // The last writers have gone: the end can be read, when the child has closed its own.
        for (reader, writer) in [(read, write), (other_read, other_write)] {
            drop(writer);
            assert_eq!(crate::fd::read(&reader, &mut [0]), Ok(0));
        }
    }

    #[test]
    fn last_number_of_cpu_lists() {
        assert_eq!(last_number(b"0\n"), Some(0));
        assert_eq!(last_number(b"0-3,8-11\n"), Some(11));
        assert_eq!(last_number(b"\n"), None);
    }
}
