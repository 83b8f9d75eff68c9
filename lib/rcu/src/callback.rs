//! Callbacks that run after a grace period, and the queue they wait in (thesis, figure 6.11).
//!
//! # Parties
//! Any number of threads and handlers that enqueue; one that takes all, under the queue's lock.
//! # State
//! A list from `first` over `Head::next` to `last`; empty when `last` is null. A thread that enqueues swaps `last`,
//! then links: to the one before, or to `first` when there was none. Between the two the list has a gap that the taker
//! waits for.
//! # Invariants: who may touch what
//! `first-of-queue`: `first` is written by the one that has found `last` null, and cleared by the taker before it
//! clears `last`.
//!
//! `head-in-queue`: a `Head` belongs to the queue from `enqueue` until it is run.
//! # Progress
//! `enqueue` is wait-free. `take` waits for enqueuers in the middle of theirs.

use crate::flavor::Flavor;
use crate::grace;
#[doc(hidden)]
pub use crate::wait::Patience;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use mote_sync::Lock;

/// What is called after the grace period, with the `Head` that was enqueued.
pub type Run = unsafe fn(NonNull<Head>);

/// The part of an object that queues it; embed it, so that reclamation allocates nothing.
#[derive(Debug)]
#[repr(C)]
pub struct Head {
    next: AtomicPtr<Head>,
    /// A [`Run`], null while the object is in use. Atomic only to be shared.
    run: AtomicPtr<()>,
}

impl Head {
    /// Of an object in use.
    pub const fn new() -> Head {
        Head { next: AtomicPtr::new(null_mut()), run: AtomicPtr::new(null_mut()) }
    }
}

impl Default for Head {
    fn default() -> Head {
        Head::new()
    }
}

/// Callbacks of flavour `F` that wait for a grace period. The thread that owns it runs them; programs with an
/// allocator have `mote_reclaim::call`, which has a thread for that.
#[derive(Debug)]
pub struct Callbacks<F> {
    queue: Queue,
    flavor: PhantomData<fn() -> F>,
}

impl<F: Flavor> Callbacks<F> {
    /// An empty queue, without an allocation.
    pub const fn new() -> Callbacks<F> {
        Callbacks { queue: Queue::new(), flavor: PhantomData }
    }

    /// Enqueues `head`: `run` is called with it after a grace period, by [`run`](Callbacks::run).
    ///
    /// # Safety
    /// `head` stays valid and untouched until `run` gets it; `run` may be called with it on any thread.
    ///
    /// # Cost
    /// An exchange and two stores; wait-free.
    ///
    /// # Signal safety
    /// Callable from a handler and inside a read section.
    pub unsafe fn call(&self, head: NonNull<Head>, run: Run) {
        // SAFETY: the caller's promise.
        unsafe { self.queue.enqueue(head, run) };
    }

    /// Number of callbacks that have not run.
    /// The number of callbacks that were added and have not been called; others may change it at the same time.
    pub fn pending(&self) -> usize {
        self.queue.pending()
    }

    /// Waits for a grace period and runs all callbacks that were enqueued before. Returns how many.
    ///
    /// Not inside a read section, as [`synchronize`](crate::synchronize).
    ///
    /// # Panics
    /// In debug builds when the calling thread is in a read section; and when a callback does. What has not run then is
    /// in the queue again.
    pub fn run(&self) -> usize {
        let batch = AtomicPtr::new(null_mut());
        self.queue.take(&batch);
        let mut batch = Batch { queue: &self.queue, head: batch.into_inner(), taken: 0 };
        if batch.head.is_null() {
            return 0;
        }
        grace::synchronize::<F>();
        while let Some(at) = batch.take() {
            // SAFETY: taken from the queue, run once, and the grace period is over.
            unsafe { run(at) };
        }
        batch.taken
    }
}

/// What was taken from a queue. When it is dropped, what has not run goes back there.
struct Batch<'q> {
    queue: &'q Queue,
    head: *mut Head,
    /// Callbacks that have run, or go back.
    taken: usize,
}

impl Batch<'_> {
    fn take(&mut self) -> Option<NonNull<Head>> {
        let at = NonNull::new(self.head)?;
        // SAFETY: taken from the queue, so ours until it is run.
        self.head = unsafe { next(at) };
        self.taken += 1;
        Some(at)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        while let Some(at) = self.take() {
            // SAFETY: taken from the queue and not run.
            let run = unsafe { run_of(at) };
            // SAFETY: as the caller that enqueued it has promised.
            unsafe { self.queue.enqueue(at, run) };
        }
        self.queue.done(self.taken);
    }
}

impl<F: Flavor> Default for Callbacks<F> {
    fn default() -> Callbacks<F> {
        Callbacks::new()
    }
}

/// The queue without its flavour, wait-free for those that enqueue; the module's page has its protocol.
#[derive(Debug)]
#[doc(hidden)]
pub struct Queue {
    first: AtomicPtr<Head>,
    last: AtomicPtr<Head>,
    pending: AtomicUsize,
    taker: Lock,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue::new()
    }
}

