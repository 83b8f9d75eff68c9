//! Where no thread is to be had, a thread that defers above the bound, or that waits, runs callbacks. A file of its
//! own: the limit is the process's.

use mote_reclaim::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Sets the limit of the address space, and returns what it was.
fn limit(bytes: libc::rlim_t) -> libc::rlim_t {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one structure.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limits) };
    let before = std::mem::replace(&mut limits.rlim_cur, bytes);
    // SAFETY: reads one structure.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &limits) };
    before
}

#[test]
fn callbacks_run_without_a_worker_and_may_defer() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    set_bound::<General>(2);
    // No new stack fits in.
    let before = limit(1 << 20);
    let has_thread = std::thread::Builder::new().spawn(|| ()).is_ok();
    for _ in 0..10 {
        defer::<General>(|| {
            RAN.fetch_add(1, SeqCst);
            (0..10).for_each(|_| defer::<General>(|| _ = RAN.fetch_add(1, SeqCst)));
        });
    }
    barrier::<General>();
    barrier::<General>();
    let left = pending::<General>();
    limit(before);
    if has_thread {
        mote_skip::skip("this machine makes threads in spite of RLIMIT_AS");
    }
    assert_eq!((RAN.load(SeqCst), left), (110, 0));
}
