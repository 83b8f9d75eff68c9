//! Each structure under threads that insert, remove and read at once: nothing is lost, nothing comes twice, no thread
//! sees a value that was freed.

use mote_reclaim::{
    Dequeued, Expedited, Flavor, General, Guard, HashMap, Library, List, Qsbr, Queue, Registered, Stack,
    Thread, barrier, library,
};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{scope, yield_now};

const ALIVE: u64 = 0x0a11_7e00_0a11_7e00;
const DEAD: u64 = 0xdead_dead_dead_dead;

/// A number that says when it is read after it was freed. It is counted.
struct Canary<'c> {
    alive: AtomicU64,
    number: u64,
    born: &'c AtomicUsize,
}

impl<'c> Canary<'c> {
    fn new(number: u64, born: &'c AtomicUsize) -> Canary<'c> {
        born.fetch_add(1, Ordering::Relaxed);
        Canary { alive: AtomicU64::new(ALIVE ^ number), number, born }
    }

    fn number(&self) -> u64 {
        // Once more, a little later: an address that is used again shows another number.
        for _ in 0..2 {
            assert_eq!(self.alive.load(Ordering::Relaxed), ALIVE ^ self.number, "read after it was freed");
            std::hint::spin_loop();
        }
        self.number
    }
}

impl Drop for Canary<'_> {
    fn drop(&mut self) {
        assert_eq!(self.alive.swap(DEAD, Ordering::Relaxed), ALIVE ^ self.number, "freed twice");
        self.born.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a thread of a test reads.
trait Reads: Flavor {
    type Handle;
    fn handle() -> Self::Handle;
    fn read(handle: &Self::Handle) -> Guard<'_, Self>;
    fn rest(_: &mut Self::Handle) {}
}

macro_rules! registered {
    ($($flavor:ty, $rest:expr;)*) => {$(
        impl Reads for $flavor {
            type Handle = Thread<$flavor>;
            fn handle() -> Thread<$flavor> {
                register()
            }
            fn read(handle: &Thread<$flavor>) -> Guard<'_, $flavor> {
                handle.read()
            }
            fn rest(handle: &mut Thread<$flavor>) {
                $rest(handle);
            }
        }
    )*};
}
registered! {
    Qsbr, Thread::<Qsbr>::quiescent;
    General, |_| ();
    Expedited, |_| ();
}

fn register<F: Registered>() -> Thread<F> {
    Thread::register().expect("a free slot")
}

impl Reads for Library {
    type Handle = ();
    fn handle() {}
    fn read((): &()) -> Guard<'_, Library> {
        library::read()
    }
}

const WORKERS: u64 = 4;
const VALUES: u64 = 30_000;

/// What each value was taken how often: exactly once.
fn all_once(taken: &[AtomicUsize]) {
    let wrong = taken.iter().enumerate().find(|(_, count)| count.load(Ordering::Relaxed) != 1);
    assert!(wrong.is_none(), "value {wrong:?} was not taken once");
}

fn counters(count: u64) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

fn stack_loses_nothing<F: Reads>() {
    let born = &*Box::leak(Box::new(AtomicUsize::new(0)));
    let (stack, taken) = (&Stack::<Canary<'static>, F>::new(), &counters(VALUES * WORKERS));
    scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let mut handle = F::handle();
                for turn in 0..VALUES {
                    stack.push(Canary::new(worker * VALUES + turn, born));
                    let mine = |value: Canary<'_>| {
                        taken[value.number() as usize].fetch_add(1, Ordering::Relaxed);
                    };
                    if turn % 1000 == 999 {
                        stack.take().for_each(mine);
                    } else if turn % 3 != 0 {
                        stack.pop(&F::read(&handle)).into_iter().for_each(mine);
                    }
                    F::rest(&mut handle);
                }
            });
        }
    });
    let handle = F::handle();
    while let Some(value) = stack.pop(&F::read(&handle)) {
        taken[value.number() as usize].fetch_add(1, Ordering::Relaxed);
    }
    all_once(taken);
    assert_eq!(born.load(Ordering::Relaxed), 0);
}

#[test]
fn stacks_lose_nothing() {
    stack_loses_nothing::<Qsbr>();
    stack_loses_nothing::<General>();
    stack_loses_nothing::<Expedited>();
    stack_loses_nothing::<Library>();
}

