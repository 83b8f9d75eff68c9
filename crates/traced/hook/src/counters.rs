//! What is counted of a thread during calls that are samples.
//!
//! What a thread may ask of itself without any rights comes by system calls; events of perf_event_open(2) by the
//! processor's counters where the kernel lets threads read these (RDPMC), else by read(2). A thread opens its events
//! when its first call is sampled. Where it may not, they are counted as 0, and as counted for no part of the time.
//!
//! # Descriptors
//! An event that the processor's counter tells needs none: its page is mapped, and the descriptor closed. Others keep
//! that of their leader, above those that programs count on; before it is read its number as an event is asked for, so
//! that nothing of the program's is read if it has closed the descriptor, and has something else there.
//!
//! # Threads
//! Each has a state in memory of its own, which the header of its first region leads to (`stack`). A thread that comes
//! to have the region of one that has ended finds another thread's number there, and begins anew; so does the child of
//! fork.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use mote_layout::functions::{COUNTERS_MAX, Counter};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{Mapping, PAGE_BYTES};
use mote_sys::perf::{self, Scope};
use mote_sys::perf_count::{self, CounterPage};
use mote_sys::raw::syscall;
use mote_sys::{Errno, process};

/// Where numbers of descriptors begin that programs do not count on.
const NUMBER: i32 = 900;
/// `RUSAGE_THREAD` (linux/resource.h).
const RUSAGE_THREAD: usize = 1;

/// What is counted. Stays for good, once it is installed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Set {
    counters: [Option<Counter>; COUNTERS_MAX],
    /// Which of them is time, of which sampling takes some.
    clock: Option<usize>,
    /// Some are what getrusage(2) tells.
    has_usage: bool,
}

/// The newest one; null before there is any.
static SET: AtomicPtr<Set> = AtomicPtr::new(core::ptr::null_mut());
/// How often one was installed: each time threads open its events anew.
static INSTALLED: AtomicU32 = AtomicU32::new(0);

impl Set {
    /// These counters.
    pub(crate) fn new(counters: impl Iterator<Item = Counter>) -> Set {
        let mut set = Set { counters: [None; COUNTERS_MAX], clock: None, has_usage: false };
        for (number, (to, counter)) in set.counters.iter_mut().zip(counters).enumerate() {
            *to = Some(counter);
            match counter {
                Counter { kind: Counter::OWN, config: Counter::TASK_CLOCK } => set.clock = Some(number),
                Counter { kind: Counter::OWN, .. } => set.has_usage = true,
                _ => {}
            }
        }
        set
    }

    /// Has this one counted from now on, by threads that begin a call.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn install(self) -> Result<(), Errno> {
        if Set::newest() != Some(&self) {
            let set = Mapping::private(size_of::<Set>())?.leak().cast::<Set>();
            // SAFETY: fresh memory of this size; pages are aligned for any type.
            unsafe { set.write(self) };
            SET.store(set, Ordering::Release);
        }
        INSTALLED.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn newest() -> Option<&'static Set> {
        // SAFETY: `install` stores nothing but references that stay.
        unsafe { SET.load(Ordering::Acquire).cast_const().as_ref() }
    }

    fn is_own(&self) -> bool {
        self.has_usage || self.clock.is_some()
    }
}

/// What a thread has counted until a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Of which thread, and which of its beginnings; 0 of none.
    source: (usize, u32),
    counts: [u64; COUNTERS_MAX],
    /// Nanoseconds that events were to be counted, and were.
    enabled: u64,
    running: u64,
    /// Nanoseconds that sampling has taken, and which of the counts is time, too.
    overhead: u64,
    clock: Option<usize>,
}

/// What a thread has counted between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) counts: [u64; COUNTERS_MAX],
    /// For how many percent of the time.
    pub(crate) percent: u8,
    /// Nanoseconds that sampling took of it.
    pub(crate) overhead: u64,
}

impl Reading {
    /// What was counted between an earlier moment of the same thread and this one; `None` where it was another thread.
    pub(crate) fn since(&self, before: &Reading) -> Option<Spent> {
        if self.source != before.source {
            return None;
        }
        let mut counts = [0; COUNTERS_MAX];
        for (to, (now, then)) in counts.iter_mut().zip(self.counts.iter().zip(&before.counts)) {
            *to = now.wrapping_sub(*then);
        }
        let overhead = self.overhead.wrapping_sub(before.overhead);
        if let Some(clock) = self.clock.and_then(|clock| counts.get_mut(clock)) {
            *clock = clock.saturating_sub(overhead);
        }
        let enabled = self.enabled.wrapping_sub(before.enabled);
        let running = self.running.wrapping_sub(before.running);
        let percent = match (self.source, enabled) {
            ((0, _), _) => 0,
            (_, 0) => 100,
            _ => (running.saturating_mul(100) / enabled).min(100) as u8,
        };
        Some(Spent { counts, percent, overhead })
    }