impl Queue {
    /// A queue without callbacks.
    pub const fn new() -> Queue {
        Queue {
            first: AtomicPtr::new(null_mut()),
            last: AtomicPtr::new(null_mut()),
            pending: AtomicUsize::new(0),
            taker: Lock::new(),
        }
    }

    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// # Safety
    /// As [`Callbacks::call`].
    pub unsafe fn enqueue(&self, head: NonNull<Head>, run: Run) {
        // SAFETY: valid by the caller's promise; `head-in-queue` makes it ours alone until the swap.
        let new = unsafe { head.as_ref() };
        new.next.store(null_mut(), Ordering::Relaxed);
        new.run.store(run as *mut (), Ordering::Relaxed);
        self.pending.fetch_add(1, Ordering::Relaxed);
        // The one before is initialised, and so are we; in one order with `is_empty`.
        let before = self.last.swap(head.as_ptr(), Ordering::SeqCst);
        // SAFETY: the one before cannot be run until it is linked to us: `take` waits for that.
        match unsafe { before.as_ref() } {
            Some(before) => before.next.store(head.as_ptr(), Ordering::Release),
            None => self.first.store(head.as_ptr(), Ordering::Release),
        }
    }

    /// True when nothing is waiting. In one order with enqueueing: see `mote_reclaim`.
    pub fn is_empty(&self) -> bool {
        self.last.load(Ordering::SeqCst).is_null()
    }

    /// Moves all that is there to `batch`, which has been empty: a list that null ends.
    pub fn take(&self, batch: &AtomicPtr<Head>) {
        let _taker = self.taker.hold();
        if self.last.load(Ordering::Acquire).is_null() {
            return;
        }
        let first = wait_for(&self.first);
        batch.store(first, Ordering::Relaxed);
        // 1: before `last` says empty.
        self.first.store(null_mut(), Ordering::Relaxed);
        let last = self.last.swap(null_mut(), Ordering::AcqRel);
        let mut head = first;
        while head != last {
            // SAFETY: in the queue, so valid (`head-in-queue`); no other thread runs what we have taken.
            head = wait_for(unsafe { &(*head).next });
        }
    }

    /// Before a fork: keeps all threads from taking, and waits until all that is queued is linked.
    ///
    /// # Safety
    /// [`after_fork`](Queue::after_fork) or [`after_fork_in_child`](Queue::after_fork_in_child) follows, by the same
    /// thread.
    pub unsafe fn before_fork(&self) {
        core::mem::forget(self.taker.hold());
        let last = self.last.load(Ordering::Acquire);
        if last.is_null() {
            return;
        }
        let mut head = wait_for(&self.first);
        while head != last {
            // SAFETY: in the queue, and no thread takes.
            head = wait_for(unsafe { &(*head).next });
        }
    }

    /// After a fork, in the parent.
    ///
    /// # Safety
    /// [`before_fork`](Queue::before_fork) went before.
    pub unsafe fn after_fork(&self) {
        self.taker.release();
    }

    /// After a fork, in the child: what other threads were enqueueing at that moment is lost (its memory is kept).
    /// `taken` callbacks of this queue are taken and not run.
    ///
    /// # Safety
    /// [`before_fork`](Queue::before_fork) went before, and no other thread is there.
    pub unsafe fn after_fork_in_child(&self, taken: usize) {
        let (mut head, mut linked, mut count) = (self.first.load(Ordering::Acquire), null_mut(), taken);
        while !head.is_null() {
            (linked, count) = (head, count + 1);
            // SAFETY: in the queue; this is the only thread.
            head = unsafe { &(*head).next }.load(Ordering::Acquire);
        }
        self.last.store(linked, Ordering::Relaxed);
        self.pending.store(count, Ordering::Relaxed);
        self.taker.release();
    }

    /// Counts callbacks that have run.
    pub fn done(&self, count: usize) {
        self.pending.fetch_sub(count, Ordering::Release);
    }
}

/// Number of flavours: [`Flavor::NUMBER`] is below.
#[doc(hidden)]
pub const FLAVORS: usize = 5;

/// Makes flavour `F` right again in the child of a fork.
///
/// # Safety
/// The process has just been forked and has no other thread.
#[doc(hidden)]
pub unsafe fn after_fork<F: Flavor>() {
    F::domain().after_fork(F::slot());
}

/// The callback behind `at` in a batch, or null.
///
/// # Safety
/// `at` was taken from a queue and has not run.
#[doc(hidden)]
pub unsafe fn next(at: NonNull<Head>) -> *mut Head {
    // SAFETY: valid until it is run.
    unsafe { at.as_ref() }.next.load(Ordering::Relaxed)
}

/// Runs a callback.
///
/// # Safety
/// `at` was taken from a queue, is run once, and its grace period is over.
#[doc(hidden)]
pub unsafe fn run(at: NonNull<Head>) {
    // SAFETY: the caller's promise.
    let run = unsafe { run_of(at) };
    // SAFETY: what the caller that enqueued it has promised.
    unsafe { run(at) };
}

/// # Safety
/// `at` was taken from a queue and has not run.
unsafe fn run_of(at: NonNull<Head>) -> Run {
    // SAFETY: valid until it is run.
    let run = unsafe { at.as_ref() }.run.load(Ordering::Relaxed);
    // SAFETY: `enqueue` has stored a `Run` there.
    unsafe { core::mem::transmute::<*mut (), Run>(run) }
}

/// Waits for the link that another thread is about to store.
fn wait_for(link: &AtomicPtr<Head>) -> *mut Head {
    let mut patience = Patience::default();
    loop {
        let to = link.load(Ordering::Acquire);
        if !to.is_null() {
            return to;
        }
        patience.wait();
    }
}
