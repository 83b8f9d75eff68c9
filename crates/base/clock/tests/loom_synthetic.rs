//! The synthetic clock under every interleaving and every stale value that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p mote-trace-clock --release --test loom_synthetic`.
//! The counter is a number that only read-modify-writes touch, so that it behaves like time: all
//! threads see it advance in one order, and nobody sees it late.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread;
use mote_clock::synthetic::Synthetic;

const START: u64 = 0x5_f000;
/// Three steps are more than a wrap of 16 bits, two are more than half, one is less than half.
const STEP: u64 = 0x6000;

struct World {
    clock: Synthetic<16>,
    truth: AtomicU64,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World { clock: Synthetic::new(START), truth: AtomicU64::new(START) })
    }

    fn now(&self) -> u64 {
        self.truth.fetch_add(0, SeqCst)
    }

    /// Time passes, then the updater runs; between its reading of the counter and its publication
    /// no time passes, so `P` is `STEP`.
    fn step(&self) {
        self.truth.fetch_add(STEP, SeqCst);
        self.clock.update(|| self.now());
    }

    /// Reads the clock and checks it against the truth at the moment when the counter was read.
    fn check_read(&self) -> u64 {
        let mut truth = 0;
        let read = self.clock.read(|| {
            truth = self.now();
            truth & 0xffff
        });
        assert_eq!(read, truth);
        read
    }
}

#[test]
fn a_read_is_exact_however_many_updates_overtake_it() {
    loom::model(|| {
        let world = World::new();
        let updater = {
            let world = world.clone();
            thread::spawn(move || (0..3).for_each(|_| world.step()))
        };
        let first = world.check_read();
        assert!(world.check_read() >= first);
        updater.join().unwrap();
        assert_eq!(world.check_read(), START + 3 * STEP);
    });
}

/// A read from inside an update, as a signal handler would do it, beside another reader.
#[test]
fn a_read_nested_in_an_update_is_exact() {
    loom::model(|| {
        let world = World::new();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.check_read())
        };
        for _ in 0..2 {
            world.truth.fetch_add(STEP, SeqCst);
            world.clock.update(|| {
                world.check_read();
                world.now()
            });
        }
        reader.join().unwrap();
    });
}

/// Figure 4.4 as it is: right as long as the reader is not away for long. Steps of a quarter of
/// the half wrap keep `P + D` small enough for a reader that all three updates overtake.
#[test]
fn a_bounded_read_is_exact_while_its_delay_is() {
    loom::model(|| {
        let world = World::new();
        let updater = {
            let world = world.clone();
            thread::spawn(move || {
                for _ in 0..3 {
                    world.truth.fetch_add(0x2000, SeqCst);
                    world.clock.update(|| world.now());
                }
            })
        };
        let mut truth = 0;
        let read = world.clock.read_bounded(|| {
            truth = world.now();
            truth & 0xffff
        });
        assert_eq!(read, truth);
        updater.join().unwrap();
    });
}