    /// Leaves out what sampling has taken until now, for what begins now.
    pub(crate) fn without_overhead_until_now(&mut self, state: &AtomicPtr<Thread>) {
        if let Some(thread) = thread_of(state) {
            self.overhead = thread.overhead;
        }
    }
}

/// Notes that sampling has taken so many nanoseconds of the calling thread.
pub(crate) fn add_overhead(state: &AtomicPtr<Thread>, nanoseconds: u64) {
    if let Some(thread) = thread_of(state) {
        thread.overhead = thread.overhead.wrapping_add(nanoseconds);
    }
}

/// The state of a thread.
#[derive(Debug)]
pub(crate) struct Thread {
    thread: u32,
    process: i32,
    /// Changes whenever its events are opened.
    begun: u32,
    set: Option<&'static Set>,
    /// The how manieth that was.
    installed: u32,
    /// How many of the set's are events of perf_event_open(2), and could be opened.
    events: usize,
    failed: bool,
    /// Nanoseconds that sampling has taken of it.
    overhead: u64,
    /// Their pages, where all of them can be read so.
    pages: [Option<NonNull<CounterPage>>; COUNTERS_MAX],
    /// The leader's descriptor and number, where they cannot.
    leader: Option<(i32, u64)>,
}

/// Reads what the calling thread has counted; `state` is where its state is, or null.
///
/// # Cost
/// System calls: gettid(2), one for each kind that it may ask of itself, two for events that no processor's counter
/// tells. At a thread's first call, some for each event.
pub(crate) fn read(state: &AtomicPtr<Thread>) -> Reading {
    let (Some(set), Some(thread)) = (Set::newest(), thread_of(state)) else { return Reading::default() };
    let tid = process::tid() as u32;
    let installed = INSTALLED.load(Ordering::Acquire);
    let is_its = thread.set.is_some_and(|known| core::ptr::eq(known, set)) && thread.installed == installed;
    if !is_its || thread.thread != tid {
        thread.installed = installed;
        thread.begin(set, tid);
    }
    let mut reading = Reading {
        source: (core::ptr::from_ref(thread).expose_provenance(), thread.begun),
        overhead: thread.overhead,
        clock: set.clock,
        ..Reading::default()
    };
    thread.read_events(&mut reading);
    if set.is_own() {
        read_own(set, &mut reading);
    }
    reading
}

/// The state of the calling thread, made if there is none.
fn thread_of(state: &AtomicPtr<Thread>) -> Option<&'static mut Thread> {
    let mut known = state.load(Ordering::Relaxed);
    if known.is_null() {
        known = Mapping::private(size_of::<Thread>()).ok()?.leak().cast();
        // SAFETY: fresh memory of this size; pages are aligned for any type.
        unsafe { known.write(Thread::new()) };
        state.store(known, Ordering::Relaxed);
    }
    // SAFETY: memory that stays, which only the thread that has the region touches, while it works on its calls.
    unsafe { known.as_mut() }
}

impl Thread {
    const fn new() -> Thread {
        Thread {
            thread: 0,
            process: 0,
            begun: 0,
            set: None,
            installed: 0,
            events: 0,
            failed: false,
            overhead: 0,
            pages: [None; COUNTERS_MAX],
            leader: None,
        }
    }

