//! System calls that take long because that is what they are for.

use crate::places::{IS_ADDRESS, IS_FILE};

/// Calls that wait because they were asked to: for a time, for another thread, for a connection. `*` does not mean
/// them: only a threshold with their name does.
const WAITS: &[&str] = &[
    "accept",
    "accept4",
    "clock_nanosleep",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "futex",
    "futex_wait",
    "futex_waitv",
    "io_getevents",
    "io_pgetevents",
    "io_uring_enter",
    "mq_timedreceive",
    "msgrcv",
    "nanosleep",
    "pause",
    "poll",
    "ppoll",
    "pselect6",
    "recvmmsg",
    "restart_syscall",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "semop",
    "semtimedop",
    "vfork",
    "wait4",
    "waitid",
];

/// Calls that read: from a file they should not take long; from a socket, a pipe or a terminal they wait for the
/// writer.
const READS: &[&str] = &["read", "readv", "recvfrom", "recvmsg"];

/// Calls with a path, the address of a socket, or a descriptor among their arguments: which one (from 1 on).
pub(crate) const NAMES: &[(&str, u8)] = &[
    ("accept", 1 | IS_FILE),
    ("accept4", 1 | IS_FILE),
    ("access", 1),
    ("chdir", 1),
    ("chmod", 1),
    ("chown", 1),
    ("close", 1 | IS_FILE),
    ("connect", 2 | IS_ADDRESS),
    ("copy_file_range", 1 | IS_FILE),
    ("creat", 1),
    ("epoll_pwait", 1 | IS_FILE),
    ("epoll_wait", 1 | IS_FILE),
    ("faccessat", 2),
    ("faccessat2", 2),
    ("fallocate", 1 | IS_FILE),
    ("fchmodat", 2),
    ("fchownat", 2),
    ("fcntl", 1 | IS_FILE),
    ("fdatasync", 1 | IS_FILE),
    ("flock", 1 | IS_FILE),
    ("fstat", 1 | IS_FILE),
    ("fsync", 1 | IS_FILE),
    ("ftruncate", 1 | IS_FILE),
    ("getdents64", 1 | IS_FILE),
    ("getxattr", 1),
    ("ioctl", 1 | IS_FILE),
    ("lchown", 1),
    ("lgetxattr", 1),
    ("link", 1),
    ("linkat", 2),
    ("lstat", 1),
    ("mkdir", 1),
    ("mkdirat", 2),
    ("mknod", 1),
    ("mknodat", 2),
    ("mount", 2),
    ("newfstatat", 2),
    ("open", 1),
    ("openat", 2),
    ("openat2", 2),
    ("pread64", 1 | IS_FILE),
    ("preadv", 1 | IS_FILE),
    ("preadv2", 1 | IS_FILE),
    ("pwrite64", 1 | IS_FILE),
    ("pwritev", 1 | IS_FILE),
    ("pwritev2", 1 | IS_FILE),
    ("read", 1 | IS_FILE),
    ("readlink", 1),
    ("readlinkat", 2),
    ("readv", 1 | IS_FILE),
    ("recvfrom", 1 | IS_FILE),
    ("recvmsg", 1 | IS_FILE),
    ("rename", 1),
    ("renameat", 2),
    ("renameat2", 2),
    ("rmdir", 1),
    ("sendfile", 1 | IS_FILE),
    ("sendmsg", 1 | IS_FILE),
    ("sendto", 1 | IS_FILE),
    ("shutdown", 1 | IS_FILE),
    ("stat", 1),
    ("statfs", 1),
    ("statx", 2),
    ("symlink", 2),
    ("symlinkat", 3),
    ("sync_file_range", 1 | IS_FILE),
    ("syncfs", 1 | IS_FILE),
    ("truncate", 1),
    ("umount2", 1),
    ("unlink", 1),
    ("unlinkat", 2),
    ("utimensat", 2),
    ("write", 1 | IS_FILE),
    ("writev", 1 | IS_FILE),
];

/// What one argument of a call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// A path.
    Path,
    /// The address of a socket.
    Address,
    /// A descriptor, which is the first argument.
    File,
}

/// What an argument of the call says.
pub(crate) fn names(name: &str) -> Option<Names> {
    let (_, argument) = NAMES.iter().find(|(call, _)| *call == name)?;
    Some(match argument & (IS_ADDRESS | IS_FILE) {
        IS_ADDRESS => Names::Address,
        IS_FILE => Names::File,
        _ => Names::Path,
    })
}

/// Whether the call waits by request.
pub fn waits_by_request(name: &str) -> bool {
    WAITS.binary_search(&name).is_ok()
}

/// Whether the call waits by request when its first argument is a socket, a pipe or a terminal.
pub(crate) fn is_read(name: &str) -> bool {
    READS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_known() {
        assert!(WAITS.is_sorted() && READS.is_sorted());
        let names = NAMES.iter().map(|(name, _)| name);
        for name in WAITS.iter().chain(READS).chain(names) {
            assert!(mote_layout::syscalls::number(name).is_some(), "{name}");
        }
        assert!(waits_by_request("epoll_wait") && !waits_by_request("fsync") && is_read("read"));
    }
}
