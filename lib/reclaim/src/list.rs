//! A doubly linked list that readers walk while one updater at a time changes it (liburcu's rculist).
//!
//! # Parties
//! Readers, in sections; one updater, which holds the list's lock.
//! # State
//! A ring of nodes with one `anchor` that has no value. `next` and `previous` are published pointers.
//! # Invariants: who may touch what
//! `list-node-private`: a node is its maker's alone until its neighbours lead to it. Then its value never changes.
//!
//! `list-links-of-updater`: only the updater writes links. The links of a removed node stay as they were: a reader on
//! it finds its way back.
//!
//! `list-retired-unlinked`: a node is retired when neither neighbour leads to it; those that a removed node leads to
//! were in the list after it was unlinked, so they are kept at least as long. A removed node has no `owner`.
//! # Ordering
//! A. What was done to a value before it was inserted is seen by a thread that comes to it, from either side: links are
//!    published by a release and followed by an acquire.
//! # Progress
//! Readers are wait-free: each step is a load. Updaters block each other.
//! # Signal, fork
//! Readers may run in a handler, wherever it interrupts. Updaters may not: they lock. As with any lock, the child of a
//! fork cannot update a list that another thread was updating.

use crate::{Flavor, Guard, Head, Library, call};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Deref;
use core::ptr::{NonNull, null_mut};
use mote_sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An element, or the anchor.
#[repr(C)]
struct Node<T> {
    head: Head,
    next: AtomicPtr<Node<T>>,
    previous: AtomicPtr<Node<T>>,
    /// The anchor of the list that it is in. Written by the updater only.
    owner: AtomicPtr<Node<T>>,
    /// The anchor has none.
    value: MaybeUninit<T>,
}

/// A doubly linked list of `T`, for readers of flavour `F`.
///
/// # Progress
/// Readers are wait-free: a step of [`iter`](List::iter) is a load. Updaters block each other
/// ([`update`](List::update)), and no reader.
///
/// ```
/// use mote_reclaim::{List, library};
/// let list: List<u32> = List::new();
/// list.update().push_back(2);
/// list.update().push_front(1);
/// let guard = library::read();
/// let first = list.iter(&guard).next().expect("an element");
/// assert!(list.update().remove(first));
/// assert_eq!(*first, 1); // until the section is over
/// assert_eq!(list.iter(&guard).map(|element| *element).collect::<Vec<_>>(), [2]);
/// ```
pub struct List<T, F: Flavor = Library> {
    /// From a box.
    anchor: NonNull<Node<T>>,
    updating: Mutex<()>,
    owns: PhantomData<T>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: it owns values, and hands out shared references to them.
unsafe impl<T: Send + Sync, F: Flavor> Send for List<T, F> {}
// SAFETY: as above; one updater at a time.
unsafe impl<T: Send + Sync, F: Flavor> Sync for List<T, F> {}

/// An element that a reader has come to; also while it is being removed.
pub struct Element<'g, T> {
    node: NonNull<Node<T>>,
    scope: PhantomData<&'g T>,
}

/// The elements from one end to the other, while they may change.
///
/// Those that are there all the time are given exactly once, in their order. From the back, too; but an insertion or a
/// removal may be seen from one side a moment earlier than from the other.
pub struct Iter<'g, T> {
    at: NonNull<Node<T>>,
    anchor: NonNull<Node<T>>,
    towards: Towards,
    scope: PhantomData<&'g T>,
}

#[derive(Clone, Copy)]
enum Towards {
    Back,
    Front,
}

/// The thread that may change the list now.
#[must_use = "others wait until this is dropped"]
pub struct Updater<'l, T, F: Flavor> {
    list: &'l List<T, F>,
    _updating: MutexGuard<'l, ()>,
}

impl<T, F: Flavor> List<T, F> {
    /// An empty list. Allocates its anchor.
    pub fn new() -> List<T, F> {
        let anchor = boxed(MaybeUninit::uninit());
        // SAFETY: just made.
        let node = unsafe { anchor.as_ref() };
        node.next.store(anchor.as_ptr(), Ordering::Relaxed);
        node.previous.store(anchor.as_ptr(), Ordering::Relaxed);
        List { anchor, updating: Mutex::new(()), owns: PhantomData, flavor: PhantomData }
    }

    /// The elements from the front to the back.
    pub fn iter<'g>(&'g self, _guard: &'g Guard<'_, F>) -> Iter<'g, T> {
        Iter { at: self.anchor, anchor: self.anchor, towards: Towards::Back, scope: PhantomData }
    }

    /// The elements from the back to the front.
    pub fn iter_back<'g>(&'g self, _guard: &'g Guard<'_, F>) -> Iter<'g, T> {
        Iter { at: self.anchor, anchor: self.anchor, towards: Towards::Front, scope: PhantomData }
    }

    /// True when there was no element at that moment.
    pub fn is_empty(&self) -> bool {
        // SAFETY: lives as long as the list.
        let first = unsafe { self.anchor.as_ref() }.next.load(Ordering::Acquire);
        first == self.anchor.as_ptr()
    }

    /// Waits until no other thread updates the list.
    pub fn update(&self) -> Updater<'_, T, F> {
        // A panic of another updater left a whole list: nothing that may panic happens between two stores.
        let updating = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        Updater { list: self, _updating: updating }
    }
}

