//! The budget of calls that are samples (iProbe, section IV-B: FPerf's budget by a leaky bucket).
//!
//! ```text
//! probe: quota ─ spent ─▶ SPENT ─ probe away ─▶ queue ─ credit ─▶ next quota, probe back
//! ```
//! Each function has a quota of calls; the probe that takes the last one puts the function into `SPENT`, and only
//! counts those that pass by from then on. The thread that listens takes its probe away, and gives it a quota again
//! when its turn comes and there is credit. Credit grows with the CPU time of the process, by the budget's part of it;
//! what probes and switches really took is taken off. So a function that is seldom called has its probe all the time,
//! and one that is called often for moments.
//!
//! # Who may touch what
//! Probes: quotas, and the begin of the list `SPENT`. All else: the dealer, with the control path held; and the loader
//! in its place, when plans are taken away.

use crate::counters::{self, Thread};
use crate::facts;
use crate::ticks;
use crate::values::{self, Sample};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use mote_agent::{Dealing, Function, Quota};
use mote_sys::raw::syscall;
use mote_sys::tsc;

/// Calls of a quota.
const QUOTA: i32 = 16;
/// How often credit is dealt out, in nanoseconds.
const INTERVAL: u64 = 10_000_000;
/// How soon the dealer looks again after it has switched something, and how late when nothing has happened for a while,
/// in milliseconds.
const SOON: i32 = 1;
const LATE: i32 = 16;
/// What it costs a call whose function has no quota left, in nanoseconds.
const PASS_BY: u64 = 10;
/// What a sample costs besides what is timed: the code around it, at its begin and at its end, which keeps all
/// registers. In nanoseconds.
const AROUND: u64 = 120;
/// A part of a sample that takes as long has lost its processor, in nanoseconds.
const LOST: u64 = 500_000;
/// What a whole sample costs, before any was timed.
const UNTIMED: u64 = 2_000;
/// What it costs to switch a function on and off again, among others, in nanoseconds (`mote_patch::apply`).
const SWITCHING: u64 = 20_000;
/// Switching holds up threads, too, which run into breakpoints meanwhile: it counts so many times.
const SWITCH_FACTOR: u64 = 2;
/// A process that hardly runs is given as much as if it ran for this part of the time.
const IDLE_PART: u64 = 10;
/// Credit for so many intervals may be saved up.
const SAVED: i64 = 10;
/// How many functions that are too expensive now are passed over for cheaper ones.
const LOOKS: usize = 64;
/// Plans that may have functions which are sampled.
const PLANS: usize = 64;

/// Functions whose quota is spent, the last one first.
static SPENT: AtomicPtr<Function> = AtomicPtr::new(null_mut());
/// What samples took, in ticks, and how many were timed: begins and ends.
static TOOK: AtomicU64 = AtomicU64::new(0);
/// What switching took, in nanoseconds.
static SWITCHED: AtomicU64 = AtomicU64::new(0);
static TIMED: AtomicU64 = AtomicU64::new(0);
/// What part of the process's time samples may take, in millionths; 0: all of it.
static BUDGET: AtomicU64 = AtomicU64::new(0);
/// There is a new budget.
static IS_NEW: AtomicBool = AtomicBool::new(false);
/// The functions of each plan.
static SAMPLED: [Sampled; PLANS] =
    [const { Sampled { first: AtomicPtr::new(null_mut()), count: AtomicUsize::new(0) } }; PLANS];

/// Functions of a plan.
struct Sampled {
    first: AtomicPtr<Function>,
    count: AtomicUsize,
}

/// The functions of all plans.
fn sampled() -> impl Iterator<Item = &'static [Function]> {
    SAMPLED.iter().filter_map(|sampled| {
        let first = sampled.first.load(Ordering::Acquire).cast_const();
        let count = sampled.count.load(Ordering::Acquire);
        // SAFETY: `records-stay`: `begin` has put such a slice there, its length first.
        (!first.is_null()).then(|| unsafe { core::slice::from_raw_parts(first, count) })
    })
}

/// No plan has functions that are sampled any more.
pub(crate) fn end() {
    SAMPLED.iter().for_each(|sampled| sampled.first.store(null_mut(), Ordering::Release));
}

