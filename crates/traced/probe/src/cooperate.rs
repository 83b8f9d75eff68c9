//! What a program tells the kernel's side of its session, and what it is told: thresholds, the state of threads, words
//! with names.
//!
//! All of it works on memory that both sides map (Sharma & Dagenais 2016, section 5.3): no system call but for the
//! first use in a thread. A program that is not traced pays a load and a branch.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use mote_agent::cooperate::{self, Words};
use mote_layout::cooperation::{SYSCALLS, UNSET_NS, WORDS, threshold_ns, threshold_word};
use mote_layout::syscalls;

pub use mote_agent::cooperate::Scope;

/// A system call, by its number.
///
/// ```
/// assert_eq!(mote::Syscall::named("fsync").map(mote::Syscall::number), Some(74));
/// assert_eq!(mote::syscall!(write), mote::Syscall::WRITE);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Syscall(u32);

impl Syscall {
    /// `read`
    pub const READ: Syscall = Syscall(0);
    /// `write`
    pub const WRITE: Syscall = Syscall(1);
    /// `openat`
    pub const OPENAT: Syscall = Syscall(257);
    /// `fsync`
    pub const FSYNC: Syscall = Syscall(74);
    /// `fdatasync`
    pub const FDATASYNC: Syscall = Syscall(75);
    /// `futex`
    pub const FUTEX: Syscall = Syscall(202);
    /// `epoll_wait`
    pub const EPOLL_WAIT: Syscall = Syscall(232);

    /// The one of this number; `None` when no threshold can be set for it.
    pub const fn new(number: u32) -> Option<Syscall> {
        if (number as usize) < SYSCALLS { Some(Syscall(number)) } else { None }
    }

    /// The one of this name. See also [`syscall!`](crate::syscall!).
    pub const fn named(name: &str) -> Option<Syscall> {
        match syscalls::number(name) {
            Some(number) => Syscall::new(number),
            None => None,
        }
    }

    /// The system call's number on this processor.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Its name, if it is known.
    pub fn name(self) -> Option<&'static str> {
        syscalls::name(self.0)
    }
}

/// A [`Syscall`] by its name, looked up when the program is compiled: `syscall!(write)`.
#[macro_export]
macro_rules! syscall {
    ($name:ident) => {
        const {
            match $crate::Syscall::named(::core::stringify!($name)) {
                Some(syscall) => syscall,
                None => panic!("there is no such system call"),
            }
        }
    };
}

/// A duration as a threshold's word; `None` leaves it to others.
#[inline(always)]
fn word(duration: Option<Duration>) -> u32 {
    let Some(duration) = duration else { return threshold_word(UNSET_NS) };
    let ns = duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into());
    threshold_word(if ns >= UNSET_NS { u64::MAX } else { ns })
}

/// From which duration on this system call of the calling thread is worth recording, for `mote latency` and rules of
/// the session. `None`: what the process says, or else the session. Durations are rounded up to 64 ns; from 274 s on
/// they are never reached.
///
/// False when no session will know: no session looks at thresholds, or the thread has no place in its memory (a process
/// has 256), so that the process's threshold rules.
///
/// ```
/// # use std::time::Duration;
/// mote::set_threshold(mote::Syscall::WRITE, Duration::from_micros(200));
/// mote::set_threshold(mote::Syscall::WRITE, None);
/// ```
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Bench `kernel`. Not traced: a load and a branch.
#[inline]
pub fn set_threshold(syscall: Syscall, from: impl Into<Option<Duration>>) -> bool {
    cooperate::set_threshold(syscall.0, word(from.into()))
}

/// What [`set_threshold`] has set last in this thread; `Duration::MAX` when nothing reaches it.
///
/// # Signal safety
/// Callable from a handler.
pub fn thread_threshold(syscall: Syscall) -> Option<Duration> {
    match threshold_ns(cooperate::threshold(syscall.0)) {
        Some(u64::MAX) => Some(Duration::MAX),
        ns => ns.map(Duration::from_nanos),
    }
}

/// As [`set_threshold`], for all threads of the process that have none of their own.
///
/// # Signal safety
/// Callable from a handler.
#[inline]
pub fn set_process_threshold(syscall: Syscall, from: impl Into<Option<Duration>>) -> bool {
    cooperate::set_process_threshold(syscall.0, word(from.into()))
}

/// A threshold for as long as the guard lives, in the calling thread: that of a function.
///
/// ```
/// # use std::time::Duration;
/// fn checkout() {
///     // Inside of here a write over 200 us is worth recording.
///     let _slow = mote::threshold(mote::Syscall::WRITE, Duration::from_micros(200));
///     // ...
/// }
/// ```
/// # Cost
/// As two of [`set_threshold`].
#[inline]
#[must_use = "the threshold is set for as long as the guard lives"]
pub fn threshold(syscall: Syscall, from: impl Into<Option<Duration>>) -> ThresholdGuard {
    let before = cooperate::threshold(syscall.0);
    set_threshold(syscall, from);
    ThresholdGuard { syscall, before, thread: core::marker::PhantomData }
}

