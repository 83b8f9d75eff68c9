//! Names of the values of system calls' arguments: flags, operations, families, signals, errors.

use libc as c;

/// A list of names and values; all of them constants of the C library.
macro_rules! list {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), c::$name as i64)),*] };
}

/// A name and its value.
pub(crate) type Named = (&'static str, i64);

/// How an argument is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decoded {
    /// The name of a value, one of these.
    Value(&'static [Named]),
    /// The names of the bits that are set, of these.
    Flags(&'static [Named]),
    /// One of the first with any of the second.
    Both(&'static [Named], &'static [Named]),
    /// A signal, or 0.
    Signal,
}
use Decoded::{Both, Flags, Signal, Value};

/// Flags of open(2). `O_SYNC` and `O_TMPFILE` are of several bits.
const OPEN: &[Named] = list![
    O_RDONLY,
    O_WRONLY,
    O_RDWR,
    O_CREAT,
    O_EXCL,
    O_NOCTTY,
    O_TRUNC,
    O_APPEND,
    O_NONBLOCK,
    O_DSYNC,
    O_ASYNC,
    O_DIRECT,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_NOATIME,
    O_CLOEXEC,
    O_PATH,
    O_SYNC,
    O_TMPFILE,
];
const PROT: &[Named] = list![PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC, PROT_GROWSDOWN, PROT_GROWSUP];
const MAP: &[Named] = list![
    MAP_SHARED,
    MAP_PRIVATE,
    MAP_FIXED,
    MAP_ANONYMOUS,
    MAP_GROWSDOWN,
    MAP_DENYWRITE,
    MAP_EXECUTABLE,
    MAP_LOCKED,
    MAP_NORESERVE,
    MAP_POPULATE,
    MAP_NONBLOCK,
    MAP_STACK,
    MAP_HUGETLB,
    MAP_SYNC,
    MAP_FIXED_NOREPLACE,
];
/// The low byte is the signal that the parent gets.
const CLONE: &[Named] = list![
    SIGCHLD,
    CLONE_VM,
    CLONE_FS,
    CLONE_FILES,
    CLONE_SIGHAND,
    CLONE_PIDFD,
    CLONE_PTRACE,
    CLONE_VFORK,
    CLONE_PARENT,
    CLONE_THREAD,
    CLONE_NEWNS,
    CLONE_SYSVSEM,
    CLONE_SETTLS,
    CLONE_PARENT_SETTID,
    CLONE_CHILD_CLEARTID,
    CLONE_DETACHED,
    CLONE_UNTRACED,
    CLONE_CHILD_SETTID,
    CLONE_NEWCGROUP,
    CLONE_NEWUTS,
    CLONE_NEWIPC,
    CLONE_NEWUSER,
    CLONE_NEWPID,
    CLONE_NEWNET,
    CLONE_IO,
];
const FAMILY: &[Named] = list![
    AF_UNSPEC,
    AF_UNIX,
    AF_INET,
    AF_AX25,
    AF_IPX,
    AF_APPLETALK,
    AF_X25,
    AF_INET6,
    AF_KEY,
    AF_NETLINK,
    AF_PACKET,
    AF_RDS,
    AF_PPPOX,
    AF_LLC,
    AF_CAN,
    AF_TIPC,
    AF_BLUETOOTH,
    AF_ALG,
    AF_VSOCK,
    AF_XDP,
];
const SOCKET: &[Named] = list![SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP];
const SOCKET_FLAGS: &[Named] = list![SOCK_CLOEXEC, SOCK_NONBLOCK];
const FUTEX: &[Named] = list![
    FUTEX_WAIT,
    FUTEX_WAKE,
    FUTEX_FD,
    FUTEX_REQUEUE,
    FUTEX_CMP_REQUEUE,
    FUTEX_WAKE_OP,
    FUTEX_LOCK_PI,
    FUTEX_UNLOCK_PI,
    FUTEX_TRYLOCK_PI,
    FUTEX_WAIT_BITSET,
    FUTEX_WAKE_BITSET,
    FUTEX_WAIT_REQUEUE_PI,
    FUTEX_CMP_REQUEUE_PI,
    FUTEX_LOCK_PI2,
];
const FUTEX_FLAGS: &[Named] = list![FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME];
const EPOLL_CTL: &[Named] = list![EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD];
const EPOLL_FLAGS: &[Named] = list![EPOLL_CLOEXEC];
const EVENTFD: &[Named] = list![EFD_SEMAPHORE, EFD_NONBLOCK, EFD_CLOEXEC];
const MADVISE: &[Named] = list![
    MADV_NORMAL,
    MADV_RANDOM,
    MADV_SEQUENTIAL,
    MADV_WILLNEED,
    MADV_DONTNEED,
    MADV_FREE,
    MADV_REMOVE,
    MADV_DONTFORK,
    MADV_DOFORK,
    MADV_HWPOISON,
    MADV_SOFT_OFFLINE,
    MADV_MERGEABLE,
    MADV_UNMERGEABLE,
    MADV_HUGEPAGE,
    MADV_NOHUGEPAGE,
    MADV_DONTDUMP,
    MADV_DODUMP,
    MADV_WIPEONFORK,
    MADV_KEEPONFORK,
    MADV_COLD,
    MADV_PAGEOUT,
    MADV_POPULATE_READ,
    MADV_POPULATE_WRITE,
    MADV_DONTNEED_LOCKED,
    MADV_COLLAPSE,
];
const FCNTL: &[Named] = list![
    F_DUPFD,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_SETFL,
    F_GETLK,
    F_SETLK,
    F_SETLKW,
    F_SETOWN,
    F_GETOWN,
    F_OFD_GETLK,
    F_OFD_SETLK,
    F_OFD_SETLKW,
    F_SETLEASE,
    F_GETLEASE,
    F_NOTIFY,
    F_DUPFD_CLOEXEC,
    F_SETPIPE_SZ,
    F_GETPIPE_SZ,
    F_ADD_SEALS,
    F_GET_SEALS,
];
const IOCTL: &[Named] = list![
    TCGETS,
    TCSETS,
    TCSETSW,
    TCSETSF,
    TCSBRK,
    TCXONC,
    TCFLSH,
    TIOCEXCL,
    TIOCNXCL,
    TIOCSCTTY,
    TIOCGPGRP,
    TIOCSPGRP,
    TIOCOUTQ,
    TIOCGWINSZ,
    TIOCSWINSZ,
    TIOCMGET,
    TIOCMBIS,
    TIOCMBIC,
    TIOCMSET,
    FIONREAD,
    TIOCCONS,
    FIONBIO,
    TIOCNOTTY,
    TIOCGSID,
    TIOCGPTN,
    TIOCSPTLCK,
    FIONCLEX,
    FIOCLEX,
    FIOASYNC,
    SIOCGIFNAME,
    SIOCGIFCONF,
    SIOCGIFFLAGS,
    SIOCGIFADDR,
    SIOCGIFINDEX,
    SIOCETHTOOL,
    FS_IOC_GETFLAGS,
    FS_IOC_SETFLAGS,
    FICLONE,
    FICLONERANGE,
];
const SIGNALS: &[Named] = list![
    SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2,
    SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG,
    SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGSYS,
];
const SIGNAL_HOW: &[Named] = list![SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK];
const MOUNT: &[Named] = list![
    MS_RDONLY,
    MS_NOSUID,
    MS_NODEV,
    MS_NOEXEC,
    MS_SYNCHRONOUS,
    MS_REMOUNT,
    MS_MANDLOCK,
    MS_DIRSYNC,
    MS_NOATIME,
    MS_NODIRATIME,
    MS_BIND,
    MS_MOVE,
    MS_REC,
    MS_SILENT,
    MS_POSIXACL,
    MS_UNBINDABLE,
    MS_PRIVATE,
    MS_SLAVE,
    MS_SHARED,
    MS_RELATIME,
    MS_STRICTATIME,
    MS_LAZYTIME,
];
const UMOUNT: &[Named] = list![MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW];
const ACCESS: &[Named] = list![F_OK, X_OK, W_OK, R_OK];
const WHENCE: &[Named] = list![SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE];
const MESSAGE: &[Named] = list![
    MSG_OOB,
    MSG_PEEK,
    MSG_DONTROUTE,
    MSG_CTRUNC,
    MSG_TRUNC,
    MSG_DONTWAIT,
    MSG_EOR,
    MSG_WAITALL,
    MSG_FIN,
    MSG_SYN,
    MSG_CONFIRM,
    MSG_RST,
    MSG_ERRQUEUE,
    MSG_NOSIGNAL,
    MSG_MORE,
    MSG_WAITFORONE,
    MSG_FASTOPEN,
    MSG_CMSG_CLOEXEC,
];
const CLOCK: &[Named] = list![
    CLOCK_REALTIME,
    CLOCK_MONOTONIC,
    CLOCK_PROCESS_CPUTIME_ID,
    CLOCK_THREAD_CPUTIME_ID,
    CLOCK_MONOTONIC_RAW,
    CLOCK_REALTIME_COARSE,
    CLOCK_MONOTONIC_COARSE,
    CLOCK_BOOTTIME,
    CLOCK_REALTIME_ALARM,
    CLOCK_BOOTTIME_ALARM,
    CLOCK_TAI,
];
const SHUTDOWN: &[Named] = list![SHUT_RD, SHUT_WR, SHUT_RDWR];
const FLOCK: &[Named] = list![LOCK_SH, LOCK_EX, LOCK_UN];
const FLOCK_FLAGS: &[Named] = list![LOCK_NB];
const FALLOCATE: &[Named] = list![
    FALLOC_FL_KEEP_SIZE,
    FALLOC_FL_PUNCH_HOLE,
    FALLOC_FL_COLLAPSE_RANGE,
    FALLOC_FL_ZERO_RANGE,
    FALLOC_FL_INSERT_RANGE,
    FALLOC_FL_UNSHARE_RANGE,
];
const MSYNC: &[Named] = list![MS_ASYNC, MS_INVALIDATE, MS_SYNC];
const MLOCK: &[Named] = list![MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT];
const WAIT: &[Named] = list![WNOHANG, WUNTRACED, WEXITED, WCONTINUED, WNOWAIT];
const MEMFD: &[Named] = list![MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_HUGETLB];
const AT: &[Named] =
    list![AT_SYMLINK_NOFOLLOW, AT_EACCESS, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT, AT_EMPTY_PATH];
const UNLINK: &[Named] = list![AT_REMOVEDIR];
const RENAME: &[Named] = list![RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT];
const FADVISE: &[Named] = list![
    POSIX_FADV_NORMAL,
    POSIX_FADV_RANDOM,
    POSIX_FADV_SEQUENTIAL,
    POSIX_FADV_WILLNEED,
    POSIX_FADV_DONTNEED,
    POSIX_FADV_NOREUSE,
];
const RANDOM: &[Named] = list![GRND_NONBLOCK, GRND_RANDOM, GRND_INSECURE];
const SCHEDULER: &[Named] = list![SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE, SCHED_DEADLINE];
const RESOURCE: &[Named] = list![
    RLIMIT_CPU,
    RLIMIT_FSIZE,
    RLIMIT_DATA,
    RLIMIT_STACK,
    RLIMIT_CORE,
    RLIMIT_RSS,
    RLIMIT_NPROC,
    RLIMIT_NOFILE,
    RLIMIT_MEMLOCK,
    RLIMIT_AS,
    RLIMIT_LOCKS,
    RLIMIT_SIGPENDING,
    RLIMIT_MSGQUEUE,
    RLIMIT_NICE,
    RLIMIT_RTPRIO,
    RLIMIT_RTTIME,
];
const PRCTL: &[Named] = list![
    PR_SET_PDEATHSIG,
    PR_GET_PDEATHSIG,
    PR_GET_DUMPABLE,
    PR_SET_DUMPABLE,
    PR_SET_NAME,
    PR_GET_NAME,
    PR_GET_SECCOMP,
    PR_SET_SECCOMP,
    PR_CAPBSET_READ,
    PR_CAPBSET_DROP,
    PR_SET_TIMERSLACK,
    PR_GET_TIMERSLACK,
    PR_SET_MM,
    PR_SET_CHILD_SUBREAPER,
    PR_GET_CHILD_SUBREAPER,
    PR_SET_NO_NEW_PRIVS,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_THP_DISABLE,
    PR_CAP_AMBIENT,
    PR_SET_VMA,
];
const LEVEL: &[Named] =
    list![SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6, SOL_PACKET, SOL_NETLINK];
const TIMER: &[Named] = list![ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF];
const REMAP: &[Named] = list![MREMAP_MAYMOVE, MREMAP_FIXED, MREMAP_DONTUNMAP];
const READ: &[Named] = list![RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT, RWF_APPEND];
const USAGE: &[Named] = list![RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD];
const PTRACE: &[Named] = list![
    PTRACE_TRACEME,
    PTRACE_PEEKTEXT,
    PTRACE_PEEKDATA,
    PTRACE_PEEKUSER,
    PTRACE_POKETEXT,
    PTRACE_POKEDATA,
    PTRACE_POKEUSER,
    PTRACE_CONT,
    PTRACE_KILL,
    PTRACE_SINGLESTEP,
    PTRACE_GETREGS,
    PTRACE_SETREGS,
    PTRACE_GETFPREGS,
    PTRACE_SETFPREGS,
    PTRACE_ATTACH,
    PTRACE_DETACH,
    PTRACE_SYSCALL,
    PTRACE_SETOPTIONS,
    PTRACE_GETEVENTMSG,
    PTRACE_GETSIGINFO,
    PTRACE_SETSIGINFO,
    PTRACE_GETREGSET,
    PTRACE_SETREGSET,
    PTRACE_SEIZE,
    PTRACE_INTERRUPT,
    PTRACE_LISTEN,
];
const INOTIFY: &[Named] = list![
    IN_ACCESS,
    IN_MODIFY,
    IN_ATTRIB,
    IN_CLOSE_WRITE,
    IN_CLOSE_NOWRITE,
    IN_OPEN,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_CREATE,
    IN_DELETE,
    IN_DELETE_SELF,
    IN_MOVE_SELF,
    IN_ONLYDIR,
    IN_DONT_FOLLOW,
    IN_EXCL_UNLINK,
    IN_MASK_CREATE,
    IN_MASK_ADD,
    IN_ISDIR,
    IN_ONESHOT,
];
/// asm/prctl.h, which the C library does not have.
const ARCH: &[Named] = &[
    ("ARCH_SET_GS", 0x1001),
    ("ARCH_SET_FS", 0x1002),
    ("ARCH_GET_FS", 0x1003),
    ("ARCH_GET_GS", 0x1004),
    ("ARCH_SHSTK_ENABLE", 0x5001),
    ("ARCH_SHSTK_DISABLE", 0x5002),
    ("ARCH_SHSTK_STATUS", 0x5005),
];
const SPLICE: &[Named] = list![SPLICE_F_MOVE, SPLICE_F_NONBLOCK, SPLICE_F_MORE, SPLICE_F_GIFT];
const MEMBARRIER: &[Named] = list![
    MEMBARRIER_CMD_QUERY,
    MEMBARRIER_CMD_GLOBAL,
    MEMBARRIER_CMD_GLOBAL_EXPEDITED,
    MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED,
    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
    MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
    MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ,
];

/// Families of sockets.
pub(crate) fn families() -> Vec<(String, i64, i64)> {
    each(FAMILY)
}

/// Each of a list with its one value.
pub(crate) fn each(list: &[Named]) -> Vec<(String, i64, i64)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), *value, *value)).collect()
}

