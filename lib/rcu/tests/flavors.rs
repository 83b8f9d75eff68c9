//! Each flavour: readers keep what they have dereferenced, grace periods wait for them and end.

use mote_reclaim::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

/// A value that says when it is dropped.
struct Tell(Arc<AtomicU32>);
impl Drop for Tell {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn registered<F: Registered>() -> Thread<F> {
    Thread::register().expect("a free slot")
}

/// A grace period is not over while a section lasts that began before it, and is over soon after.
fn waits_for_readers<F: Registered>() {
    let inside = Barrier::new(2);
    let leave = AtomicBool::new(false);
    let (inside, leave) = (&inside, &leave);
    thread::scope(|scope| {
        scope.spawn(move || {
            let thread = registered::<F>();
            let outer = thread.read();
            let inner = thread.read();
            drop(outer);
            inside.wait();
            while !leave.load(SeqCst) {
                thread::yield_now();
            }
            drop(inner);
        });
        inside.wait();
        let token = start_poll::<F>();
        for _ in 0..1000 {
            assert!(!token.is_done(), "over while its reader is inside");
        }
        leave.store(true, SeqCst);
        synchronize::<F>();
        assert!(token.is_done());
    });
}

#[test]
fn grace_periods_wait_for_readers() {
    waits_for_readers::<Qsbr>();
    waits_for_readers::<General>();
    waits_for_readers::<Expedited>();
    waits_for_readers::<Signal>();
}

#[test]
fn grace_periods_of_the_library_flavour_wait_for_unregistered_readers() {
    let guard = library::read();
    let token = start_poll::<Library>();
    assert!(!token.is_done());
    // A reader that begins later does not matter.
    let (began, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let _guard = library::read();
        began.send(()).unwrap();
        let _ = ended.recv();
    });
    begun.recv().unwrap();
    drop(guard);
    // It began after the token: the poll may have to look at it in its first phase only if it was begun before that.
    end.send(()).unwrap();
    other.join().unwrap();
    while !token.is_done() {}
}

#[test]
fn polling_alone_ends_a_grace_period() {
    let token = start_poll::<General>();
    while !token.is_done() {
        thread::yield_now();
    }
    let token = start_poll::<Signal>();
    while !token.is_done() {
        thread::yield_now();
    }
}