impl<T: Send + Sync + 'static, F: Flavor> Updater<'_, T, F> {
    /// Inserts `value` before all others.
    pub fn push_front(&mut self, value: T) {
        // SAFETY: the anchor is always in the list.
        unsafe { self.insert_behind(self.list.anchor, value) };
    }

    /// Inserts `value` behind all others.
    pub fn push_back(&mut self, value: T) {
        // SAFETY: lives as long as the list.
        let last = unsafe { self.list.anchor.as_ref() }.previous.load(Ordering::Relaxed);
        // SAFETY: links are never null.
        let last = unsafe { NonNull::new_unchecked(last) };
        // SAFETY: in the list, while we are the only updater.
        unsafe { self.insert_behind(last, value) };
    }

    /// Inserts `value` behind `element`.
    ///
    /// # Errors
    /// It is not in this list any more: gives `value` back.
    pub fn insert_after(&mut self, element: Element<'_, T>, value: T) -> Result<(), T> {
        if !self.has(element) {
            return Err(value);
        }
        // SAFETY: in the list.
        unsafe { self.insert_behind(element.node, value) };
        Ok(())
    }

    /// Inserts `value` in front of `element`.
    ///
    /// # Errors
    /// It is not in this list any more: gives `value` back.
    pub fn insert_before(&mut self, element: Element<'_, T>, value: T) -> Result<(), T> {
        if !self.has(element) {
            return Err(value);
        }
        // SAFETY: kept for as long as the element is known.
        let before = unsafe { element.node.as_ref() }.previous.load(Ordering::Relaxed);
        // SAFETY: links are never null.
        let before = unsafe { NonNull::new_unchecked(before) };
        // SAFETY: the neighbour of one in the list is in the list.
        unsafe { self.insert_behind(before, value) };
        Ok(())
    }

    /// Removes `element`, in O(1). It is freed after a grace period. False when it is not in this list any more.
    pub fn remove(&mut self, element: Element<'_, T>) -> bool {
        let is_ours = self.has(element);
        if is_ours {
            // SAFETY: in the list.
            unsafe { self.unlink(element.node) };
        }
        is_ours
    }

    /// Puts `value` in the place of `element`: readers find the one or the other.
    ///
    /// # Errors
    /// It is not in this list any more: gives `value` back.
    pub fn replace(&mut self, element: Element<'_, T>, value: T) -> Result<(), T> {
        if !self.has(element) {
            return Err(value);
        }
        // SAFETY: kept for as long as the element is known.
        let old = unsafe { element.node.as_ref() };
        let (before, behind) = (old.previous.load(Ordering::Relaxed), old.next.load(Ordering::Relaxed));
        // SAFETY: links are never null, and neighbours of one in the list are in the list.
        unsafe { self.link(before, MaybeUninit::new(value), behind) };
        // SAFETY: neither neighbour leads to it any more.
        unsafe { self.retire(element.node) };
        Ok(())
    }

    /// Removes all elements of which `keep` says false. Returns how many.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) -> usize {
        let (mut at, mut removed) = (self.list.anchor, 0);
        loop {
            // SAFETY: in the list, so valid.
            let next = unsafe { next(at) };
            // SAFETY: links are never null.
            let next = unsafe { NonNull::new_unchecked(next) };
            if next == self.list.anchor {
                return removed;
            }
            // SAFETY: in the list, so valid; it has a value, as it is not the anchor.
            let value = unsafe { value(next) };
            if keep(value) {
                at = next;
            } else {
                // SAFETY: in the list. `at` still is, and leads past it.
                unsafe { self.unlink(next) };
                removed += 1;
            }
        }
    }

    /// True when the element is in this list.
    fn has(&self, element: Element<'_, T>) -> bool {
        // SAFETY: kept for as long as the element is known.
        let owner = unsafe { element.node.as_ref() }.owner.load(Ordering::Relaxed);
        owner == self.list.anchor.as_ptr()
    }

    /// # Safety
    /// `before` is in the list.
    unsafe fn insert_behind(&mut self, before: NonNull<Node<T>>, value: T) {
        // SAFETY: in the list, so valid.
        let behind = unsafe { next(before) };
        // SAFETY: neighbours in the list.
        unsafe { self.link(before.as_ptr(), MaybeUninit::new(value), behind) };
    }

    /// Makes a node the next of `before` and the previous of `behind`.
    ///
    /// # Safety
    /// Both are in the list, with at most one node between them.
    unsafe fn link(&mut self, before: *mut Node<T>, value: MaybeUninit<T>, behind: *mut Node<T>) {
        let new = boxed(value);
        // SAFETY: `list-node-private`: ours.
        let node = unsafe { new.as_ref() };
        node.next.store(behind, Ordering::Relaxed);
        node.previous.store(before, Ordering::Relaxed);
        node.owner.store(self.list.anchor.as_ptr(), Ordering::Relaxed);
        // A, for readers that come from the front.
        // SAFETY: in the list, so valid.
        unsafe { &(*before).next }.store(new.as_ptr(), Ordering::Release);
        // A, for readers that come from the back.
        // SAFETY: as above.
        unsafe { &(*behind).previous }.store(new.as_ptr(), Ordering::Release);
    }

    /// Removes a node.
    ///
    /// # Safety
    /// It is in the list, and not the anchor.
    unsafe fn unlink(&mut self, node: NonNull<Node<T>>) {
        // SAFETY: in the list, so valid.
        let old = unsafe { node.as_ref() };
        let (before, behind) = (old.previous.load(Ordering::Relaxed), old.next.load(Ordering::Relaxed));
        // Releases: a thread that comes to a neighbour this way sees it whole.
        // SAFETY: neighbours in the list.
        unsafe { &(*before).next }.store(behind, Ordering::Release);
        // SAFETY: as above.
        unsafe { &(*behind).previous }.store(before, Ordering::Release);
        // SAFETY: `list-retired-unlinked`.
        unsafe { self.retire(node) };
    }

    /// # Safety
    /// No neighbour leads to it any more; it has a value.
    unsafe fn retire(&mut self, node: NonNull<Node<T>>) {
        // SAFETY: not freed yet.
        unsafe { node.as_ref() }.owner.store(null_mut(), Ordering::Relaxed);
        // SAFETY: kept until `free`; the value may be dropped on another thread, at any time.
        unsafe { call::<F>(node.cast(), free::<T>) };
    }
}