/// The errors that a system call returns: names, and negative numbers.
pub(crate) fn errors() -> Vec<(String, i64, i64)> {
    let negative = |(number, name): (u16, &str)| (name.to_owned(), -i64::from(number), -i64::from(number));
    mote_layout::errors::all().map(negative).collect()
}

/// What the argument of a system call means; the system call's name without `sys_`.
#[rustfmt::skip]
pub(crate) fn of(call: &str, argument: &str) -> Option<Decoded> {
    Some(match (call, argument) {
        ("open" | "openat" | "mq_open" | "open_by_handle_at" | "pipe2" | "dup3", "flags" | "oflag") => Flags(OPEN),
        ("mmap" | "mprotect" | "pkey_mprotect" | "remap_file_pages", "prot") => Flags(PROT),
        ("mmap" | "remap_file_pages", "flags") => Flags(MAP),
        ("clone", "clone_flags") | ("unshare", "unshare_flags") | ("setns", "flags") => Flags(CLONE),
        ("socket" | "socketpair", "family") => Value(FAMILY),
        ("socket" | "socketpair", "type") => Both(SOCKET, SOCKET_FLAGS),
        ("accept4", "flags") => Flags(SOCKET_FLAGS),
        ("futex", "op") => Both(FUTEX, FUTEX_FLAGS),
        ("epoll_ctl", "op") => Value(EPOLL_CTL),
        ("epoll_create1", "flags") => Flags(EPOLL_FLAGS),
        ("eventfd2", "flags") => Flags(EVENTFD),
        ("inotify_init1" | "timerfd_create" | "signalfd4" | "userfaultfd", "flags") => Flags(OPEN),
        ("madvise" | "process_madvise", "behavior") => Value(MADVISE),
        ("fcntl", "cmd") => Value(FCNTL),
        ("ioctl", "cmd") => Value(IOCTL),
        (
            "kill" | "tkill" | "tgkill" | "rt_sigaction" | "rt_sigqueueinfo" | "rt_tgsigqueueinfo"
            | "pidfd_send_signal",
            "sig",
        ) => Signal,
        ("rt_sigprocmask", "how") => Value(SIGNAL_HOW),
        ("mount", "flags") => Flags(MOUNT),
        ("umount" | "umount2", "flags") => Flags(UMOUNT),
        ("access" | "faccessat" | "faccessat2", "mode") => Flags(ACCESS),
        ("lseek", "whence") => Value(WHENCE),
        ("sendto" | "recvfrom" | "sendmsg" | "recvmsg" | "sendmmsg" | "recvmmsg", "flags") => Flags(MESSAGE),
        (
            "clock_gettime" | "clock_settime" | "clock_getres" | "clock_nanosleep" | "clock_adjtime"
            | "timer_create",
            "which_clock",
        )
        | ("timerfd_create", "clockid") => Value(CLOCK),
        ("shutdown", "how") => Value(SHUTDOWN),
        ("flock", "cmd") => Both(FLOCK, FLOCK_FLAGS),
        ("fallocate", "mode") => Flags(FALLOCATE),
        ("msync", "flags") => Flags(MSYNC),
        ("mlockall", "flags") => Flags(MLOCK),
        ("wait4" | "waitid", "options") => Flags(WAIT),
        ("memfd_create", "flags") => Flags(MEMFD),
        (
            "newfstatat" | "statx" | "fchownat" | "linkat" | "faccessat2" | "execveat" | "utimensat"
            | "name_to_handle_at",
            "flag" | "flags",
        ) => Flags(AT),
        ("unlinkat", "flag") => Flags(UNLINK),
        ("renameat2", "flags") => Flags(RENAME),
        ("fadvise64", "advice") => Value(FADVISE),
        ("getrandom", "flags") => Flags(RANDOM),
        ("sched_setscheduler" | "sched_get_priority_max" | "sched_get_priority_min", "policy") => Value(SCHEDULER),
        ("getrlimit" | "setrlimit" | "prlimit64", "resource") => Value(RESOURCE),
        ("prctl", "option") => Value(PRCTL),
        ("splice" | "tee" | "vmsplice", "flags") => Flags(SPLICE),
        ("setsockopt" | "getsockopt", "level") => Value(LEVEL),
        ("setitimer" | "getitimer", "which") => Value(TIMER),
        ("mremap", "flags") => Flags(REMAP),
        ("preadv2" | "pwritev2", "flags") => Flags(READ),
        ("getrusage", "who") => Value(USAGE),
        ("ptrace", "request") => Value(PTRACE),
        ("inotify_add_watch", "mask") => Flags(INOTIFY),
        ("arch_prctl", "option") => Value(ARCH),
        ("membarrier", "cmd") => Value(MEMBARRIER),
        _ => return None,
    })
}

