//! Which thread of a process is sent: one that waits in a system call, and certainly is not in the middle of something.
//!
//! What the thread runs takes, for moments, the allocator's lock and those of the C library's list of threads
//! (`agent/src/late.rs`). The thread must not hold one of them itself. A thread that waits in `poll`, `read` and the
//! like holds none: allocators and C libraries wait in futexes only. Of those that wait in a futex:
//!
//! | waits | holds |
//! |---|---|
//! | for a condition, a semaphore, a thread's end (glibc, Rust: `FUTEX_WAIT_BITSET`) | no lock of a C library |
//! | for a lock of glibc's own (`FUTEX_WAIT` for the value 2) | perhaps another one: never sent; it soon goes on |
//!
//! Threads in a signal handler are never sent: the handler may have interrupted the allocator. A handler's frame has
//! segments at a fixed place, which are looked for on the stack ([`has_signal_frame`]).

use crate::arch::is_signal_frame;
use mote_layout::join::restart;
use mote_sys::mem::PAGE_BYTES;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// System calls in which programs wait, and which the kernel begins again by itself when the thread was stopped, if
/// need be with the time that was left.
const WAITS: [i64; 28] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_pause,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigsuspend,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_msgrcv,
    libc::SYS_mq_timedreceive,
    libc::SYS_futex,
    // One with a time limit that has been interrupted before: libraries wait for their own locks without.
    libc::SYS_restart_syscall,
];

/// Those that end with `EINTR` when the thread was stopped, and where the argument with this index is the time limit: a
/// null pointer or -1 is none.
const ENDED: [(i64, usize); 8] = [
    (libc::SYS_epoll_wait, 3),
    (libc::SYS_epoll_pwait, 3),
    (libc::SYS_epoll_pwait2, 3),
    (libc::SYS_rt_sigtimedwait, 2),
    (libc::SYS_semtimedop, 3),
    (libc::SYS_semop, usize::MAX),
    (libc::SYS_io_getevents, 4),
    (libc::SYS_io_uring_enter, 4),
];

/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const FUTEX_FLAGS: u64 = 128 | 256;
/// What a contended lock of glibc holds.
const CONTENDED: u64 = 2;

/// How much of a stack is searched for a signal's frame.
const STACK_MAX: usize = 256 << 10;

/// How well a thread suits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It waits in a call that goes on as if nothing had been.
    Waits,
    /// It waits in a futex for something that is no lock.
    Condition,
    /// Its call ends with `EINTR`, as after any stop: there is a time limit, of which it is not known how much was
    /// left.
    Ends,
}

/// What a line of `/proc/PID/task/TID/syscall` says: number, arguments, stack pointer, instruction
/// (proc_pid_syscall(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

impl Call {
    pub(crate) fn parse(line: &str) -> Option<Call> {
        let mut words = line.split_ascii_whitespace();
        let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Call { number, arguments })
    }

    /// The stack pointer, and the instruction, that such a line ends with.
    pub(crate) fn place(line: &str) -> Option<(u64, u64)> {
        let mut words = line.split_ascii_whitespace().rev().map(|word| word.strip_prefix("0x"));
        let mut number = || u64::from_str_radix(words.next()??, 16).ok();
        let instruction = number()?;
        Some((number()?, instruction))
    }

    /// How well a thread suits that is in this call; `None` when not at all.
    pub(crate) fn rank(&self) -> Option<Rank> {
        if self.number == libc::SYS_futex {
            return self.waits_for_no_lock().then_some(Rank::Condition);
        }
        if WAITS.contains(&self.number) {
            return Some(Rank::Waits);
        }
        self.is_ended().then(|| if self.has_limit() { Rank::Ends } else { Rank::Waits })
    }

    fn waits_for_no_lock(&self) -> bool {
        let [_, operation, value, ..] = self.arguments;
        match (operation & !FUTEX_FLAGS) as i32 {
            libc::FUTEX_WAIT => value != CONTENDED,
            libc::FUTEX_WAIT_BITSET => true,
            _ => false,
        }
    }

    fn is_ended(&self) -> bool {
        ENDED.iter().any(|(number, _)| *number == self.number)
    }

    /// Whether a call that the kernel does not begin again has a time limit.
    fn has_limit(&self) -> bool {
        let Some((_, at)) = ENDED.iter().find(|(number, _)| *number == self.number) else { return false };
        let by_number = [libc::SYS_epoll_wait, libc::SYS_epoll_pwait].contains(&self.number);
        match self.arguments.get(*at) {
            Some(limit) if by_number => *limit as i32 >= 0,
            // With a size of arguments, the limit is in one of them.
            Some(limit) => *limit != 0,
            None => false,
        }
    }

    /// What the kernel is to make of the call of a stopped thread, whose `rax` this is: with which error it was
    /// interrupted, above 0. `None` when it was not, or is over.
    ///
    /// Of a call without a limit that has ended because of the stop alone the kernel is told that it is to be begun
    /// again unless a handler runs.
    pub(crate) fn interrupted(&self, answer: i64) -> Option<u64> {
        match answer.checked_neg()? as u64 {
            kind @ (restart::SYS | restart::NOINTR | restart::NOHAND | restart::RESTARTBLOCK) => Some(kind),
            ended if ended == libc::EINTR as u64 => {
                // Sockets with a time limit of their own end so, too.
                Some(if self.is_ended() && !self.has_limit() { restart::NOHAND } else { ended })
            }
            _ => None,
        }
    }
}

