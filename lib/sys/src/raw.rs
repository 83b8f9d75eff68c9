//! System calls, and the error that the kernel answers.

use crate::arch;
use core::fmt;

/// An error number of the kernel (`1..=4095`), as `libc::E*`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Short text of the common error numbers; `"error"` for the others.
    pub const fn text(self) -> &'static str {
        match self.0 {
            libc::EPERM => "operation not permitted",
            libc::ENOENT => "no such file or directory",
            libc::ESRCH => "no such process",
            libc::EINTR => "interrupted",
            libc::EIO => "input/output error",
            libc::EBADF => "bad file descriptor",
            libc::EAGAIN => "not ready",
            libc::ENOMEM => "out of memory",
            libc::EACCES => "permission denied",
            libc::EFAULT => "bad address",
            libc::EEXIST => "exists already",
            libc::EINVAL => "invalid argument",
            libc::EMFILE => "too many open files",
            libc::ENOSPC => "no space left on device",
            libc::EPIPE => "peer has gone",
            libc::ENOSYS => "not supported by this kernel",
            libc::ECONNREFUSED => "connection refused",
            libc::ECONNRESET => "connection reset",
            libc::ETIMEDOUT => "timed out",
            _ => "error",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (errno {})", self.text(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Errno {}

/// Makes one system call with up to six arguments.
///
/// # Errors
/// The kernel's error number.
///
/// # Safety
/// The caller answers for what the call does to memory and descriptors.
///
/// # Signal safety
/// Callable anywhere; never touches `errno`.
#[inline]
pub unsafe fn syscall(number: libc::c_long, args: [usize; 6]) -> crate::Result<usize> {
    // SAFETY: the caller's promise.
    let answer = unsafe { arch::system_call(number, args) };
    if (-4095..0).contains(&answer) { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
}