/// Gives the thread its threshold of before back when dropped.
#[derive(Debug)]
pub struct ThresholdGuard {
    syscall: Syscall,
    before: u32,
    /// It stays in its thread.
    thread: core::marker::PhantomData<*mut ()>,
}

impl Drop for ThresholdGuard {
    #[inline]
    fn drop(&mut self) {
        cooperate::set_threshold(self.syscall.0, self.before);
    }
}

/// Wants the kernel's events from now on, for so long: opens the window that rules on kernel events ask for by
/// `$window`. False when no session has kernel events.
///
/// # Signal safety
/// Callable from a handler.
pub fn open_kernel(duration: Duration, of: Scope) -> bool {
    cooperate::open_window(of, u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A thread as the kernel sees it. Counts and times are since the session began, or since the thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadState {
    /// How often it was taken off a CPU.
    pub switches: u64,
    /// Of these, how often it was preempted: it would have gone on running.
    pub preemptions: u64,
    /// Nanoseconds off the CPU, waiting or wanting to run.
    pub offcpu_ns: u64,
    /// Of the last time.
    pub last_offcpu_ns: u64,
    /// The kernel's task state of the last time: 0 preempted, 1 interruptible, 2 uninterruptible.
    pub last_wait: u64,
    /// System call in which it waited the last time; `None`: in none.
    pub last_wait_syscall: Option<Syscall>,
    /// Nanoseconds without a CPU though it could have run.
    pub runqueue_ns: u64,
    /// Of the last time.
    pub last_runqueue_ns: u64,
    /// Page faults.
    pub faults: u64,
    /// How often its control group's bandwidth held it back.
    pub throttled: u64,
    /// For how long, in nanoseconds.
    pub throttled_ns: u64,
    /// The last system call that returned; `None` before the first.
    pub last_syscall: Option<Syscall>,
    /// Its duration in nanoseconds.
    pub last_syscall_ns: u64,
    /// System calls that returned.
    pub syscalls: u64,
    /// CPU on which it last began to run.
    pub cpu: u64,
    /// When that was (`CLOCK_MONOTONIC`, ns).
    pub running_since_ns: u64,
}

/// The calling thread as the kernel sees it now; `None` while no session publishes that: it takes a session with kernel
/// events or `mote latency`.
///
/// Each value is whole; those that change together may be of different moments, if the thread is switched while they
/// are read.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Sixteen loads. Not traced: a load and a branch.
pub fn thread_state() -> Option<ThreadState> {
    let state = cooperate::thread_state()?;
    let value = |word: &AtomicU64| word.load(Ordering::Relaxed);
    let syscall = |word: &AtomicU64| u32::try_from(value(word)).ok().and_then(Syscall::new);
    let syscalls = value(&state.syscalls);
    Some(ThreadState {
        switches: value(&state.switches),
        preemptions: value(&state.preemptions),
        offcpu_ns: value(&state.offcpu_ns),
        last_offcpu_ns: value(&state.last_offcpu_ns),
        last_wait: value(&state.last_wait),
        last_wait_syscall: syscall(&state.last_wait_syscall),
        runqueue_ns: value(&state.runqueue_ns),
        last_runqueue_ns: value(&state.last_runqueue_ns),
        faults: value(&state.faults),
        throttled: value(&state.throttled),
        throttled_ns: value(&state.throttled_ns),
        last_syscall: syscall(&state.last_syscall).filter(|_| syscalls > 0),
        last_syscall_ns: value(&state.last_syscall_ns),
        syscalls,
        cpu: value(&state.cpu),
        running_since_ns: value(&state.running_since),
    })
}

/// Why words cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareError {
    /// A name has 1 to 64 bytes.
    Name,
    /// There are no more words, or this name was opened with fewer before.
    Words,
    /// No memory.
    Memory,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShareError::Name => write!(f, "a name of shared words has 1 to 64 bytes"),
            ShareError::Words => {
                write!(f, "there are not so many shared words left, or the name was opened with fewer before")
            }
            ShareError::Memory => write!(f, "no memory for shared words"),
        }
    }
}

impl core::error::Error for ShareError {}

fn share(name: &str, words: usize, each_thread: bool) -> Result<Words, ShareError> {
    let count = u32::try_from(words).map_err(|_| ShareError::Words)?;
    if name.is_empty() || name.len() > mote_layout::cooperation::SHARED_NAME_MAX {
        return Err(ShareError::Name);
    }
    mote_agent::share(name.as_bytes(), count, each_thread).map_err(|errno| match errno.0 {
        ENOMEM => ShareError::Memory,
        _ => ShareError::Words,
    })
}

