//! Grace periods under every interleaving and every stale value that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p mote-trace-rcu --release --test loom_rcu`.
//! An object is a cell that loom watches: a read that is not ordered before the updater's reclamation, or not ordered
//! behind its initialisation, is found as a race, also where the values happen to be right.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use mote_rcu::model::{General, Qsbr};

const OBJECTS: usize = 3;
const GONE: u32 = 0;

/// Objects of which one is published.
struct World<F> {
    flavor: F,
    objects: [UnsafeCell<u32>; OBJECTS],
    published: AtomicUsize,
}

// SAFETY: loom checks all accesses of the cells, which is the point.
unsafe impl<F: Sync> Sync for World<F> {}
// SAFETY: as above.
unsafe impl<F: Send> Send for World<F> {}

impl<F> World<F> {
    fn new(flavor: F) -> Arc<World<F>> {
        let objects = std::array::from_fn(|place| UnsafeCell::new(if place == 0 { 1 } else { GONE }));
        Arc::new(World { flavor, objects, published: AtomicUsize::new(0) })
    }

    /// The body of a section.
    fn look(&self) -> u32 {
        let at = self.published.load(Ordering::Acquire);
        // SAFETY: loom says when another thread writes meanwhile.
        let seen = self.objects[at].with(|object| unsafe { *object });
        assert_ne!(seen, GONE, "the object was reclaimed");
        seen
    }

    /// Publishes another object, waits, reclaims the one before.
    fn replace(&self, by: usize, wait: impl FnOnce(&F)) {
        // SAFETY: not published: ours.
        self.objects[by].with_mut(|object| unsafe { *object = by as u32 + 1 });
        let old = self.published.swap(by, Ordering::AcqRel);
        wait(&self.flavor);
        // SAFETY: the claim under test: no thread reads it any more.
        self.objects[old].with_mut(|object| unsafe { *object = GONE });
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    // `LOOM_MAX_PREEMPTIONS` sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

#[test]
fn a_general_reader_never_sees_what_was_reclaimed() {
    check(3, || {
        let world = World::new(General::new());
        let updater = {
            let world = world.clone();
            thread::spawn(move || world.replace(1, General::synchronize))
        };
        let reader = world.flavor.register().unwrap();
        world.flavor.read(&reader, || world.look());
        world.flavor.unregister(reader);
        updater.join().unwrap();
    });
}

/// A reader that has read the phase before the first grace period and stores it in the second: one phase is not enough.
#[test]
fn two_grace_periods_in_a_row_wait_for_a_slow_reader() {
    check(3, || {
        let world = World::new(General::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.flavor.read(&reader, || world.look())
            })
        };
        world.replace(1, General::synchronize);
        world.replace(2, General::synchronize);
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_without_a_slot_never_sees_what_was_reclaimed() {
    check(3, || {
        let world = World::new(General::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.flavor.read_as_guest(|| world.look()))
        };
        world.replace(1, General::synchronize);
        world.replace(2, General::synchronize);
        reader.join().unwrap();
    });
}

/// A section nested in another, as a handler's: the grace period waits for the outer one.
#[test]
fn a_nested_section_is_part_of_the_outer_one() {
    check(2, || {
        let world = World::new(General::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.flavor.read(&reader, || {
                    world.flavor.read(&reader, || world.look());
                    world.look()
                })
            })
        };
        world.replace(1, General::synchronize);
        reader.join().unwrap();
    });
}

/// Two updaters share grace periods: whoever finds its own over has all old readers behind it.
#[test]
fn a_shared_grace_period_is_one_for_each_caller() {
    check(2, || {
        let world = World::new(General::new());
        let other = {
            let world = world.clone();
            thread::spawn(move || world.flavor.synchronize())
        };
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.flavor.read(&reader, || world.look())
            })
        };
        world.replace(1, General::synchronize);
        reader.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_polled_grace_period_protects_as_well() {
    check(3, || {
        let world = World::new(General::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.flavor.read(&reader, || world.look())
            })
        };
        world.replace(1, |flavor| {
            let token = flavor.start_poll();
            while !flavor.is_done(token) {
                thread::yield_now();
            }
        });
        reader.join().unwrap();
    });
}

/// The grace period that is polled for is another thread's work.
#[test]
fn a_grace_period_of_somebody_else_protects_as_well() {
    check(2, || {
        let world = World::new(General::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.flavor.read(&reader, || world.look())
            })
        };
        let other = {
            let world = world.clone();
            thread::spawn(move || world.flavor.synchronize())
        };
        world.replace(1, |flavor| {
            let token = flavor.start_poll();
            while !flavor.is_done(token) {
                thread::yield_now();
            }
        });
        reader.join().unwrap();
        other.join().unwrap();
    });
}

/// The updater sees the word of the second section and has the first behind it all the same.
#[test]
fn a_later_section_has_the_earlier_ones_behind_it() {
    check(3, || {
        let world = World::new(General::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.flavor.read(&reader, || world.look());
                world.flavor.read(&reader, || ());
                thread::park();
            })
        };
        world.replace(1, General::synchronize);
        reader.thread().unpark();
        reader.join().unwrap();
    });
}

/// A slot changes hands while an updater looks.
#[test]
fn a_slot_that_is_given_back_takes_its_sections_along() {
    check(2, || {
        let world = World::new(General::new());
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || {
                    let reader = world.flavor.register().unwrap();
                    world.flavor.read(&reader, || world.look());
                    world.flavor.unregister(reader);
                })
            })
            .collect();
        world.replace(1, General::synchronize);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn a_qsbr_reader_never_sees_what_was_reclaimed() {
    check(3, || {
        let world = World::new(Qsbr::new());
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reader = world.flavor.register().unwrap();
                world.look();
                world.flavor.quiescent(&reader);
                world.look();
                world.flavor.pause(&reader);
                world.look();
                world.flavor.unregister(reader);
            })
        };
        world.replace(1, Qsbr::synchronize);
        reader.join().unwrap();
    });
}
