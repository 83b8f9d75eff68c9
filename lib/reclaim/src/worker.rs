//! Deferred reclamation: callbacks after a grace period, by a thread of ours.
//!
//! # Parties
//! Threads and handlers that enqueue ([`call`], [`defer`], a dropped [`Retired`](crate::Retired)); workers, one for
//! each lane. A flavour has one lane, or one for each CPU ([`reclaim_per_cpu`]).
//! # Protocol
//! A worker takes all that is queued, waits for one grace period, runs it, and starts over; while there is little it
//! lets more come for up to a millisecond, so that a grace period serves many. With an empty queue it sleeps on
//! `asleep`, which it sets before its last look at the queue; a thread that enqueues looks at `asleep` behind the
//! queue's exchange (both in one order, SeqCst): one of them sees the other.
//! # Bound
//! A thread that finds more than the bound (65,536 callbacks a lane) waits, unless it is in a read section: its own
//! section might be what the worker waits for.
//! # Fork
//! The queues are held while the process forks. The child has no workers: the next [`call`] starts one, which first
//! does what was left of the parent's batch, after a grace period of its own.
//! # Progress
//! `call` is wait-free below the bound, but for the first of a process, which starts the thread. `barrier` blocks.

use crate::thread;
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use mote_rcu::callback::{self, Patience, Queue};
use mote_rcu::{Flavor, Head, Run};
use mote_sync::{Lock, Padded, rseq};
use mote_sys::{process, signal};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most lanes that [`reclaim_per_cpu`] uses; CPUs beyond share them.
const LANES: usize = 16;
/// Callbacks a lane before callers wait.
const BOUND: usize = 1 << 16;
/// With fewer than this a worker waits for more to come.
const FEW: usize = 1 << 10;
/// The worker counts so many callbacks at once.
const COUNT_EVERY: usize = 64;
/// How long it looks whether there is enough.
const GATHER_NS: u64 = 100_000;
/// How often.
const GATHER_LOOKS: usize = 10;

std::thread_local! {
    /// The lane whose callbacks the thread runs just now.
    static RECLAIMS: Cell<*const Lane> = const { Cell::new(core::ptr::null()) };
    /// It is a worker.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// The lanes of one flavour.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    lanes: [Padded<Lane>; LANES],
    used: AtomicUsize,
    bound: AtomicUsize,
}

/// A queue and its worker.
#[derive(Debug)]
struct Lane {
    queue: Queue,
    has_worker: AtomicU32,
    /// Futex: 1 while the worker sleeps.
    asleep: AtomicU32,
    /// Apart from what callers write.
    work: Padded<Work>,
}

/// What the worker writes for each callback.
#[derive(Debug)]
struct Work {
    /// What the worker has taken and not run yet.
    batch: AtomicPtr<Head>,
    /// Callbacks that have run, or run just now, and that the queue still counts.
    uncounted: AtomicUsize,
    /// Held by the thread that reclaims.
    reclaiming: Lock,
}

/// Runs `run` with `head` on another thread, after a grace period of flavour `F`.
///
/// # Safety
/// `head` stays valid and untouched until `run` gets it; `run` may be called with it on any thread.
///
/// # Cost
/// Two atomic exchanges; wait-free below the bound (see [`set_bound`]), above it the caller waits unless it is in a
/// read section. The first call of a process starts a thread.
///
/// # Signal safety
/// Callable from a handler once [`start_reclaimer`] has been called, and below the bound.
pub unsafe fn call<F: Flavor>(head: NonNull<Head>, run: Run) {
    let reclaimer = reclaimer::<F>();
    let lane = reclaimer.lane();
    // SAFETY: the caller's promise.
    unsafe { lane.queue.enqueue(head, run) };
    lane.wake();
    if lane.has_worker.load(Ordering::Relaxed) == 0 {
        lane.start::<F>();
    }
    if lane.queue.pending() > reclaimer.bound.load(Ordering::Relaxed) {
        lane.press::<F>(reclaimer.bound.load(Ordering::Relaxed));
    }
}