/// Half of the threads enqueue, half dequeue; each of these sees the values of each of those in their order.
fn queue_keeps_order<F: Reads>() {
    let born = &*Box::leak(Box::new(AtomicUsize::new(0)));
    let (queue, taken) = (&Queue::<Canary<'static>, F>::new(), &counters(VALUES * 2));
    let enqueuing = &AtomicUsize::new(2);
    scope(|scope| {
        for worker in 0..2 {
            scope.spawn(move || {
                for turn in 0..VALUES {
                    queue.enqueue(Canary::new(worker * VALUES + turn, born));
                }
                enqueuing.fetch_sub(1, Ordering::Release);
            });
            scope.spawn(move || {
                let (mut handle, mut last) = (F::handle(), [None; 2]);
                loop {
                    // Before the look: what was enqueued by then is found.
                    let is_over = enqueuing.load(Ordering::Acquire) == 0;
                    let found = queue.dequeue(&F::read(&handle));
                    F::rest(&mut handle);
                    match found {
                        Dequeued::Value(value) => {
                            let number = value.number();
                            taken[number as usize].fetch_add(1, Ordering::Relaxed);
                            let last = &mut last[(number / VALUES) as usize];
                            assert!(*last < Some(number), "{number} after {last:?}");
                            *last = Some(number);
                        }
                        Dequeued::Empty if is_over => return,
                        Dequeued::Empty => yield_now(),
                        Dequeued::Gap => assert!(!is_over, "a gap that no thread makes"),
                    }
                }
            });
        }
    });
    all_once(taken);
    assert_eq!(born.load(Ordering::Relaxed), 0);
}

#[test]
fn queues_keep_order() {
    queue_keeps_order::<Qsbr>();
    queue_keeps_order::<General>();
    queue_keeps_order::<Expedited>();
    queue_keeps_order::<Library>();
}

/// Two updaters move a window of ascending numbers over the list; readers see ascending numbers, whichever way they go.
fn list_stays_sorted<F: Reads>() {
    let born = &*Box::leak(Box::new(AtomicUsize::new(0)));
    let list = &List::<Canary<'static>, F>::new();
    let over = &AtomicBool::new(false);
    let next = &AtomicU64::new(0);
    scope(|scope| {
        for way in 0..2 {
            scope.spawn(move || {
                let mut handle = F::handle();
                while !over.load(Ordering::Relaxed) {
                    let guard = F::read(&handle);
                    let numbers: Vec<u64> = match way {
                        0 => list.iter(&guard).map(|element| element.number()).collect(),
                        _ => list.iter_back(&guard).map(|element| !element.number()).collect(),
                    };
                    assert!(numbers.is_sorted(), "{numbers:?}");
                    drop(guard);
                    F::rest(&mut handle);
                }
            });
        }
        let updaters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let mut handle = F::handle();
                    for turn in 0..VALUES / 3 {
                        let guard = F::read(&handle);
                        let mut updater = list.update();
                        updater.push_back(Canary::new(next.fetch_add(1, Ordering::Relaxed), born));
                        if turn % 7 == 0 {
                            updater.retain(|canary| canary.number() % 7 != 0);
                        } else if turn > 10
                            && let Some(element) = list.iter(&guard).nth(turn as usize % 10)
                        {
                            if turn % 2 == 0 {
                                assert!(updater.remove(element));
                            } else {
                                let same = Canary::new(element.number(), born);
                                assert!(updater.replace(element, same).is_ok());
                                updater.remove(list.iter(&guard).next().expect("an element"));
                            }
                            element.number();
                        }
                        drop(updater);
                        drop(guard);
                        F::rest(&mut handle);
                    }
                })
            })
            .collect();
        let failed = updaters.into_iter().map(|updater| updater.join()).any(|end| end.is_err());
        over.store(true, Ordering::Relaxed);
        assert!(!failed);
    });
    list.update().retain(|_| false);
    barrier::<F>();
    assert_eq!(born.load(Ordering::Relaxed), 0);
}

#[test]
fn lists_stay_sorted() {
    list_stays_sorted::<Qsbr>();
    list_stays_sorted::<General>();
    list_stays_sorted::<Expedited>();
    list_stays_sorted::<Library>();
}

/// Keys that all threads fight for; sums that must come out.
const FOUGHT: u64 = 64;
/// Keys of each thread, above those: they come and go in waves, so that the table is resized all the time.
const OWN: u64 = 6_000;