const ENOMEM: i32 = 12;

/// Words that all processes of a session share with one another, with their filters (`$shared.NAME[i]`), and with the
/// kernel's programs. They begin as 0.
///
/// # Concurrency
/// A word is read and written whole, and seen by all at once. What is added up by many goes by
/// [`SharedMap::fetch_add`], or, better, by [`ThreadMap`], where no thread writes to another's line. Words order
/// nothing beside them, unless they are used by [`SharedMap::words`] with an ordering of one's own.
///
/// Without a session, or when it cannot be reached, they are memory of this process: the same program works, alone.
///
/// ```
/// let open = mote::SharedMap::open("requests", 4)?;
/// open.set(0, 17);
/// assert_eq!((open.fetch_add(0, 3), open.get(0), open.get(4)), (Some(17), Some(20), None));
/// # Ok::<(), mote::ShareError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SharedMap {
    words: &'static [AtomicU64],
    is_shared: bool,
}

impl SharedMap {
    /// So many words by this name. The same name gives the same words, wherever it is opened; they stay for the rest of
    /// the process's life.
    ///
    /// # Errors
    /// [`ShareError`].
    ///
    /// # Signal safety
    /// Not for handlers.
    ///
    /// # Cost
    /// A question to the session: some 20 us. Open it once.
    pub fn open(name: &str, words: usize) -> Result<SharedMap, ShareError> {
        let words = share(name, words, false)?;
        Ok(SharedMap { words: words.of_all, is_shared: words.is_shared })
    }

    /// The words themselves.
    #[inline(always)]
    pub fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    /// How many there are: at least as many as were asked for.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are no words: that is never so.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether there is a session to share them with.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// A word; `None` when there is none of this index.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.words.get(index).map(|word| word.load(Ordering::Relaxed))
    }

    /// Writes a word; false when there is none of this index.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn set(&self, index: usize, value: u64) -> bool {
        self.words.get(index).map(|word| word.store(value, Ordering::Relaxed)).is_some()
    }

    /// Adds to a word, around its end, and gives what it was before; `None` when there is none of this index.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn fetch_add(&self, index: usize, delta: u64) -> Option<u64> {
        self.words.get(index).map(|word| word.fetch_add(delta, Ordering::Relaxed))
    }
}

/// Words of which each thread has its own, beside its state: filters read them as `$thread.NAME[i]`. They begin as 0.
///
/// # Concurrency
/// A thread (and its signal handlers) alone writes its words: nothing needs to be synchronised. Others may read them at
/// any time, each word whole ([`ThreadMap::sum`]; Sharma & Dagenais 2016, section 5.3.1). A thread's words are lost
/// when it ends. At most 256 threads of a process have words at a time.
///
/// ```
/// let depth = mote::ThreadMap::open("depth", 1)?;
/// depth.set(0, depth.get(0).unwrap_or(0) + 1);
/// assert_eq!((depth.get(0), depth.sum(0)), (Some(1), 1));
/// # Ok::<(), mote::ShareError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThreadMap(Words);

impl ThreadMap {
    /// The most words of all names together.
    pub const WORDS_MAX: usize = WORDS;

    /// So many words of each thread by this name.
    ///
    /// # Errors
    /// [`ShareError`].
    ///
    /// # Signal safety
    /// Not for handlers.
    pub fn open(name: &str, words: usize) -> Result<ThreadMap, ShareError> {
        share(name, words, true).map(ThreadMap)
    }

    #[inline(always)]
    fn word(&self, index: usize) -> Option<&'static AtomicU64> {
        if index >= self.0.count as usize {
            return None;
        }
        cooperate::slot()?.words.get(self.0.at as usize + index)
    }

    /// Whether filters and the kernel's programs see them.
    pub fn is_shared(&self) -> bool {
        self.0.is_shared
    }

    /// A word of the calling thread; `None` when there is none of this index, or too many threads have words.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.word(index).map(|word| word.load(Ordering::Relaxed))
    }

    /// Writes a word of the calling thread; false when there is none.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn set(&self, index: usize, value: u64) -> bool {
        self.word(index).map(|word| word.store(value, Ordering::Relaxed)).is_some()
    }

    /// The sum of a word over all threads that have one, around its end.
    pub fn sum(&self, index: usize) -> u64 {
        let mut sum = 0u64;
        cooperate::for_each_thread(&self.0, |words| {
            let word = words.get(index).map_or(0, |word| word.load(Ordering::Relaxed));
            sum = sum.wrapping_add(word);
        });
        sum
    }
}