impl<'g, T> Iterator for Iter<'g, T> {
    type Item = Element<'g, T>;

    #[inline]
    fn next(&mut self) -> Option<Element<'g, T>> {
        // SAFETY: the anchor, or come to in this section, which keeps it (`list-retired-unlinked`).
        let node = unsafe { self.at.as_ref() };
        let link = match self.towards {
            Towards::Back => &node.next,
            Towards::Front => &node.previous,
        };
        // SAFETY: links are never null.
        let to = unsafe { NonNull::new_unchecked(link.load(Ordering::Acquire)) };
        if to == self.anchor {
            // It stays at the end.
            return None;
        }
        self.at = to;
        Some(Element { node: to, scope: PhantomData })
    }
}

impl<T> Deref for Element<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: kept by the section of 'g, and not the anchor.
        unsafe { value(self.node) }
    }
}

impl<'g, T> Element<'g, T> {
    /// The value, for as long as the section lasts.
    pub fn get(self) -> &'g T {
        // SAFETY: as in `deref`.
        unsafe { value(self.node) }
    }
}

impl<T> Clone for Element<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Element<'_, T> {}

impl<T, F: Flavor> Drop for List<T, F> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no other thread.
        let mut at = unsafe { next(self.anchor) };
        while at != self.anchor.as_ptr() {
            // SAFETY: came from a box, and is left behind.
            let mut node = unsafe { Box::from_raw(at) };
            at = node.next.load(Ordering::Relaxed);
            // SAFETY: all but the anchor have a value.
            unsafe { node.value.assume_init_drop() };
        }
        // SAFETY: came from a box.
        drop(unsafe { Box::from_raw(self.anchor.as_ptr()) });
    }
}

fn boxed<T>(value: MaybeUninit<T>) -> NonNull<Node<T>> {
    let null = || AtomicPtr::new(null_mut());
    let node = Node { head: Head::new(), next: null(), previous: null(), owner: null(), value };
    NonNull::from(Box::leak(Box::new(node)))
}

/// # Safety
/// The node is valid.
unsafe fn next<T>(node: NonNull<Node<T>>) -> *mut Node<T> {
    // SAFETY: the caller's promise.
    unsafe { node.as_ref() }.next.load(Ordering::Acquire)
}

/// # Safety
/// The node is valid for 'g, and not the anchor.
#[inline(always)]
unsafe fn value<'g, T>(node: NonNull<Node<T>>) -> &'g T {
    // SAFETY: valid, by the caller's promise.
    let value = unsafe { &(*node.as_ptr()).value };
    // SAFETY: all but the anchor have one.
    unsafe { value.assume_init_ref() }
}

/// Frees a node with its value.
///
/// # Safety
/// `head` is the first field of a boxed `Node<T>`, not the anchor, that no thread uses any more.
unsafe fn free<T>(head: NonNull<Head>) {
    // SAFETY: the caller's promise.
    let mut node = unsafe { Box::from_raw(head.cast::<Node<T>>().as_ptr()) };
    // SAFETY: not the anchor.
    unsafe { node.value.assume_init_drop() };
}

impl<T, F: Flavor> Default for List<T, F> {
    fn default() -> List<T, F> {
        List::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Element<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T, F: Flavor> fmt::Debug for List<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("is_empty", &self.is_empty()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}

impl<T, F: Flavor> fmt::Debug for Updater<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updater").field("list", self.list).finish()
    }
}
