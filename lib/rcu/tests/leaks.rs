//! A guard that is leaked protects for ever: its thread may be dead, what was dereferenced with it may be anywhere.

use mote_reclaim::*;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A value that says when it is dropped.
struct Live(&'static AtomicBool);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// A cell whose first value says in `alive` that it was not dropped.
fn cell<F: Flavor>(alive: &'static AtomicBool) -> Rcu<Live, F> {
    alive.store(true, SeqCst);
    Rcu::new(Live(alive))
}

/// Replaces the value, which a thread has had by a guard that it leaked, and gives it every chance to be dropped.
fn replaced_value_stays<F: Flavor>(cell: &Rcu<Live, F>, value: &Live) {
    static ANOTHER: AtomicBool = AtomicBool::new(true);
    cell.assign(Live(&ANOTHER));
    let token = start_poll::<F>();
    for _ in 0..1000 {
        assert!(!token.is_done(), "a grace period is over while a thread has a reference");
        std::thread::yield_now();
    }
    assert!(value.0.load(SeqCst), "dropped while a thread has a reference");
}

/// A registered thread leaks all it has, and dies.
fn a_registered_thread_leaks<F: Registered>(alive: &'static AtomicBool) {
    let cell: &'static Rcu<Live, F> = Box::leak(Box::new(cell(alive)));
    let leak = || {
        let thread = Box::leak(Box::new(Thread::<F>::register().expect("a free slot")));
        cell.dereference(Box::leak(Box::new(thread.read())))
    };
    let value: &'static Live = std::thread::spawn(leak).join().expect("a reference");
    replaced_value_stays(cell, value);
}

#[test]
fn what_a_dead_thread_has_leaked_stays() {
    static ALIVE: [AtomicBool; 4] = [const { AtomicBool::new(true) }; 4];
    a_registered_thread_leaks::<Qsbr>(&ALIVE[0]);
    a_registered_thread_leaks::<General>(&ALIVE[1]);
    a_registered_thread_leaks::<Expedited>(&ALIVE[2]);
    a_registered_thread_leaks::<Signal>(&ALIVE[3]);
}

#[test]
fn what_a_dead_thread_has_leaked_stays_in_the_library_flavour() {
    static ALIVE: AtomicBool = AtomicBool::new(true);
    static CELL: LazyLock<Rcu<Live>> = LazyLock::new(|| cell(&ALIVE));
    let leak = || CELL.dereference(Box::leak(Box::new(library::read())));
    let value: &'static Live = std::thread::spawn(leak).join().expect("a reference");
    replaced_value_stays(&CELL, value);
}
