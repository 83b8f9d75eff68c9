//! The workload of `rcu`'s cases `hash/...`: lookups, and lookups among insertions and removals, in mote's hash table
//! and in dashmap.
//!
//! Half of the keys below 2 KEYS are there. `lookup` looks for those; `mixed` takes any key, and does 90 % lookups, 5 %
//! insertions and 5 % removals. All tables hash alike: a multiplication and a fold.

use super::stopwatch::thread_ns;
use mote_reclaim::{Expedited, Guard, HashMap, Thread, barrier};
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Operations between two looks at whether it is over.
const BURST: u64 = 256;

/// How many threads, keys and milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) threads: u64,
    pub(super) keys: u64,
    pub(super) ms: u64,
}

/// Operations a second of the threads' own CPU time, which other work on the machine does not take from them: lines of
/// `SIDE/CASE VALUE`.
pub(super) fn run(load: Load) -> String {
    let mut text = String::new();
    rates::<Ours>(&mut text, load);
    barrier::<Expedited>();
    rates::<Dash>(&mut text, load);
    text
}

/// A hash table that is measured.
trait Table: Sync + Sized {
    const NAME: &'static str;
    /// What a thread needs.
    type Thread;

    fn new() -> Self;
    fn thread() -> Self::Thread;
    fn lookup(&self, thread: &Self::Thread, key: u64) -> u64;
    fn insert(&self, thread: &Self::Thread, key: u64);
    fn remove(&self, thread: &Self::Thread, key: u64);
}

/// The hash of all sides.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 << 8 | u64::from(*byte)));
    }
    fn write_u64(&mut self, key: u64) {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = hash ^ hash >> 32;
    }
}

type Hash = BuildHasherDefault<Fold>;

struct Ours(HashMap<u64, u64, Expedited, Hash>);

impl Ours {
    #[inline(always)]
    fn read(thread: &Thread<Expedited>) -> Guard<'_, Expedited> {
        thread.read()
    }
}

impl Table for Ours {
    const NAME: &'static str = "mote";
    type Thread = Thread<Expedited>;

    fn new() -> Self {
        Ours(HashMap::with_hasher(Hash::default()))
    }
    fn thread() -> Thread<Expedited> {
        match Thread::register() {
            Ok(thread) => thread,
            Err(why) => panic!("{why}"),
        }
    }
    #[inline(always)]
    fn lookup(&self, thread: &Thread<Expedited>, key: u64) -> u64 {
        self.0.get(&key, &Ours::read(thread)).map_or(0, |value| *value)
    }
    fn insert(&self, thread: &Thread<Expedited>, key: u64) {
        let _ = self.0.insert_unique(key, key, &Ours::read(thread));
    }
    fn remove(&self, thread: &Thread<Expedited>, key: u64) {
        self.0.remove(&key, &Ours::read(thread));
    }
}

struct Dash(dashmap::DashMap<u64, u64, Hash>);

impl Table for Dash {
    const NAME: &'static str = "dashmap";
    type Thread = ();

    fn new() -> Self {
        Dash(dashmap::DashMap::with_hasher(Hash::default()))
    }
    fn thread() {}
    #[inline(always)]
    fn lookup(&self, (): &(), key: u64) -> u64 {
        self.0.get(&key).map_or(0, |value| *value)
    }
    fn insert(&self, (): &(), key: u64) {
        self.0.entry(key).or_insert(key);
    }
    fn remove(&self, (): &(), key: u64) {
        self.0.remove(&key);
    }
}

/// Xorshift64*: Marsaglia 2003, Vigna 2016.
struct Random(u64);

impl Random {
    #[inline(always)]
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        ((u128::from(random) * u128::from(end)) >> 64) as u64
    }
}

fn rates<T: Table>(text: &mut String, load: Load) {
    let table = T::new();
    let thread = T::thread();
    (0..load.keys).for_each(|key| table.insert(&thread, 2 * key));
    drop(thread);
    let lookup = rate(&table, load, lookups);
    let mixed = rate(&table, load, mixed);
    let done = writeln!(text, "{0}/lookup {lookup}\n{0}/mixed {mixed}", T::NAME);
    debug_assert!(done.is_ok(), "writing to a string");
}

type Burst<T> = fn(&T, &<T as Table>::Thread, &mut Random, u64) -> u64;

/// Operations a second of all threads together.
fn rate<T: Table>(table: &T, load: Load, burst: Burst<T>) -> f64 {
    let (stop, start) = (&AtomicBool::new(false), &Barrier::new(load.threads as usize + 1));
    std::thread::scope(|scope| {
        let work = |seed| {
            let (thread, mut random, mut turns) = (T::thread(), Random(seed), 0);
            start.wait();
            let begin = thread_ns();
            while !stop.load(Relaxed) {
                black_box(burst(table, &thread, &mut random, load.keys));
                turns += BURST;
            }
            turns as f64 * 1e9 / (thread_ns() - begin).max(1) as f64
        };
        let workers: Vec<_> = (1..=load.threads).map(|seed| scope.spawn(move || work(seed))).collect();
        start.wait();
        std::thread::sleep(std::time::Duration::from_millis(load.ms));
        stop.store(true, Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap_or(0.0)).sum()
    })
}

#[inline(never)]
fn lookups<T: Table>(table: &T, thread: &T::Thread, random: &mut Random, keys: u64) -> u64 {
    (0..BURST).fold(0, |sum: u64, _| sum.wrapping_add(table.lookup(thread, 2 * random.below(keys))))
}

#[inline(never)]
fn mixed<T: Table>(table: &T, thread: &T::Thread, random: &mut Random, keys: u64) -> u64 {
    let mut sum = 0u64;
    for _ in 0..BURST {
        let key = random.below(2 * keys);
        match random.below(20) {
            0 => table.insert(thread, key),
            1 => table.remove(thread, key),
            _ => sum = sum.wrapping_add(table.lookup(thread, key)),
        }
    }
    sum
}