/// Forgets the functions that are in lists here, if no plan has any; returns whether there are none. No thread may come
/// to one of a plan that was given up.
pub(crate) fn forget() -> bool {
    if sampled().next().is_some() {
        return false;
    }
    mote_agent::without_dealer(|| {
        SPENT.store(null_mut(), Ordering::Relaxed);
        // SAFETY: the dealer does not work meanwhile.
        let bucket = unsafe { &mut *BUCKET.0.get() };
        (bucket.first, bucket.last, bucket.waiting) = (null_mut(), null_mut(), 0);
    });
    true
}

/// A part of a sample's work.
pub(crate) struct Timing(u64);

impl Timing {
    /// It begins now.
    pub(crate) fn begin() -> Timing {
        Timing(tsc::read().unwrap_or(0))
    }

    /// It ends now: takes its time off the budget, and notes it as none of the program's.
    pub(crate) fn end(self, state: Option<&AtomicPtr<Thread>>) {
        let took = tsc::read().unwrap_or(0).saturating_sub(self.0);
        // The thread may have lost its processor meanwhile: to others, which is no cost.
        if ticks::nanoseconds(took) < LOST {
            TOOK.fetch_add(took, Ordering::Relaxed);
            TIMED.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(state) = state {
            counters::add_overhead(state, ticks::nanoseconds(took) + AROUND);
        }
    }
}

/// Nanoseconds that samples have taken so far, and switching.
#[inline(never)]
fn took() -> u64 {
    let timed = ticks::nanoseconds(TOOK.load(Ordering::Relaxed));
    timed + TIMED.load(Ordering::Relaxed) * AROUND + SWITCHED.load(Ordering::Relaxed)
}

/// Takes a call from a function's quota; `None` when there is none left.
pub(crate) fn take(function: &'static Function) -> Option<Sample> {
    let Quota { left, round, since, spent, .. } = &function.quota;
    let was = left.fetch_sub(1, Ordering::Relaxed);
    if was < 1 {
        return None;
    }
    let now = tsc::read().unwrap_or(0);
    let mut began = since.load(Ordering::Relaxed);
    // A session has come to want it a moment ago.
    if began == 0 {
        since.store(now, Ordering::Relaxed);
        began = now;
    }
    let ticks = now.saturating_sub(began);
    let sample = Sample {
        since: ticks::nanoseconds(ticks),
        round: round.load(Ordering::Relaxed),
        left: (was - 1) as u32,
        ..Sample::default()
    };
    // No other thread has taken this one, and none is given before the function has been taken out of the list again.
    if was == 1 {
        spent.store(now, Ordering::Relaxed);
        put_first(&SPENT, function);
    }
    Some(sample)
}

/// Puts a function before those of a list that threads put functions into, and one takes whole.
fn put_first(list: &AtomicPtr<Function>, function: &'static Function) {
    let mut first = list.load(Ordering::Relaxed);
    loop {
        function.quota.next.store(first, Ordering::Relaxed);
        let new = core::ptr::from_ref(function).cast_mut();
        match list.compare_exchange_weak(first, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Has functions sampled within a budget, from now on: they are added, but not wanted yet.
pub(crate) fn begin(budget: u64, functions: &'static [Function]) {
    BUDGET.store(budget, Ordering::Relaxed);
    let now = tsc::read().unwrap_or(0);
    let cpu = cpu_time();
    for function in functions {
        give(function, now, cpu);
    }
    IS_NEW.store(true, Ordering::Release);
    let free = SAMPLED.iter().find(|sampled| sampled.first.load(Ordering::Relaxed).is_null());
    if let Some(free) = free.filter(|_| !functions.is_empty()) {
        free.count.store(functions.len(), Ordering::Release);
        free.first.store(functions.as_ptr().cast_mut(), Ordering::Release);
    }
    facts::announce();
    mote_agent::deal_by(deal);
}

/// Gives a function a quota, at this time; the process has run for `cpu` nanoseconds.
#[inline(never)]
fn give(function: &Function, now: u64, cpu: u64) {
    let Quota { left, passed, round, since, is_paused, took: took_before, ran, .. } = &function.quota;
    took_before.store(took(), Ordering::Relaxed);
    ran.store(cpu, Ordering::Relaxed);
    let is_limited = BUDGET.load(Ordering::Relaxed) != 0;
    since.store(now, Ordering::Relaxed);
    round.fetch_add(1, Ordering::Relaxed);
    is_paused.store(false, Ordering::Relaxed);
    passed.store(0, Ordering::Relaxed);
    // After what a sample takes from it.
    left.store(if is_limited { QUOTA } else { i32::MAX }, Ordering::Release);
}

/// What the dealer knows.
struct Bucket {
    /// Functions without a quota, the one that waits longest first.
    first: *mut Function,
    last: *mut Function,
    /// Since when the interval is under way, in ticks, and how much CPU time the process had then.
    began: u64,
    cpu: u64,
    /// What samples had taken then, and how many parts of them were timed.
    took: u64,
    timed: u64,
    switched: u64,
    /// Nanoseconds that may be taken; below 0: that were taken too much.
    credit: i64,
    /// What a sample costs.
    cost: u64,
    /// When to look again, in milliseconds.
    pause: i32,
    /// How many functions are in the queue.
    waiting: u32,
}

struct Shelf(UnsafeCell<Bucket>);
// SAFETY: only the dealer touches it, of which there is one at a time: with the control path held.
unsafe impl Sync for Shelf {}
static BUCKET: Shelf = Shelf(UnsafeCell::new(Bucket {
    first: null_mut(),
    last: null_mut(),
    began: 0,
    cpu: 0,
    took: 0,
    timed: 0,
    switched: 0,
    credit: 0,
    cost: UNTIMED,
    pause: SOON,
    waiting: 0,
}));

/// Functions in a list, from `first` on.
fn list(first: *mut Function) -> impl Iterator<Item = &'static Function> {
    let mut at = first;
    core::iter::from_fn(move || {
        // SAFETY: `records-stay`.
        let function = unsafe { at.as_ref() }?;
        at = function.quota.next.load(Ordering::Relaxed);
        Some(function)
    })
}

fn deal(dealing: &mut Dealing<'_>) -> Option<i32> {
    // SAFETY: there is one dealer at a time.
    let bucket = unsafe { &mut *BUCKET.0.get() };
    // A session wants all of a plan, or nothing, but for what rules want for a time and a person switches by hand.
    let is_on = |function: &Function| function.event.is_on() && values::is_sampled(function.values);
    if !sampled().flatten().any(is_on) {
        bucket.take_in();
        IS_NEW.store(true, Ordering::Release);
        return None;
    }
    let now = tsc::read()?;
    let given = bucket.give_all_due(now);
    let spent = bucket.take_in();
    if given.is_null() && spent.is_null() {
        bucket.pause = (2 * bucket.pause).min(LATE);
    } else {
        bucket.pause = SOON;
        let before = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        dealing.switch(&mut list(given).chain(list(spent)));
        let took = clock(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(before);
        SWITCHED.fetch_add(SWITCH_FACTOR * took, Ordering::Relaxed);
    }
    Some(bucket.pause)
}

impl Bucket {
    /// Takes in functions whose quota is spent; returns the first of them in the queue.
    fn take_in(&mut self) -> *mut Function {
        let mut at = SPENT.swap(null_mut(), Ordering::Acquire);
        let cpu = if at.is_null() { 0 } else { cpu_time() };
        let mut first: *mut Function = null_mut();
        // SAFETY: `records-stay`.
        while let Some(function) = unsafe { at.as_ref() } {
            let this = at;
            at = function.quota.next.load(Ordering::Relaxed);
            function.quota.is_paused.store(true, Ordering::Relaxed);
            facts::paused(function, cpu, took());
            self.put_last(this, function);
            self.waiting += 1;
            if first.is_null() {
                first = this;
            }
        }
        first
    }

    fn put_last(&mut self, this: *mut Function, function: &Function) {
        function.quota.next.store(null_mut(), Ordering::Relaxed);
        // SAFETY: `records-stay`.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.quota.next.store(this, Ordering::Relaxed),
            None => self.first = this,
        }
        self.last = this;
    }

    fn take_first(&mut self) -> Option<(*mut Function, &'static Function)> {
        let this = self.first;
        // SAFETY: `records-stay`.
        let function = unsafe { this.as_ref() }?;
        self.first = function.quota.next.load(Ordering::Relaxed);
        if self.first.is_null() {
            self.last = null_mut();
        }
        Some((this, function))
    }

    /// Gives functions of the queue a quota again, as far as there is credit; returns the list of them.
    fn give_all_due(&mut self, now: u64) -> *mut Function {
        if IS_NEW.swap(false, Ordering::Acquire) {
            // A new recording, or a time that is sampled: all that wait for the former one have their turn, and those
            // that were not limited are.
            let budget = BUDGET.load(Ordering::Relaxed);
            (self.began, self.cpu, self.credit) = (now, cpu_time(), 0);
            (self.took, self.timed) = (took(), TIMED.load(Ordering::Relaxed));
            for Quota { left, since, took, ran, .. } in sampled().flatten().map(|function| &function.quota) {
                // So many are left that no thread takes the last one meanwhile.
                if budget != 0 && left.load(Ordering::Relaxed) > QUOTA {
                    left.store(QUOTA, Ordering::Relaxed);
                }
                let _ = since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
                took.store(self.took, Ordering::Relaxed);
                ran.store(self.cpu, Ordering::Relaxed);
            }
            self.switched = SWITCHED.load(Ordering::Relaxed);
            return self.give_while(now, self.cpu, |_| true);
        }
        let elapsed = ticks::nanoseconds(now.saturating_sub(self.began));
        if elapsed < INTERVAL {
            return null_mut();
        }
        let cpu = cpu_time();
        let ran = cpu.saturating_sub(self.cpu).max(elapsed / IDLE_PART);
        let budget = BUDGET.load(Ordering::Relaxed);
        // In microseconds, the product fits for months.
        let allowed = (ran / 1000).saturating_mul(budget) / 1000;
        let (took_now, timed_now) = (took(), TIMED.load(Ordering::Relaxed));
        let (took, timed) = (took_now - self.took, timed_now - self.timed);
        let switched = SWITCHED.load(Ordering::Relaxed);
        let sampling = took.saturating_sub(switched - self.switched);
        (self.took, self.timed, self.switched) = (took_now, timed_now, switched);
        if let Some(cost) = (2 * sampling).checked_div(timed) {
            self.cost = (3 * self.cost + cost) / 4;
        }
        facts::interval(ran, took, self.waiting);
        let allowed = i64::try_from(allowed).unwrap_or(i64::MAX);
        let took = i64::try_from(took).unwrap_or(i64::MAX);
        let most = SAVED.saturating_mul(allowed);
        self.credit = self.credit.saturating_add(allowed).saturating_sub(took).min(most);
        (self.began, self.cpu) = (now, cpu);
        if budget == 0 {
            return self.give_while(now, cpu, |_| true);
        }
        let (mut credit, cost) = (self.credit, self.cost);
        // However expensive it is: there will never be more.
        let mut is_full = credit >= most;
        self.give_while(now, cpu, |function| {
            let price = i64::try_from(price(function, cost)).unwrap_or(i64::MAX);
            let is_cheap = price <= credit || core::mem::take(&mut is_full);
            credit -= if is_cheap { price } else { 0 };
            is_cheap
        })
    }

    /// Gives functions a quota, those first that wait longest, until `is_cheap` refuses too many in a row.
    fn give_while(
        &mut self,
        now: u64,
        cpu: u64,
        mut is_cheap: impl FnMut(&Function) -> bool,
    ) -> *mut Function {
        let mut given = null_mut();
        let mut refused = 0;
        let last = self.last;
        while refused < LOOKS
            && let Some((this, function)) = self.take_first()
        {
            if is_cheap(function) {
                give(function, now, cpu);
                facts::given(function);
                self.waiting = self.waiting.saturating_sub(1);
                function.quota.next.store(given, Ordering::Relaxed);
                given = this;
            } else {
                refused += 1;
                self.put_last(this, function);
            }
            if core::ptr::eq(this, last) {
                break;
            }
        }
        given
    }
}

/// What it costs to give a function a quota again: as much as the last time.
fn price(function: &Function, cost: u64) -> u64 {
    let Quota { since, spent, .. } = &function.quota;
    let ticks = spent.load(Ordering::Relaxed).saturating_sub(since.load(Ordering::Relaxed));
    let lasted = ticks::nanoseconds(ticks).max(1);
    // Until its probe is gone, it is called on, at most a call a nanosecond.
    let soon = SOON as u64 * 1_000_000;
    let passing = (QUOTA as u64 * soon / lasted).min(soon) * PASS_BY;
    QUOTA as u64 * cost + passing + SWITCHING
}

/// Nanoseconds that all threads of the process had a CPU.
fn cpu_time() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// A clock, in nanoseconds.
#[inline(never)]
fn clock(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { syscall(libc::SYS_clock_gettime, [clock as usize, &raw mut now as usize, 0, 0, 0, 0]) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
