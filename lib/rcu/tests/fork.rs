//! The child of a fork has one reader and no worker, and everything works.

use mote_reclaim::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use support::beside::beside;

mod support;

/// Forks are one at a time, so that a test does not wait for the other's children.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `child` in a forked process; panics unless it ends well within ten seconds.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child runs test code only and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        // SAFETY: a signal that ends the child if it hangs.
        unsafe { libc::alarm(10) };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if ended { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's wait status");
}

/// All of it once more, with threads and callbacks.
fn everything_works() {
    synchronize::<Library>();
    synchronize::<General>();
    synchronize::<Qsbr>();
    let cell: Arc<Rcu<u32, Library>> = Arc::new(Rcu::new(1));
    let other = cell.clone();
    beside(move || assert_eq!(*other.dereference(&library::read()), 1));
    cell.assign(2);
    barrier::<Library>();
    let ran = Arc::new(AtomicU32::new(0));
    let more = ran.clone();
    defer::<General>(move || {
        more.fetch_add(1, SeqCst);
    });
    barrier::<General>();
    assert_eq!(ran.load(SeqCst), 1);
}

#[test]
fn a_child_forgets_the_readers_that_it_does_not_have() {
    let _one = ONE.lock();
    let stop = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..3)
        .map(|number| {
            let (stop, inside) = (stop.clone(), inside.clone());
            std::thread::spawn(move || {
                let thread = Thread::<General>::register().unwrap();
                let online = Thread::<Qsbr>::register().unwrap();
                let _sections = (thread.read(), online.read(), library::read());
                inside.wait();
                while !stop.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1 + number));
                }
            })
        })
        .collect();
    inside.wait();
    // A thread is in the middle of a grace period when we fork, and work is waiting.
    let updater = std::thread::spawn(synchronize::<Library>);
    defer::<Library>(|| {});
    std::thread::sleep(Duration::from_millis(20));
    in_child(everything_works);
    stop.store(true, SeqCst);
    updater.join().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    everything_works();
}

#[test]
fn a_section_goes_on_in_the_child() {
    let _one = ONE.lock();
    let guard = library::read();
    in_child(|| {
        let token = start_poll::<Library>();
        assert!(!token.is_done());
        // The child's own ids belong to the slot: no thread takes it for a dead thread's.
        beside(move || (0..50).for_each(|_| assert!(!token.is_done())));
        let again = start_poll::<Library>();
        drop(guard);
        while !again.is_done() {}
        everything_works();
    });
}

#[test]
fn callbacks_that_wait_at_the_fork_run_on_both_sides() {
    let _one = ONE.lock();
    let ran = Arc::new(AtomicU32::new(0));
    let guard = library::read();
    for _ in 0..100 {
        let ran = ran.clone();
        defer::<Library>(move || {
            ran.fetch_add(1, SeqCst);
        });
    }
    // The worker has taken some and waits for our section.
    std::thread::sleep(Duration::from_millis(10));
    let seen = ran.clone();
    in_child(move || {
        assert_eq!(seen.load(SeqCst), 0);
        drop(guard);
        barrier::<Library>();
        assert_eq!(seen.load(SeqCst), 100);
        assert_eq!(pending::<Library>(), 0);
    });
    // The guard was moved into the closure, which the parent has dropped.
    barrier::<Library>();
    assert_eq!(ran.load(SeqCst), 100);
}

#[test]
fn a_callback_may_fork() {
    let _one = ONE.lock();
    let done = Arc::new(Barrier::new(2));
    let there = done.clone();
    defer::<Expedited>(move || {
        in_child(|| {
            synchronize::<Expedited>();
            defer::<General>(|| {});
            barrier_elsewhere();
        });
        there.wait();
    });
    done.wait();
    barrier::<Expedited>();
}

/// A worker may not wait for callbacks; another thread may.
fn barrier_elsewhere() {
    beside(barrier::<General>);
}
