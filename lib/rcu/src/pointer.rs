//! A pointer that is published to readers: the raw material of data structures.

use crate::flavor::Flavor;
use crate::guard::Guard;
use mote_sync::atomic::{AtomicPtr, Ordering};

/// A pointer to a `T` that readers dereference while an updater replaces it.
///
/// It owns nothing. [`Rcu`](crate::Rcu) is the one that does, with a safe interface.
///
/// # Ordering
/// The publication guarantee (equation 6.2): whatever was done to the pointee before [`assign`](Pointer::assign) is
/// seen by a thread that gets the pointer from [`dereference`](Pointer::dereference).
///
/// # Progress
/// All operations are wait-free.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Pointer<T>(AtomicPtr<T>);

impl<T> Pointer<T> {
    crate::const_unless_loom! {
        /// A pointer that is published from the beginning; null for none.
        pub fn new(to: *mut T) -> Pointer<T> {
            Pointer(AtomicPtr::new(to))
        }
    }
}

impl<T> Pointer<T> {
    /// What it points to now, for as long as the section lasts.
    ///
    /// # Safety
    /// Whatever is published here is a valid, initialised `T` that is only shared, until a grace period of `F` that
    /// began after it was replaced is over.
    #[inline(always)]
    pub unsafe fn dereference<'g, F: Flavor>(&self, _guard: &'g Guard<'_, F>) -> Option<&'g T> {
        // SAFETY: the caller's promise: valid until the section is over.
        unsafe { self.load().as_ref() }
    }

    /// The pointer, to be looked at by updaters, or to be followed by callers that know that it is good.
    #[inline(always)]
    pub fn load(&self) -> *mut T {
        // Acquire for the publication guarantee; it costs nothing on x86, and Rust has no weaker "consume".
        self.0.load(Ordering::Acquire)
    }

    /// Publishes `to` by a releasing store: readers that load it see what was written before.
    #[inline(always)]
    pub fn assign(&self, to: *mut T) {
        self.0.store(to, Ordering::Release);
    }

    /// Publishes `to` and returns what was there.
    #[inline]
    pub fn swap(&self, to: *mut T) -> *mut T {
        self.0.swap(to, Ordering::AcqRel)
    }

    /// Publishes `to` if `expected` is there.
    ///
    /// # Errors
    /// What is there instead.
    #[inline]
    pub fn compare_exchange(&self, expected: *mut T, to: *mut T) -> Result<*mut T, *mut T> {
        self.0.compare_exchange(expected, to, Ordering::AcqRel, Ordering::Acquire)
    }
}