/// Signals; those for programs' own use as strace has them, from the kernel's first on.
pub(crate) fn signals() -> Vec<(String, i64, i64)> {
    const FIRST: i64 = 32;
    const LAST: i64 = 64;
    let named = SIGNALS.iter().map(|(name, value)| ((*name).to_owned(), *value, *value));
    let own = (FIRST + 1..=LAST).map(|value| (format!("SIGRT_{}", value - FIRST), value, value));
    let first = [("none".to_owned(), 0, 0), ("SIGRTMIN".to_owned(), FIRST, FIRST)];
    named.chain(first).chain(own).collect()
}

/// Both lists as one of values: each alone, and each of the first with any of the second.
pub(crate) fn combined(values: &[Named], flags: &[Named]) -> Vec<(String, i64, i64)> {
    let mut labels = Vec::new();
    for set in 0..1usize << flags.len() {
        let chosen = || flags.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, flag)| flag);
        for (name, value) in values {
            let sum = chosen().fold(*value, |sum, (_, flag)| sum | flag);
            let name = chosen().fold((*name).to_owned(), |name, (flag, _)| name + "|" + flag);
            labels.push((name, sum, sum));
        }
    }
    let known: Vec<i64> = labels.iter().map(|(_, value, _)| *value).collect();
    let alone = flags.iter().filter(|(_, value)| !known.contains(value));
    labels.extend(alone.map(|(name, value)| ((*name).to_owned(), *value, *value)));
    labels
}
