//! A queue with wait-free enqueue and lock-free dequeue: liburcu's wfcqueue at its end, rculfqueue at its beginning.
//!
//! # Parties
//! Any number of threads that enqueue and dequeue.
//! # State
//! A list from `first`, whose value has been taken (at the beginning it never had one), over `next` to `last`. A thread
//! that enqueues swaps `last`, then links the one before to its node: between the two the list has a *gap*, behind
//! which nothing can be reached.
//! # Invariants: who may touch what
//! `queue-node-private`: a node is its enqueuer's alone until the one before leads to it. `next` is written once.
//!
//! `queue-first-owned`: a thread that has moved `first` from a node to the next owns the *next* one's value, and
//! retires the node it has moved `first` from; others may still read that one's `next`, until a grace period is over.
//!
//! `queue-next-first`: a node is not left by `first` before its `next` is written: so the enqueuer behind it writes to
//! what is still there, and needs no read section.
//! # Ordering
//! A. What was done before `enqueue` is seen by a thread that dequeues the value: `next` is written by a release, read
//!    by an acquire.
//! # Progress
//! `enqueue` is wait-free. `dequeue` is lock-free among those that dequeue, and waits for no thread; when the oldest
//! value is behind a gap, it says so ([`Dequeued::Gap`]) and leaves it to the caller to wait or to do something else.
//! # Signal, fork
//! `enqueue` allocates: not in handlers. `dequeue` may run in a handler, wherever it interrupts, once
//! [`start_reclaimer`](crate::start_reclaimer) has been called: it must not wait for a gap there, which may be the
//! interrupted thread's own. A gap of another thread stays for ever in the child of a fork.

use crate::{Flavor, Guard, Head, Library, call};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use mote_sync::Padded;
use mote_sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;

/// An enqueued value, or the place of one that was dequeued.
#[repr(C)]
struct Node<T> {
    head: Head,
    next: AtomicPtr<Node<T>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// What [`Queue::dequeue`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it may have the value"]
pub enum Dequeued<T> {
    /// The oldest value.
    Value(T),
    /// There was none.
    Empty,
    /// The oldest value is just being enqueued: the thread that does it has to go on first.
    Gap,
}

impl<T> Dequeued<T> {
    /// The value, if there was one.
    pub fn value(self) -> Option<T> {
        match self {
            Dequeued::Value(value) => Some(value),
            Dequeued::Empty | Dequeued::Gap => None,
        }
    }
}

/// A queue of `T`, for readers of flavour `F`.
///
/// # Progress
/// [`enqueue`](Queue::enqueue) is wait-free, [`dequeue`](Queue::dequeue) lock-free; both but for the allocator and
/// [`call`]'s bound. Neither waits for another thread: a value behind one that is just being enqueued is told of as
/// [`Dequeued::Gap`].
///
/// ```
/// use mote_reclaim::{Dequeued, Queue, library};
/// let queue: Queue<u32> = Queue::new();
/// queue.enqueue(1);
/// queue.enqueue(2);
/// assert_eq!(queue.dequeue(&library::read()), Dequeued::Value(1));
/// assert_eq!(queue.dequeue(&library::read()).value(), Some(2));
/// assert_eq!(queue.dequeue(&library::read()), Dequeued::Empty);
/// ```
pub struct Queue<T, F: Flavor = Library> {
    /// Apart: those that dequeue write one, those that enqueue the other. Neither is ever null.
    first: Padded<AtomicPtr<Node<T>>>,
    last: Padded<AtomicPtr<Node<T>>>,
    owns: PhantomData<T>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: values go in and come out by move; no thread has a reference to one that is inside.
unsafe impl<T: Send, F: Flavor> Send for Queue<T, F> {}
// SAFETY: as above; all changes are atomic.
unsafe impl<T: Send, F: Flavor> Sync for Queue<T, F> {}

impl<T, F: Flavor> Queue<T, F> {
    /// An empty queue. Allocates a node.
    pub fn new() -> Queue<T, F> {
        let node = boxed(MaybeUninit::uninit());
        Queue {
            first: Padded(AtomicPtr::new(node)),
            last: Padded(AtomicPtr::new(node)),
            owns: PhantomData,
            flavor: PhantomData,
        }
    }