/// Calls `work` on another thread, after a grace period of flavour `F`.
///
/// # Cost
/// An allocation, and as [`call`].
pub fn defer<F: Flavor>(work: impl FnOnce() + Send + 'static) {
    let (head, run) = boxed(work);
    // SAFETY: valid until `run` frees it; the closure is `Send`.
    unsafe { call::<F>(head, run) };
}

/// Frees what is in a box, after a grace period of flavour `F`. Costs as [`defer`].
///
/// # Safety
/// `object` is from a box, and the caller's to free; others only have references to it that they got in a section of
/// `F`.
pub(crate) unsafe fn free_later<F: Flavor, T: Send + 'static>(object: NonNull<T>) {
    let owned = Owned(object);
    defer::<F>(move || drop(owned));
}

/// A box that others may still look into.
struct Owned<T>(NonNull<T>);

// SAFETY: it owns a `T`.
unsafe impl<T: Send> Send for Owned<T> {}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: `free_later`'s caller has said so, and the grace period is over.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Waits until all callbacks of flavour `F` that were enqueued before have run.
///
/// Not inside a read section, nor in a callback (where it returns at once).
///
/// # Panics
/// In debug builds inside a read section, and in a callback.
pub fn barrier<F: Flavor>() {
    debug_assert!(!F::is_reading(), "barrier inside a read section waits for itself");
    debug_assert!(RECLAIMS.get().is_null(), "barrier in a callback waits for itself");
    if !RECLAIMS.get().is_null() {
        return;
    }
    // All lanes: some may have been used before `reclaim_per_cpu`, or by other CPUs.
    for lane in &reclaimer::<F>().lanes {
        lane.barrier::<F>();
    }
}

/// Number of callbacks of flavour `F` that have not run.
pub fn pending<F: Flavor>() -> usize {
    reclaimer::<F>().lanes.iter().map(|lane| lane.queue.pending()).sum()
}

/// Starts the worker of flavour `F` now, so that no later [`call`] has to.
pub fn start_reclaimer<F: Flavor>() {
    let reclaimer = reclaimer::<F>();
    for lane in reclaimer.lanes.iter().take(reclaimer.used.load(Ordering::Relaxed)) {
        if lane.has_worker.load(Ordering::Relaxed) == 0 {
            lane.start::<F>();
        }
    }
}

/// From here on each CPU has its own queue and worker of flavour `F` (at most 16).
///
/// Callbacks of different CPUs then run in any order.
pub fn reclaim_per_cpu<F: Flavor>() {
    rseq::find();
    let cpus = process::possible_cpus().map_or(1, |cpus| cpus as usize);
    reclaimer::<F>().used.store(cpus.clamp(1, LANES), Ordering::Relaxed);
}

/// Sets the number of waiting callbacks of flavour `F` (in each lane) above which callers of [`call`] wait: 65,536 at
/// first.
pub fn set_bound<F: Flavor>(callbacks: usize) {
    reclaimer::<F>().bound.store(callbacks, Ordering::Relaxed);
}

/// The lanes of flavour `F`.
pub(crate) fn reclaimer<F: Flavor>() -> &'static Reclaimer {
    static RECLAIMERS: [Reclaimer; callback::FLAVORS] = [const { Reclaimer::new() }; callback::FLAVORS];
    &RECLAIMERS[F::NUMBER]
}

impl Reclaimer {
    pub(crate) const fn new() -> Reclaimer {
        Reclaimer {
            lanes: [const { Padded(Lane::new()) }; LANES],
            used: AtomicUsize::new(1),
            bound: AtomicUsize::new(BOUND),
        }
    }

    fn lane(&self) -> &Lane {
        let used = self.used.load(Ordering::Relaxed);
        let cpu = if used == 1 { 0 } else { rseq::cpu_hint().unwrap_or(0) as usize % used };
        self.lanes.get(cpu).unwrap_or(&self.lanes[0])
    }