#[test]
fn values_are_dropped_after_a_grace_period_and_not_before() {
    let drops = Arc::new(AtomicU32::new(0));
    let cell: Rcu<Tell, Expedited> = Rcu::new(Tell(drops.clone()));
    let thread = registered::<Expedited>();
    let guard = thread.read();
    let first = cell.dereference(&guard);
    cell.assign(Tell(drops.clone()));
    thread::sleep(Duration::from_millis(30));
    assert_eq!(first.0.load(SeqCst), 0, "dropped under a reader");
    drop(guard);
    barrier::<Expedited>();
    assert_eq!(drops.load(SeqCst), 1);
    let retired = cell.swap(Tell(drops.clone()));
    drop(retired.synchronize());
    assert_eq!(drops.load(SeqCst), 2);
    drop(cell);
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn exchange_needs_the_very_object() {
    let cell: Rcu<u32> = Rcu::new(1);
    let guard = library::read();
    let one = cell.dereference(&guard);
    drop(cell.compare_exchange(one, 2, &guard).expect("no other thread"));
    assert_eq!(cell.compare_exchange(one, 3, &guard).err(), Some(3));
    drop(cell.update(&guard, |two| two + 1));
    assert_eq!((*one, *cell.dereference(&guard)), (1, 3));
}

#[test]
fn a_quiescent_thread_reads_new_values() {
    let cell: Arc<Rcu<u32, Qsbr>> = Arc::new(Rcu::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let reader = thread::spawn({
        let (cell, stop) = (cell.clone(), stop.clone());
        move || {
            let mut thread = registered::<Qsbr>();
            while !stop.load(SeqCst) {
                let guard = thread.read();
                assert!(*cell.dereference(&guard) <= 50);
                drop(guard);
                thread.quiescent();
            }
            thread.offline(|| thread::sleep(Duration::from_millis(5)));
        }
    });
    let mut own = registered::<Qsbr>();
    for number in 1..=50 {
        assert_eq!(cell.swap(number).synchronize_offline(&mut own), number - 1);
    }
    stop.store(true, SeqCst);
    own.synchronize();
    reader.join().unwrap();
}

#[test]
fn one_registration_of_a_thread_and_a_flavour() {
    let first = registered::<General>();
    assert_eq!(Thread::<General>::register().err(), Some(RegisterError::Already));
    assert!(General::try_read().is_some());
    drop(first);
    assert!(General::try_read().is_none());
    drop(registered::<General>());
}

#[test]
fn a_guard_that_outlives_the_registration_still_protects() {
    let thread = registered::<General>();
    let guard = General::try_read().expect("registered");
    drop(thread);
    let token = start_poll::<General>();
    assert!(!token.is_done());
    drop(guard);
    while !token.is_done() {}
}

#[test]
fn threads_that_die_without_a_guard_hold_nothing_up() {
    for _ in 0..3 {
        thread::spawn(|| std::mem::forget(registered::<General>())).join().unwrap();
        thread::spawn(|| drop(library::read())).join().unwrap();
        thread::spawn(|| _ = library::enter()).join().unwrap();
        thread::spawn(|| std::mem::forget(library::read_again())).join().unwrap();
        let nested = || {
            let guard = library::read();
            let _ = library::enter();
            drop(guard);
            std::mem::forget(library::read_again());
        };
        thread::spawn(nested).join().unwrap();
    }
    synchronize::<General>();
    synchronize::<Library>();
}

#[test]
fn a_thread_is_online_again_when_its_work_offline_has_panicked() {
    let mut thread = registered::<Qsbr>();
    let panics = || thread.offline(|| std::panic::resume_unwind(Box::new(())));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    let _guard = thread.read();
    let token = start_poll::<Qsbr>();
    (0..100).for_each(|_| assert!(!token.is_done(), "over beside a reader"));
}

#[test]
fn many_threads_come_and_go() {
    // More than a chunk at once, many more than that in all, none of which unregisters.
    for _ in 0..3 {
        let all = Arc::new(Barrier::new(100));
        let threads: Vec<_> = (0..100)
            .map(|_| {
                let all = all.clone();
                thread::spawn(move || {
                    let guard = library::read();
                    all.wait();
                    drop(guard);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        synchronize::<Library>();
    }
}

#[test]
fn callers_share_grace_periods_and_all_return() {
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..200).for_each(|_| synchronize::<General>()));
        }
    });
}

#[test]
fn deferred_work_runs_in_order_and_under_pressure() {
    set_bound::<General>(100);
    let ran = Arc::new(AtomicU32::new(0));
    for number in 0..5000 {
        let ran = ran.clone();
        defer::<General>(move || assert_eq!(ran.fetch_add(1, SeqCst), number));
        assert!(pending::<General>() <= 102);
    }
    barrier::<General>();
    assert_eq!((ran.load(SeqCst), pending::<General>()), (5000, 0));
}

#[test]
fn callbacks_that_panic_or_defer_do_not_stop_the_others() {
    let ran = Arc::new(AtomicU32::new(0));
    /// It panics when it is dropped.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    defer::<Signal>(|| std::panic::resume_unwind(Box::new(Bomb)));
    barrier::<Signal>();
    let inner = ran.clone();
    defer::<Signal>(move || {
        inner.fetch_add(1, SeqCst);
        defer::<Signal>(move || {
            inner.fetch_add(1, SeqCst);
        });
    });
    barrier::<Signal>();
    barrier::<Signal>();
    assert_eq!(ran.load(SeqCst), 2);
}

#[test]
fn own_callbacks_run_when_they_are_told_to() {
    let callbacks = Callbacks::<Library>::new();
    static RAN: AtomicU32 = AtomicU32::new(0);
    unsafe fn count(_: std::ptr::NonNull<Head>) {
        RAN.fetch_add(1, SeqCst);
    }
    let heads = [const { Head::new() }; 3];
    for head in &heads {
        // SAFETY: `heads` outlives the run below, and `count` may run anywhere.
        unsafe { callbacks.call(head.into(), count) };
    }
    assert_eq!((callbacks.pending(), RAN.load(SeqCst)), (3, 0));
    assert_eq!(callbacks.run(), 3);
    assert_eq!((callbacks.run(), callbacks.pending(), RAN.load(SeqCst)), (0, 0, 3));
}

#[test]
fn own_callbacks_behind_one_that_panics_wait_for_the_next_run() {
    unsafe fn panic(_: std::ptr::NonNull<Head>) {
        std::panic::resume_unwind(Box::new(()));
    }
    unsafe fn pass(_: std::ptr::NonNull<Head>) {}
    let callbacks = Callbacks::<General>::new();
    let heads = [const { Head::new() }; 3];
    for (head, run) in heads.iter().zip([pass as Run, panic, pass]) {
        // SAFETY: `heads` outlives the runs below, and the callbacks may run anywhere.
        unsafe { callbacks.call(head.into(), run) };
    }
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callbacks.run())).is_err());
    assert_eq!((callbacks.pending(), callbacks.run(), callbacks.pending()), (1, 1, 0));
}

#[cfg(debug_assertions)]
#[test]
fn synchronize_inside_a_section_panics_in_debug_builds() {
    let caught = thread::spawn(|| {
        let _guard = library::read();
        std::panic::catch_unwind(synchronize::<Library>).is_err()
    });
    assert!(caught.join().unwrap());
}
