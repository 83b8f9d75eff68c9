//! A read section, for as long as the value lives.

use crate::flavor::Flavor;
use core::marker::PhantomData;

/// A read section of the calling thread: what it has dereferenced stays until it is dropped.
///
/// Sections nest and may be dropped in any order; a grace period waits for the last. A guard that is forgotten
/// (`mem::forget`) holds up all grace periods for ever: memory is then kept, nothing else breaks.
///
/// # Signal safety
/// A handler may begin and end sections wherever it interrupts the thread.
#[must_use = "the section ends when the guard is dropped"]
#[derive(Debug)]
pub struct Guard<'t, F: Flavor> {
    section: F::Section,
    /// Not longer than the thread's registration; never another thread's.
    scope: PhantomData<(&'t (), *mut ())>,
}

impl<F: Flavor> Guard<'_, F> {
    /// The guard of a section that the calling thread has begun and that no other thread ends.
    #[inline(always)]
    pub(crate) fn of(section: F::Section) -> Self {
        Guard { section, scope: PhantomData }
    }
}

impl<F: Flavor> Drop for Guard<'_, F> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `of` was given a section of this thread, which a guard never leaves; drop runs once.
        unsafe { F::exit(self.section) };
    }
}
