//! The workloads of `rcu`: costs in one thread, and rates of readers beside an updater.

use super::rcu_sides::{Epoch, Marked, ParkingLot, PerThread, Side, StdMutex, StdRwLock, Swap, Unmarked};
use super::stopwatch::{thread_ns, wall_ns};
use mote_reclaim::{Expedited, General, Qsbr, Signal};
use std::fmt::Write;
use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Reads in a burst, between two looks at the clock.
const BURST: u64 = 256;
/// Updates in a burst.
const UPDATES: u64 = 64;

/// A setting of readers and an updater.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Number of threads that read.
    pub(super) readers: u64,
    /// How long a section stays, in spins.
    pub(super) spins: u64,
    /// Spins between two updates; `None` when no thread updates.
    pub(super) pause: Option<u64>,
    /// Milliseconds that it lasts.
    pub(super) ms: u64,
    /// Old values for which the updater waits together, and which it then frees; 0 leaves both to the library.
    pub(super) batch: u64,
}

/// How a setting without updater is written in arguments.
const NO_UPDATER: u64 = 1_000_000_000;

impl Setting {
    /// As arguments of a workload.
    pub(super) fn numbers(self) -> [u64; 5] {
        [self.readers, self.spins, self.pause.unwrap_or(NO_UPDATER), self.ms, self.batch]
    }

    /// The setting that a workload's arguments say, in the order of the fields.
    pub(super) fn from([readers, spins, pause, ms, batch]: [u64; 5]) -> Setting {
        Setting { readers, spins, pause: (pause != NO_UPDATER).then_some(pause), ms, batch }
    }
}

/// `read/...` and `sync/...` in nanoseconds of one thread in a process of its own; `sync_beside/...` beside another
/// reader that sleeps.
pub(super) fn cost(reads: u64, syncs: u64) -> String {
    let mut text = String::new();
    rcu_costs::<Marked<Qsbr>>(&mut text, reads, syncs);
    rcu_costs::<Marked<General>>(&mut text, reads / 8, syncs);
    rcu_costs::<Marked<Expedited>>(&mut text, reads, syncs);
    rcu_costs::<Marked<Signal>>(&mut text, reads, syncs);
    rcu_costs::<Unmarked>(&mut text, reads, syncs);
    read_cost::<StdRwLock>(&mut text, reads / 8);
    read_cost::<StdMutex>(&mut text, reads / 8);
    read_cost::<PerThread>(&mut text, reads / 8);
    read_cost::<ParkingLot>(&mut text, reads / 8);
    read_cost::<Epoch>(&mut text, reads / 8);
    read_cost::<Swap>(&mut text, reads / 8);
    text
}

fn rcu_costs<S: Side>(text: &mut String, reads: u64, syncs: u64) {
    read_cost::<S>(text, reads);
    let side = S::new();
    let mut thread = side.thread();
    let begin = thread_ns();
    (0..syncs).for_each(|_| S::synchronize(&mut thread));
    line(text, "sync", S::NAME, (thread_ns() - begin) as f64 / syncs as f64);
    let met = &Barrier::new(2);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = side.thread();
            black_box(side.reads(&mut other, 1, 0));
            // A QSBR thread that sleeps is offline.
            S::asleep(&mut other, || {
                met.wait();
                met.wait();
            });
        });
        met.wait();
        let begin = thread_ns();
        (0..syncs).for_each(|_| S::synchronize(&mut thread));
        let beside = thread_ns() - begin;
        met.wait();
        beside
    });
    line(text, "sync_beside", S::NAME, beside as f64 / syncs as f64);
}

fn read_cost<S: Side>(text: &mut String, reads: u64) {
    let side = S::new();
    let mut thread = side.thread();
    black_box(side.reads(&mut thread, reads / 8, 0));
    let begin = thread_ns();
    black_box(side.reads(&mut thread, reads, 0));
    line(text, "read", S::NAME, (thread_ns() - begin) as f64 / reads as f64);
}

/// `reads/...` and `updates/...` a second in `setting`.
pub(super) fn run(setting: Setting) -> String {
    let mut text = String::new();
    rates::<Marked<Qsbr>>(&mut text, setting);
    rates::<Marked<General>>(&mut text, setting);
    rates::<Marked<Expedited>>(&mut text, setting);
    rates::<Marked<Signal>>(&mut text, setting);
    rates::<Unmarked>(&mut text, setting);
    rates::<StdRwLock>(&mut text, setting);
    rates::<StdMutex>(&mut text, setting);
    rates::<PerThread>(&mut text, setting);
    rates::<ParkingLot>(&mut text, setting);
    rates::<Epoch>(&mut text, setting);
    rates::<Swap>(&mut text, setting);
    text
}

fn rates<S: Side>(text: &mut String, setting: Setting) {
    let side = &S::new();
    let stop = &AtomicBool::new(false);
    let start = &Barrier::new(setting.readers as usize + 1);
    let since = |begin: u64| (wall_ns() - begin) as f64 / 1e9;
    let (reads, updates, begin) = std::thread::scope(|scope| {
        let reader = || {
            let mut thread = side.thread();
            let mut reads = 0;
            start.wait();
            while !stop.load(Relaxed) {
                black_box(side.reads(&mut thread, BURST, setting.spins));
                S::rest(&mut thread);
                reads += BURST;
            }
            reads
        };
        let readers: Vec<_> = (0..setting.readers).map(|_| scope.spawn(reader)).collect();
        start.wait();
        let begin = wall_ns();
        let updates = update(side, setting, begin + setting.ms * 1_000_000);
        let seconds = since(begin);
        stop.store(true, Relaxed);
        let reads: u64 = readers.into_iter().map(|reader| reader.join().unwrap_or(0)).sum();
        (reads as f64 / seconds, updates, begin)
    });
    // An update is done when what it has replaced is freed.
    S::settle();
    line(text, "reads", S::NAME, reads);
    line(text, "updates", S::NAME, updates as f64 / since(begin));
}

/// Updates until `end` and returns how often, or only waits.
fn update<S: Side>(side: &S, setting: Setting, end: u64) -> u64 {
    let Some(pause) = setting.pause else {
        std::thread::sleep(std::time::Duration::from_millis(setting.ms));
        return 0;
    };
    let (mut updates, mut old) = (0, Vec::with_capacity(setting.batch as usize));
    while wall_ns() < end {
        for _ in 0..UPDATES {
            if setting.batch == 0 {
                side.update(updates);
            } else {
                old.push(side.replace(updates));
            }
            if setting.batch != 0 && old.len() as u64 == setting.batch {
                S::free(&mut old);
            }
            updates += 1;
            (0..pause).for_each(|_| spin_loop());
        }
    }
    if !old.is_empty() {
        S::free(&mut old);
    }
    updates
}

fn line(text: &mut String, kind: &str, name: &str, value: f64) {
    let done = writeln!(text, "{kind}/{} {value}", name.replace(' ', "_"));
    debug_assert!(done.is_ok(), "writing to a string");
}
