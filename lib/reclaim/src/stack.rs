//! A lock-free stack whose nodes are freed after a grace period, which is what keeps ABA away (liburcu's lfstack).
//!
//! # Parties
//! Any number of threads that push, pop, and take everything.
//! # State
//! `top` leads to the youngest node, each node to the one `below` it; null ends.
//! # Invariants: who may touch what
//! `stack-node-private`: a node is its pusher's alone until `top` leads to it. From then on `below` never changes.
//!
//! `stack-top-owned`: a thread that has moved `top` past a node owns its value, and retires the node; others may still
//! read its `below`, until a grace period is over.
//! # Why there is no ABA
//! A popper that has read `top` and `below` in a read section may find `top` as it was, with other nodes under it, only
//! if the node was pushed a second time. Nodes are never pushed twice, and the memory of one is not another before the
//! section is over.
//! # Ordering
//! A. What was done before `push` is seen by a thread that pops the value: `top` is published by a release and read by
//!    an acquire; in between there are only read-modify-writes, which continue the release sequence.
//! # Progress
//! `push` and `pop` are lock-free; `take` and `is_empty` are wait-free.
//! # Signal, fork
//! `push` allocates: not in handlers. `pop` and `is_empty` may run in a handler, wherever it interrupts, once
//! [`start_reclaimer`](crate::start_reclaimer) has been called. After fork the child's stack is whole.

use crate::{Flavor, Guard, Head, Library, call};
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, null_mut};
use mote_sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;

/// A pushed value.
#[repr(C)]
struct Node<T> {
    head: Head,
    below: *mut Node<T>,
    value: ManuallyDrop<T>,
}

/// A lock-free stack of `T`, for readers of flavour `F`.
///
/// # Progress
/// [`push`](Stack::push) and [`pop`](Stack::pop) are lock-free, [`take`](Stack::take) and [`is_empty`](Stack::is_empty)
/// wait-free; all but for the allocator and [`call`]'s bound.
///
/// ```
/// use mote_reclaim::{Stack, library};
/// let stack: Stack<u32> = Stack::new();
/// stack.push(1);
/// stack.push(2);
/// assert_eq!(stack.pop(&library::read()), Some(2));
/// assert_eq!(stack.take().collect::<Vec<_>>(), [1]);
/// ```
pub struct Stack<T, F: Flavor = Library> {
    top: AtomicPtr<Node<T>>,
    owns: PhantomData<T>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: values go in and come out by move; no thread has a reference to one that is inside.
unsafe impl<T: Send, F: Flavor> Send for Stack<T, F> {}
// SAFETY: as above; all changes are atomic.
unsafe impl<T: Send, F: Flavor> Sync for Stack<T, F> {}

/// All that was in a stack, youngest first. What is left when it is dropped is dropped too.
pub struct Taken<T, F: Flavor> {
    top: *mut Node<T>,
    owns: PhantomData<T>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: it owns values and nodes, of which others read `below` only.
unsafe impl<T: Send, F: Flavor> Send for Taken<T, F> {}

impl<T, F: Flavor> Stack<T, F> {
    /// A stack without entries; it allocates nothing.
    pub fn new() -> Stack<T, F> {
        Stack { top: AtomicPtr::new(null_mut()), owns: PhantomData, flavor: PhantomData }
    }

    /// Puts `value` on top. Needs no read section.
    ///
    /// # Cost
    /// An allocation and a compare-and-exchange; lock-free.
    pub fn push(&self, value: T) {
        let top = self.top.load(Ordering::Relaxed);
        let node = Box::new(Node { head: Head::new(), below: top, value: ManuallyDrop::new(value) });
        let node = Box::into_raw(node);
        let mut below = top;
        // A: releases the node. Nothing of `below` is read, so its failure needs no acquire.
        while let Err(now) = self.top.compare_exchange_weak(below, node, Ordering::Release, Ordering::Relaxed)
        {
            below = now;
            // SAFETY: `stack-node-private`: not published, so ours alone.
            unsafe { (*node).below = below };
        }
    }

    /// Takes the value on top.
    ///
    /// # Cost
    /// A compare-and-exchange, and a [`call`](crate::call) for the node; lock-free.
    pub fn pop(&self, _guard: &Guard<'_, F>) -> Option<T> {
        let mut top = NonNull::new(self.top.load(Ordering::Acquire))?;
        loop {
            // SAFETY: published, so initialised (A), and kept by the section (`stack-top-owned`). `below` does not
            // change (`stack-node-private`).
            let below = unsafe { (*top.as_ptr()).below };
            match self.top.compare_exchange_weak(top.as_ptr(), below, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: `stack-top-owned`: `top` was moved past it by us.
                Ok(_) => return Some(unsafe { take::<T, F>(top) }),
                Err(now) => top = NonNull::new(now)?,
            }
        }
    }

    /// Takes everything. Needs no read section.
    ///
    /// # Cost
    /// An exchange, wait-free; then what [`call`](crate::call) costs for each value.
    pub fn take(&self) -> Taken<T, F> {
        let top = self.top.swap(null_mut(), Ordering::AcqRel);
        Taken { top, owns: PhantomData, flavor: PhantomData }
    }

    /// True when there was nothing at that moment.
    pub fn is_empty(&self) -> bool {
        self.top.load(Ordering::Acquire).is_null()
    }
}

impl<T, F: Flavor> Iterator for Taken<T, F> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let top = NonNull::new(self.top)?;
        // SAFETY: `stack-top-owned`: ours, initialised (A), not retired yet.
        self.top = unsafe { (*top.as_ptr()).below };
        // SAFETY: `stack-top-owned`: no other thread has moved `top` past it, and we leave it behind.
        Some(unsafe { take::<T, F>(top) })
    }
}

impl<T, F: Flavor> Drop for Taken<T, F> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<T, F: Flavor> Drop for Stack<T, F> {
    fn drop(&mut self) {
        let mut top = self.top.load(Ordering::Acquire);
        while let Some(node) = NonNull::new(top) {
            // SAFETY: `&mut self`: no popper; the node came from a box and is left behind.
            let node = *unsafe { Box::from_raw(node.as_ptr()) };
            top = node.below;
            drop(ManuallyDrop::into_inner(node.value));
        }
    }
}

/// The value of a node, which is retired.
///
/// # Safety
/// The caller owns the node (`stack-top-owned`) and does not touch it any more.
unsafe fn take<T, F: Flavor>(node: NonNull<Node<T>>) -> T {
    // SAFETY: valid until `free`.
    let place = unsafe { &raw const (*node.as_ptr()).value };
    // SAFETY: initialised, and read once: by the owner.
    let value = unsafe { place.read() };
    // SAFETY: valid until `free`, which frees memory only: the value, which need not live so long, has been moved out.
    unsafe { call::<F>(node.cast(), free::<T>) };
    ManuallyDrop::into_inner(value)
}

/// Frees a node whose value has been moved out.
///
/// # Safety
/// `head` is the first field of a boxed `Node<T>` that no thread uses any more.
unsafe fn free<T>(head: NonNull<Head>) {
    // SAFETY: the caller's promise; the value is not dropped.
    drop(unsafe { Box::from_raw(head.cast::<Node<T>>().as_ptr()) });
}

impl<T, F: Flavor> Default for Stack<T, F> {
    fn default() -> Stack<T, F> {
        Stack::new()
    }
}

impl<T, F: Flavor> fmt::Debug for Stack<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}

impl<T, F: Flavor> fmt::Debug for Taken<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}