    pub(crate) fn before_fork(&self) {
        // SAFETY: `fork` pairs this with one of the next two.
        self.lanes.iter().for_each(|lane| unsafe { lane.queue.before_fork() });
    }

    pub(crate) fn after_fork(&self) {
        // SAFETY: `before_fork` went before, see `fork`.
        self.lanes.iter().for_each(|lane| unsafe { lane.queue.after_fork() });
    }

    pub(crate) fn after_fork_in_child(&self) {
        self.lanes.iter().for_each(|lane| lane.after_fork_in_child());
    }
}

impl Lane {
    const fn new() -> Lane {
        Lane {
            queue: Queue::new(),
            has_worker: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            work: Padded(Work {
                batch: AtomicPtr::new(null_mut()),
                uncounted: AtomicUsize::new(0),
                reclaiming: Lock::new(),
            }),
        }
    }

    fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) == 1 && self.asleep.swap(0, Ordering::SeqCst) == 1 {
            process::futex_wake(&self.asleep, 1);
        }
    }

    /// Starts the worker unless another thread has. Where no thread is to be had, callers reclaim by themselves
    /// ([`Lane::press`]).
    #[cold]
    fn start<F: Flavor>(&'static self) {
        if self.has_worker.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        // The thread is no place for the program's handlers.
        let mask = signal::block(!0);
        let started = thread::spawn(work::<F>, self);
        signal::set_mask(mask);
        if !started {
            self.has_worker.store(0, Ordering::Relaxed);
        }
    }

    fn work<F: Flavor>(&'static self) -> ! {
        process::set_comm(c"mote-rcu");
        IS_WORKER.set(true);
        loop {
            self.wait_for_work();
            self.gather(reclaimer::<F>().bound.load(Ordering::Relaxed));
            self.reclaim::<F>();
        }
    }

    fn wait_for_work(&self) {
        while self.queue.is_empty() && self.work.batch.load(Ordering::Relaxed).is_null() {
            self.asleep.store(1, Ordering::SeqCst);
            if self.queue.is_empty() {
                let _ = process::futex_wait(&self.asleep, 1);
            }
            self.asleep.store(0, Ordering::SeqCst);
        }
    }

    /// Lets more come, so that a grace period serves many; not when callers wait already.
    fn gather(&self, bound: usize) {
        for _ in 0..GATHER_LOOKS {
            if self.queue.pending() >= FEW.min(bound) {
                return;
            }
            let _ = mote_sys::time::sleep(GATHER_NS);
        }
    }

    /// Takes all, waits for a grace period, runs all.
    fn reclaim<F: Flavor>(&self) {
        let _reclaiming = self.work.reclaiming.hold();
        let others = RECLAIMS.replace(self);
        self.run_all::<F>();
        RECLAIMS.set(others);
    }

    /// Only for the thread that reclaims.
    fn run_all<F: Flavor>(&self) {
        // What a fork has left over comes first.
        if self.work.batch.load(Ordering::Relaxed).is_null() {
            self.queue.take(&self.work.batch);
        }
        if self.work.batch.load(Ordering::Relaxed).is_null() {
            return;
        }
        mote_rcu::synchronize::<F>();
        while let Some(at) = NonNull::new(self.work.batch.load(Ordering::Relaxed)) {
            // SAFETY: taken from the queue and not run.
            let next = unsafe { callback::next(at) };
            // Before it runs: the child of a fork in the middle of it must not run it again.
            self.work.batch.store(next, Ordering::Relaxed);
            let uncounted = self.work.uncounted.load(Ordering::Relaxed) + 1;
            self.work.uncounted.store(uncounted, Ordering::Relaxed);
            // SAFETY: taken from the queue, run once, and the grace period is over.
            run_whatever_comes(|| unsafe { callback::run(at) });
            if uncounted >= COUNT_EVERY {
                self.count();
            }
        }
        self.count();
    }

    /// Tells the queue. Seldom: callers write the same line.
    fn count(&self) {
        self.queue.done(self.work.uncounted.swap(0, Ordering::Relaxed));
    }

    /// There is too much: waits, or does the work when no other thread does. Not inside a read section.
    #[cold]
    fn press<F: Flavor>(&self, bound: usize) {
        if F::is_reading() || !RECLAIMS.get().is_null() {
            return;
        }
        let mut patience = Patience::default();
        while self.queue.pending() > bound {
            if self.has_worker.load(Ordering::Relaxed) == 0 {
                self.reclaim::<F>();
            } else {
                patience.wait();
            }
        }
    }

    fn barrier<F: Flavor>(&'static self) {
        if self.queue.pending() == 0 {
            return;
        }
        let done = Arc::new(AtomicU32::new(0));
        let mark = done.clone();
        let (head, run) = boxed(move || {
            // A thread that waits for us finds nothing pending of what was before.
            self.count();
            mark.store(1, Ordering::Release);
            process::futex_wake(&mark, 1);
        });
        // SAFETY: valid until `run` frees it; the closure is `Send`.
        unsafe { self.queue.enqueue(head, run) };
        self.wake();
        if self.has_worker.load(Ordering::Relaxed) == 0 {
            self.start::<F>();
        }
        while done.load(Ordering::Acquire) == 0 {
            if self.has_worker.load(Ordering::Relaxed) == 0 {
                self.reclaim::<F>();
            } else {
                let _ = process::futex_wait(&done, 0);
            }
        }
    }

    fn after_fork_in_child(&self) {
        let (mut head, mut taken) = (self.work.batch.load(Ordering::Relaxed), 0);
        while let Some(at) = NonNull::new(head) {
            // SAFETY: taken from the queue and not run.
            head = unsafe { callback::next(at) };
            taken += 1;
        }
        // A callback may fork; then the thread that lives on has others to run.
        let lives_on = core::ptr::eq(RECLAIMS.get(), self);
        if lives_on {
            taken += self.work.uncounted.load(Ordering::Relaxed);
        }
        // SAFETY: `before_fork` went before, and this is the only thread: see `fork`.
        unsafe { self.queue.after_fork_in_child(taken) };
        if !lives_on {
            self.work.uncounted.store(0, Ordering::Relaxed);
            self.work.reclaiming.release();
        }
        if !(lives_on && IS_WORKER.get()) {
            self.has_worker.store(0, Ordering::Relaxed);
            self.asleep.store(0, Ordering::Relaxed);
        }
    }
}