    /// Opens the events of `set` for the calling thread.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, set: &'static Set, tid: u32) {
        self.end();
        self.begun = self.begun.wrapping_add(1);
        self.set = Some(set);
        self.process = process::pid();
        self.thread = tid;
        let events = || set.counters.iter().flatten().filter(|counter| counter.kind != Counter::OWN);
        self.events = events().count();
        self.failed = self.events > 0 && self.open(&mut events()).is_err();
    }

    fn open(&mut self, counters: &mut dyn Iterator<Item = &Counter>) -> Result<(), Errno> {
        let Some(first) = counters.next() else { return Ok(()) };
        let (first, scope) = match count(first, Scope::All, None) {
            Err(Errno(libc::EACCES | libc::EPERM)) => (count(first, Scope::User, None)?, Scope::User),
            done => (done?, Scope::All),
        };
        let leader = fd::move_above(first, NUMBER);
        let mut all_by_page = self.map(0, &leader)?;
        for (number, counter) in (1..).zip(counters) {
            let event = count(counter, scope, Some(leader.raw()))?;
            all_by_page &= self.map(number, &event)?;
        }
        if !all_by_page {
            self.leader = Some((leader.raw(), perf::id(leader.raw())?));
            core::mem::forget(leader);
        }
        Ok(())
    }

    /// Maps an event's page, with which it stays without its descriptor. Returns whether the page tells the count.
    fn map(&mut self, number: usize, event: &Fd) -> Result<bool, Errno> {
        let page = NonNull::new(Mapping::shared(event, PAGE_BYTES)?.leak().cast::<CounterPage>());
        let (Some(page), Some(to)) = (page, self.pages.get_mut(number)) else {
            return Err(Errno(libc::EINVAL));
        };
        *to = Some(page);
        // SAFETY: the event is mapped there.
        Ok(unsafe { perf_count::can_read(page.as_ptr()) })
    }

    /// Closes what was opened: of this thread before, or of one that has ended.
    fn end(&mut self) {
        if let Some((leader, id)) = self.leader.take()
            && perf::id(leader) == Ok(id)
        {
            drop(Fd::from_raw(leader));
        }
        // The child of fork does not have the pages: something else may be there.
        let is_here = self.process == process::pid();
        for page in self.pages.iter_mut().filter_map(Option::take).filter(|_| is_here) {
            // SAFETY: `map` has leaked it, and nothing else has it.
            drop(unsafe { Mapping::adopt(page.as_ptr().cast(), PAGE_BYTES) });
        }
    }

    fn read_events(&self, reading: &mut Reading) {
        let Some(set) = self.set.filter(|_| self.events > 0 && !self.failed) else { return };
        let places = || {
            let counters = set
                .counters
                .iter()
                .zip(0..)
                .filter(|(counter, _)| counter.is_some_and(|counter| counter.kind != Counter::OWN));
            counters.map(|(_, number)| number)
        };
        let mut put = |number: usize, count: u64| {
            if let Some(to) = reading.counts.get_mut(number) {
                *to = count;
            }
        };
        if let Some((leader, id)) = self.leader {
            let mut words = [0; 3 + COUNTERS_MAX];
            if perf::id(leader) != Ok(id) || perf::read_counts(leader, &mut words).is_err() {
                return;
            }
            let [events, enabled, running, counts @ ..] = words;
            if events != self.events as u64 {
                return;
            }
            (reading.enabled, reading.running) = (enabled, running);
            return places().zip(counts).for_each(|(number, count)| put(number, count));
        }
        for (nth, (number, page)) in places().zip(self.pages.iter().flatten()).enumerate() {
            // SAFETY: an event of the calling thread is mapped there.
            let Some(count) = (unsafe { perf_count::read(page.as_ptr()) }) else { return };
            put(number, count.count);
            if nth == 0 {
                (reading.enabled, reading.running) = (count.enabled, count.running);
            }
        }
    }
}

fn count(counter: &Counter, scope: Scope, leader: Option<i32>) -> Result<Fd, Errno> {
    perf::count(counter.kind, counter.config, scope, leader)
}

/// Asks the kernel what it counts of each thread anyway.
fn read_own(set: &Set, reading: &mut Reading) {
    let clock = set.clock.and_then(|_| cpu_time()).unwrap_or(0);
    let usage = if set.has_usage { usage().unwrap_or_default() } else { Usage::default() };
    for (counter, to) in set.counters.iter().zip(&mut reading.counts) {
        let Some(counter) = counter.filter(|counter| counter.kind == Counter::OWN) else { continue };
        *to = match counter.config {
            Counter::TASK_CLOCK => clock,
            Counter::PAGE_FAULTS => usage.minor.wrapping_add(usage.major),
            Counter::MINOR_FAULTS => usage.minor,
            Counter::MAJOR_FAULTS => usage.major,
            Counter::CONTEXT_SWITCHES => usage.switches,
            _ => 0,
        };
    }
}

/// Nanoseconds of the calling thread on a CPU.
fn cpu_time() -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_THREAD_CPUTIME_ID as usize;
    // SAFETY: the kernel writes one timespec.
    unsafe { syscall(libc::SYS_clock_gettime, [clock, &raw mut now as usize, 0, 0, 0, 0]) }.ok()?;
    Some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Of getrusage(2).
#[derive(Clone, Copy, Default)]
struct Usage {
    minor: u64,
    major: u64,
    switches: u64,
}

fn usage() -> Option<Usage> {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    let arguments = [RUSAGE_THREAD, usage.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes one such structure.
    unsafe { syscall(libc::SYS_getrusage, arguments) }.ok()?;
    // SAFETY: of zeros, and of numbers.
    let usage = unsafe { usage.assume_init() };
    let switches = (usage.ru_nvcsw as u64).wrapping_add(usage.ru_nivcsw as u64);
    Some(Usage { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64, switches })
}
