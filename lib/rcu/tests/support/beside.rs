//! Threads in the child of a fork.

use std::ffi::c_void;

/// Runs `work` on a thread of its own and returns what it did; panics if there is no thread.
///
/// Not by the standard library, whose threads take one of its locks as they start and end: a child that was forked in
/// such a moment has that lock held for ever (`std::sys::pal::unix::stack_overflow`, Rust 1.95).
pub fn beside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut job = (Some(work), None);
    let mut thread = 0;
    let start = start_of(&job);
    // SAFETY: `job` lives until the thread has ended, and no other thread uses it meanwhile.
    let failed = unsafe { libc::pthread_create(&mut thread, std::ptr::null(), start, (&raw mut job).cast()) };
    assert_eq!(failed, 0, "a thread");
    // SAFETY: joined once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    job.1.expect("the thread has done its work")
}

type Job<W, T> = (Option<W>, Option<T>);

fn start_of<W: FnOnce() -> T, T>(_: &Job<W, T>) -> extern "C" fn(*mut c_void) -> *mut c_void {
    extern "C" fn start<W: FnOnce() -> T, T>(job: *mut c_void) -> *mut c_void {
        // SAFETY: `beside` gives its job, and waits.
        let job = unsafe { &mut *job.cast::<Job<W, T>>() };
        job.1 = job.0.take().map(|work| work());
        std::ptr::null_mut()
    }
    start::<W, T>
}
