//! The futex lock in all interleavings and memory orders, by loom. What it protects is a cell that loom watches; a
//! wake-up that is lost leaves a thread asleep for ever, which loom reports as a deadlock.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mote-trace-sync --test loom_lock`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use mote_sync::{Guard, Lock};

/// A number behind the lock.
struct Counted {
    lock: Lock,
    count: UnsafeCell<u32>,
}

// SAFETY: loom checks all accesses of the cell, which is the point.
unsafe impl Sync for Counted {}
// SAFETY: as above.
unsafe impl Send for Counted {}

impl Counted {
    fn new() -> Arc<Counted> {
        Arc::new(Counted { lock: Lock::new(), count: UnsafeCell::new(0) })
    }

    fn increment(&self, _: &Guard<'_>) {
        // SAFETY: loom says when another thread is there.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }

    fn count(&self, _: &Guard<'_>) -> u32 {
        // SAFETY: as above.
        self.count.with(|count| unsafe { *count })
    }
}

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// `others` threads and this one hold the lock `times` times each.
fn all_hold(others: usize, times: usize) {
    let counted = Counted::new();
    let work = move |counted: &Counted| (0..times).for_each(|_| counted.increment(&counted.lock.hold()));
    let threads: Vec<_> = (0..others)
        .map(|_| {
            let counted = counted.clone();
            thread::spawn(move || work(&counted))
        })
        .collect();
    work(&counted);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(counted.count(&counted.lock.hold()), ((others + 1) * times) as u32);
}

#[test]
fn two_threads_hold_it_in_turns() {
    check(None, || all_hold(1, 2));
}

/// Two sleep, and whoever is woken has to wake the other.
#[test]
fn three_threads_are_all_woken() {
    check(Some(3), || all_hold(2, 1));
}

/// One goes without the lock once a thread has held it; the others must be woken all the same.
#[test]
fn who_goes_without_it_leaves_nobody_asleep() {
    check(Some(3), || {
        let counted = Counted::new();
        let done = Arc::new(AtomicBool::new(false));
        let work = |counted: &Counted, done: &AtomicBool| {
            counted.increment(&counted.lock.hold());
            done.store(true, Ordering::Release);
        };
        let holding = {
            let (counted, done) = (counted.clone(), done.clone());
            thread::spawn(move || work(&counted, &done))
        };
        let going = {
            let (counted, done) = (counted.clone(), done.clone());
            thread::spawn(move || {
                let held = counted.lock.hold_unless(|| done.load(Ordering::Acquire));
                held.map(|held| counted.increment(&held)).is_some()
            })
        };
        work(&counted, &done);
        holding.join().unwrap();
        let held = going.join().unwrap();
        assert_eq!(counted.count(&counted.lock.try_hold().expect("free")), 2 + u32::from(held));
    });
}

/// A handler's way: it takes the lock only if it is free.
#[test]
fn who_only_tries_is_alone_too() {
    check(None, || {
        let counted = Counted::new();
        let trying = {
            let counted = counted.clone();
            thread::spawn(move || counted.lock.try_hold().map(|held| counted.increment(&held)).is_some())
        };
        counted.increment(&counted.lock.hold());
        let tried = trying.join().unwrap();
        assert_eq!(counted.count(&counted.lock.try_hold().expect("free")), 1 + u32::from(tried));
    });
}

/// Around fork: taken by one function, given back by another; a thread waits meanwhile.
#[test]
fn a_guard_that_was_forgotten_is_given_back() {
    check(None, || {
        let counted = Counted::new();
        let waiting = {
            let counted = counted.clone();
            thread::spawn(move || counted.increment(&counted.lock.hold()))
        };
        let held = counted.lock.hold();
        counted.increment(&held);
        core::mem::forget(held);
        counted.lock.release();
        waiting.join().unwrap();
        assert_eq!(counted.count(&counted.lock.hold()), 2);
    });
}
