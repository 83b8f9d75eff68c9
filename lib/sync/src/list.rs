//! Lists that only grow, which any thread reads and adds to without waiting.
//!
//! What is in one has its link itself, and stays for good, so nothing is allocated: a list may be walked in a handler
//! of a signal. `tests/loom_list.rs` runs it through all interleavings.

use crate::atomic::{AtomicPtr, Ordering};
use core::fmt;
use core::ptr::null_mut;

/// Where the one behind it is. Part of what is in a list.
pub struct Next<T>(AtomicPtr<T>);

/// What can be in one list.
pub trait Listed: Sync + Sized + 'static {
    /// Its link, which nothing else uses.
    fn next(&self) -> &Next<Self>;
}

/// Things that stay, the last one first.
///
/// # Invariants
/// `list-stays`: each pointer of it is null or comes from a `&'static T`.
pub struct List<T>(AtomicPtr<T>);

impl<T> Next<T> {
    /// The link of what is in no list yet.
    #[cfg(not(any(loom, shuttle)))]
    pub const fn new() -> Next<T> {
        Next(AtomicPtr::new(null_mut()))
    }

    /// The link of what is in no list yet.
    #[cfg(any(loom, shuttle))]
    pub fn new() -> Next<T> {
        Next(AtomicPtr::new(null_mut()))
    }
}

impl<T> List<T> {
    /// An empty list.
    #[cfg(not(any(loom, shuttle)))]
    pub const fn new() -> List<T> {
        List(AtomicPtr::new(null_mut()))
    }

    /// An empty list.
    #[cfg(any(loom, shuttle))]
    pub fn new() -> List<T> {
        List(AtomicPtr::new(null_mut()))
    }
}

impl<T: Listed> List<T> {
    /// Puts `one` before all others, for good. Once for each: what is added again takes those before it out of the
    /// list, or makes a ring of it.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub fn add(&self, one: &'static T) {
        let new = (&raw const *one).cast_mut();
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            one.next().0.store(first, Ordering::Relaxed);
            // Release pairs with the acquire in `iter`: a thread that finds it finds it whole, and those behind it by
            // the same load, as each exchange continues the release sequence of those before.
            match self.0.compare_exchange_weak(first, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// All that were added before.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        let mut next = self.0.load(Ordering::Acquire).cast_const();
        core::iter::from_fn(move || {
            // SAFETY: `list-stays`.
            let one = unsafe { next.as_ref() }?;
            next = one.next().0.load(Ordering::Relaxed).cast_const();
            Some(one)
        })
    }
}

impl<T> Default for Next<T> {
    fn default() -> Next<T> {
        Next::new()
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List::new()
    }
}

impl<T> fmt::Debug for Next<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Next")
    }
}

impl<T> fmt::Debug for List<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("List")
    }
}
