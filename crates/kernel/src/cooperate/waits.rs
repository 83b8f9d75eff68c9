//! System calls that take long because that is what they are for.

/// Calls that wait because they were asked to: for a time, for another thread, for whoever connects. `*` does not mean them: only a threshold with their
/// name does.
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

/// Calls that read: from a file they should not take long; from a socket, a pipe or a terminal they wait for whoever writes.
const READS: &[&str] = &["read", "readv", "recvfrom", "recvmsg"];

/// Whether the call waits by request.
pub fn waits_by_request(name: &str) -> bool {
    WAITS.binary_search(&name).is_ok()
}

/// Whether the call waits by request when its first argument is a socket, a pipe or a terminal.
pub fn is_read(name: &str) -> bool {
    READS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_known() {
        assert!(WAITS.is_sorted() && READS.is_sorted());
        for name in WAITS.iter().chain(READS) {
            assert!(mote_layout::syscalls::number(name).is_some(), "{name}");
        }
        assert!(waits_by_request("epoll_wait") && !waits_by_request("fsync") && is_read("read"));
    }
}