    /// Puts `value` behind all others. Needs no read section.
    ///
    /// # Cost
    /// An allocation, an exchange and a store; wait-free.
    pub fn enqueue(&self, value: T) {
        let node = boxed(MaybeUninit::new(value));
        // Releases the node to the enqueuer behind us, which writes its `next`; acquires the one before for our own
        // write.
        let before = self.last.swap(node, Ordering::AcqRel);
        // A, and the end of the gap.
        // SAFETY: `queue-next-first`: `first` cannot leave the one before until this is written.
        unsafe { &(*before).next }.store(node, Ordering::Release);
    }

    /// Takes the oldest value.
    ///
    /// # Cost
    /// A compare-and-exchange, and a [`call`](crate::call) for the node; lock-free.
    pub fn dequeue(&self, _guard: &Guard<'_, F>) -> Dequeued<T> {
        let mut first = self.first.load(Ordering::Acquire);
        loop {
            // SAFETY: `first` has led to it within the section, which keeps it (`queue-first-owned`).
            let next = unsafe { &(*first).next }.load(Ordering::Acquire);
            let Some(to) = NonNull::new(next) else {
                match self.without_next(first) {
                    Some(answer) => return answer,
                    None => first = self.first.load(Ordering::Acquire),
                }
                continue;
            };
            match self.first.compare_exchange_weak(first, next, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: `queue-first-owned`: `first` was moved by us; initialised (A). The section keeps `to` if
                // others move on.
                Ok(_) => return Dequeued::Value(unsafe { take::<T, F>(first, to) }),
                Err(now) => first = now,
            }
        }
    }

    /// What it means that `first` had no next; `None` when it has one by now.
    fn without_next(&self, first: *mut Node<T>) -> Option<Dequeued<T>> {
        // No thread had swapped `last`: empty, at this moment.
        if self.last.load(Ordering::Acquire) == first {
            return Some(Dequeued::Empty);
        }
        // SAFETY: as in `dequeue`, whose section this is.
        let next = unsafe { &(*first).next }.load(Ordering::Acquire);
        next.is_null().then_some(Dequeued::Gap)
    }
}

impl<T, F: Flavor> Drop for Queue<T, F> {
    fn drop(&mut self) {
        let mut at = self.first.load(Ordering::Acquire);
        let mut has_value = false;
        while !at.is_null() {
            // SAFETY: `&mut self`: no other thread; each came from a box and is left behind.
            let node = unsafe { Box::from_raw(at) };
            at = node.next.load(Ordering::Acquire);
            if has_value {
                // SAFETY: all but the first have theirs.
                drop(unsafe { node.value.into_inner().assume_init() });
            }
            has_value = true;
        }
    }
}

fn boxed<T>(value: MaybeUninit<T>) -> *mut Node<T> {
    let next = AtomicPtr::new(null_mut());
    Box::into_raw(Box::new(Node { head: Head::new(), next, value: UnsafeCell::new(value) }))
}

/// The value of `to`; `from` is retired.
///
/// # Safety
/// The caller has moved `first` from `from` to `to`, in a read section that lasts.
unsafe fn take<T, F: Flavor>(from: *mut Node<T>, to: NonNull<Node<T>>) -> T {
    // SAFETY: kept by the section.
    let place = unsafe { &(*to.as_ptr()).value }.get();
    // SAFETY: no thread writes it any more.
    let value = unsafe { place.read() };
    // SAFETY: initialised, and read once: by its owner (`queue-first-owned`).
    let value = unsafe { value.assume_init() };
    // SAFETY: never null.
    let from = unsafe { NonNull::new_unchecked(from) };
    // SAFETY: ours to retire (`queue-first-owned`); `free` frees memory only.
    unsafe { call::<F>(from.cast(), free::<T>) };
    value
}

/// Frees a node whose value has been moved out.
///
/// # Safety
/// `head` is the first field of a boxed `Node<T>` that no thread uses any more.
unsafe fn free<T>(head: NonNull<Head>) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(head.cast::<Node<T>>().as_ptr()) });
}

impl<T, F: Flavor> Default for Queue<T, F> {
    fn default() -> Queue<T, F> {
        Queue::new()
    }
}

impl<T, F: Flavor> fmt::Debug for Queue<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}
