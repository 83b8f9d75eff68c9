//! Threads past the standard library: its own take one of its locks as they start and as they end (the list of their
//! stacks, for messages about overflows; Rust 1.95). A fork that comes in such a moment copies the lock held, and no
//! such thread gets beyond its start in the child.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::from_ref;

/// What the standard library gives its threads. Only what is touched costs memory.
const STACK_BYTES: usize = 2 << 20;

/// A thread's start; what it is given is what [`spawn`] was.
pub(crate) type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a detached thread; returns false when the system gives none. The C library's fork leaves its locks free in
/// the child.
pub(crate) fn spawn<T: Sync>(start: Start, given: &'static T) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: initialises the attributes.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the attributes are initialised.
    unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED) };
    let mut thread = 0;
    let given = from_ref(given).cast_mut().cast();
    // SAFETY: `given` lives as long as the process, and may be used by any thread.
    let failed = unsafe { libc::pthread_create(&mut thread, attributes.as_ptr(), start, given) };
    // SAFETY: the attributes are initialised, and used no more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    failed == 0
}