/// The worker's thread.
extern "C" fn work<F: Flavor>(lane: *mut c_void) -> *mut c_void {
    // SAFETY: `Lane::start` gives a lane that lives as long as the process.
    unsafe { &*lane.cast::<Lane>() }.work::<F>()
}

/// Runs a callback. One that panics has said so; the others still run, also when what it has thrown panics once more as
/// it is dropped.
fn run_whatever_comes(run: impl FnOnce()) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(run))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown)))
    {
        core::mem::forget(again);
    }
}

/// A closure that waits for its grace period.
#[repr(C)]
struct Deferred<W> {
    head: Head,
    work: W,
}

/// A callback that calls `work`.
fn boxed<W: FnOnce()>(work: W) -> (NonNull<Head>, Run) {
    let deferred = Box::leak(Box::new(Deferred { head: Head::new(), work }));
    (NonNull::from(deferred).cast(), finish::<W>)
}

/// Calls the closure of a boxed [`Deferred`] and frees it.
///
/// # Safety
/// `head` is the first field of a boxed `Deferred<W>` that no other thread uses.
unsafe fn finish<W: FnOnce()>(head: NonNull<Head>) {
    // SAFETY: the caller's promise.
    let deferred = unsafe { Box::from_raw(head.cast::<Deferred<W>>().as_ptr()) };
    (deferred.work)();
}
