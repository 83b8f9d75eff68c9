//! Notices that the process is ending: then destructors of its objects run, perhaps in a sandbox, and nothing is
//! unloaded.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The object that has asked last.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Asks the C library to tell when `exit` begins.
///
/// For constructors of objects, of which each asks: so that it tells us after what the program itself does then, and
/// before their destructors run. What a library asks for before the program begins comes behind those (glibc has its
/// own handler for them put in place between the libraries and the program).
pub(crate) fn watch(object: usize) {
    if WATCHED.swap(object, Ordering::Relaxed) != object {
        // SAFETY: the function stays mapped for as long as the C library calls it: with this object it forgets what it
        // was asked.
        unsafe { libc::atexit(begin) };
    }
}

/// Has all objects ask again.
pub(crate) fn watch_again() {
    WATCHED.store(0, Ordering::Relaxed);
}

extern "C" fn begin() {
    BEGUN.store(true, Ordering::Release);
}

/// Whether the process is ending. (Or this object is being unloaded, which no thread is in then.)
pub(crate) fn has_begun() -> bool {
    BEGUN.load(Ordering::Acquire)
}