fn table_adds_up<F: Reads, S: BuildHasher + Default + Send + Sync>(own: u64) {
    let born = &*Box::leak(Box::new(AtomicUsize::new(0)));
    let map = &HashMap::<u64, Canary<'static>, F, S>::with_hasher(S::default());
    // Of each fought key: insertions minus removals.
    let there = &(0..FOUGHT).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let (over, steady) = (&AtomicBool::new(false), FOUGHT + WORKERS * own);
    let handle = F::handle();
    assert!(map.insert(steady, Canary::new(steady, born), &F::read(&handle)).is_none());
    drop(handle);
    scope(|scope| {
        for reader in 0..2 {
            scope.spawn(move || {
                let mut handle = F::handle();
                while !over.load(Ordering::Relaxed) {
                    let guard = F::read(&handle);
                    let found = map.get(&steady, &guard).expect("a key that no thread removes");
                    assert_eq!(found.number(), steady);
                    if reader == 0 {
                        let steadies = map.iter(&guard).filter(|(key, value)| {
                            assert_eq!(value.number(), **key);
                            **key == steady
                        });
                        assert_eq!(steadies.count(), 1, "what stays is given once");
                    }
                    drop(guard);
                    F::rest(&mut handle);
                }
            });
        }
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(move || work(map, (worker, own), there, born))).collect();
        let failed = workers.into_iter().map(|worker| worker.join()).any(|end| end.is_err());
        over.store(true, Ordering::Relaxed);
        assert!(!failed);
    });
    let handle = F::handle();
    let guard = F::read(&handle);
    for (key, there) in there.iter().enumerate() {
        let found = u64::from(map.contains_key(&(key as u64), &guard));
        assert_eq!(there.load(Ordering::Relaxed), found, "insertions minus removals of {key}");
    }
    let there: u64 = there.iter().map(|there| there.load(Ordering::Relaxed)).sum();
    assert_eq!(map.len() as u64, there + 1);
    assert_eq!(map.iter(&guard).count(), map.len());
    drop(guard);
    drop(handle);
    barrier::<F>();
    assert_eq!(born.load(Ordering::Relaxed) as u64, there + 1, "all that was removed is freed");
}

fn work<F: Reads, S: BuildHasher>(
    map: &HashMap<u64, Canary<'static>, F, S>,
    (worker, own): (u64, u64),
    there: &[AtomicU64],
    born: &'static AtomicUsize,
) {
    let mut handle = F::handle();
    let first = FOUGHT + worker * own;
    for wave in 0..3 {
        for key in first..first + own {
            let guard = F::read(&handle);
            assert!(map.insert_unique(key, Canary::new(key, born), &guard).is_ok(), "{key} is mine");
            fight(map, (key * 7 + wave) % FOUGHT, key, there, born, &guard);
            drop(guard);
            F::rest(&mut handle);
        }
        for key in first..first + own {
            let guard = F::read(&handle);
            assert_eq!(map.get(&key, &guard).map(Canary::number), Some(key));
            assert_eq!(map.remove(&key, &guard).map(Canary::number), Some(key));
            assert!(!map.contains_key(&key, &guard));
            fight(map, (key * 5 + wave) % FOUGHT, key >> 2, there, born, &guard);
            drop(guard);
            F::rest(&mut handle);
        }
    }
}

/// One operation on a key that others want as well.
fn fight<F: Reads, S: BuildHasher>(
    map: &HashMap<u64, Canary<'static>, F, S>,
    key: u64,
    choice: u64,
    there: &[AtomicU64],
    born: &'static AtomicUsize,
    guard: &Guard<'_, F>,
) {
    let there = &there[key as usize];
    let value = Canary::new(key, born);
    match choice % 5 {
        0 => {
            if map.insert_unique(key, value, guard).is_ok() {
                there.fetch_add(1, Ordering::Relaxed);
            }
        }
        1 => match map.insert(key, value, guard) {
            Some(old) => assert_eq!(old.number(), key),
            None => {
                there.fetch_add(1, Ordering::Relaxed);
            }
        },
        2 => {
            if let Ok(old) = map.replace(key, value, guard) {
                assert_eq!(old.number(), key);
            }
        }
        _ => {
            if let Some(old) = map.remove(&key, guard) {
                assert_eq!(old.number(), key);
                there.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn tables_add_up() {
    table_adds_up::<Qsbr, RandomState>(OWN);
    table_adds_up::<General, RandomState>(OWN);
    table_adds_up::<Expedited, RandomState>(OWN);
    table_adds_up::<Library, RandomState>(OWN);
}

/// All keys in one chain, so that neighbours are always being changed.
#[derive(Default)]
struct Zero;
impl Hasher for Zero {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn chains_add_up() {
    for _ in 0..20 {
        table_adds_up::<Library, BuildHasherDefault<Zero>>(100);
    }
}

/// Signal handlers are not to be had here; a reader in the middle of an update of the same thread is the same thing for
/// a lookup.
#[test]
fn a_section_may_span_updates() {
    let map = HashMap::<u64, Box<u64>>::new();
    let guard = library::read();
    let all: Vec<_> = (0..5_000)
        .map(|key| {
            map.insert(key, Box::new(key), &guard);
            map.get(&key, &guard).expect("just inserted")
        })
        .collect();
    for key in 0..5_000 {
        map.remove(&key, &guard);
    }
    assert!(all.iter().zip(0..).all(|(value, key)| ***value == key));
}