/// Whether there is a signal's frame on the stack, from the stack pointer on.
pub(crate) fn has_signal_frame(memory: &File, stack_pointer: u64) -> bool {
    stack(memory, stack_pointer, u64::MAX).into_iter().any(is_signal_frame)
}

/// The words of a stack, from the stack pointer on, up to where its mapping ends: behind it may be another thread's.
pub(crate) fn stack(memory: &File, stack_pointer: u64, end: u64) -> Vec<u64> {
    let most =
        usize::try_from(end.saturating_sub(stack_pointer)).map_or(STACK_MAX, |most| most.min(STACK_MAX));
    let mut stack = vec![0; most];
    let mut len = 0;
    // Up to the stack's end, which is somewhere in between: page by page.
    while len < most {
        let at = stack_pointer.saturating_add(len as u64);
        let to_page_end = PAGE_BYTES - at as usize % PAGE_BYTES;
        let Some(into) = stack.get_mut(len..most.min(len + to_page_end)) else { break };
        match memory.read_at(into, at) {
            Ok(read) if read > 0 => len += read,
            _ => break,
        }
    }
    stack.get(..len).unwrap_or(&[]).as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 6]) -> Call {
        Call { number, arguments }
    }

    #[test]
    fn lines_are_read() {
        let line = "202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe0 0x7f99\n";
        let read = Call::parse(line).expect("a call");
        assert_eq!(read, call(libc::SYS_futex, [0x7f01, 0x189, 0, 0, 0, 0xffff_ffff]));
        assert_eq!(Call::parse("running"), None);
        assert_eq!(Call::parse("-1 0x7ffe 0x7f99"), None);
        assert_eq!(Call::parse("202 0x1"), None);
        assert_eq!(Call::parse(""), None);
    }

    #[test]
    fn ranks() {
        let minus_one = u64::from(u32::MAX);
        let cases = [
            (call(libc::SYS_poll, [0; 6]), Some(Rank::Waits)),
            (call(libc::SYS_epoll_wait, [5, 1, 1, minus_one, 0, 0]), Some(Rank::Waits)),
            (call(libc::SYS_epoll_wait, [5, 1, 1, 100, 0, 0]), Some(Rank::Ends)),
            (call(libc::SYS_rt_sigtimedwait, [1, 0, 0, 8, 0, 0]), Some(Rank::Waits)),
            (call(libc::SYS_rt_sigtimedwait, [1, 0, 0x7ffe, 8, 0, 0]), Some(Rank::Ends)),
            (call(libc::SYS_restart_syscall, [0; 6]), Some(Rank::Waits)),
            (call(libc::SYS_semop, [1, 1, 1, 0, 0, 0]), Some(Rank::Waits)),
            // pthread_cond_wait, pthread_join.
            (call(libc::SYS_futex, [1, 0x189, 0, 0, 0, minus_one]), Some(Rank::Condition)),
            (call(libc::SYS_futex, [1, 0x109, 77, 0, 0, minus_one]), Some(Rank::Condition)),
            // A lock of glibc's, private and shared; one with priorities.
            (call(libc::SYS_futex, [1, 0x80, 2, 0, 0, 0]), None),
            (call(libc::SYS_futex, [1, 0, 2, 0, 0, 0]), None),
            (call(libc::SYS_futex, [1, 0x86, 0, 0, 0, 0]), None),
            (call(libc::SYS_getpid, [0; 6]), None),
        ];
        for (call, expected) in cases {
            assert_eq!(call.rank(), expected, "{call:?}");
        }
    }

    #[test]
    fn interrupted_calls() {
        let nanosleep = call(libc::SYS_nanosleep, [0; 6]);
        assert_eq!(nanosleep.interrupted(-516), Some(restart::RESTARTBLOCK));
        assert_eq!(nanosleep.interrupted(0), None);
        assert_eq!(nanosleep.interrupted(-i64::from(libc::EINTR)), Some(libc::EINTR as u64));
        assert_eq!(nanosleep.interrupted(i64::MIN), None);
        let for_ever = call(libc::SYS_epoll_wait, [5, 1, 1, u64::MAX, 0, 0]);
        assert_eq!(for_ever.interrupted(-i64::from(libc::EINTR)), Some(restart::NOHAND));
        let limited = call(libc::SYS_epoll_wait, [5, 1, 1, 10, 0, 0]);
        assert_eq!(limited.interrupted(-i64::from(libc::EINTR)), Some(libc::EINTR as u64));
        assert_eq!(limited.interrupted(1), None);
    }
}
