//! The stack, the queue and the hash table under every interleaving and every stale value that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p mote-trace-reclaim --release --test structures_loom`. The very sources
//! are compiled into this test, beside a `call` that keeps what is retired until the model is over. Values are cells
//! that loom watches: one that is not ordered behind its initialisation is a race, also where the values happen to be
//! right.
#![cfg(loom)]
#![allow(unreachable_pub, dead_code, reason = "the sources are part of a library")]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[path = "../src/hash/mod.rs"]
mod hash;
#[path = "../src/queue.rs"]
mod queue;
#[path = "../src/stack.rs"]
mod stack;

pub trait Flavor: Sized + 'static {}
#[derive(Debug)]
pub struct Library;
impl Flavor for Library {}

pub struct Guard<'g, F>(PhantomData<(&'g (), F)>);
const GUARD: Guard<'static, Library> = Guard(PhantomData);

/// True once it was retired: then nothing but the end of its grace period may free it.
pub struct Head(Cell<bool>);
impl Head {
    pub fn new() -> Head {
        Head(Cell::new(false))
    }
}
impl Drop for Head {
    fn drop(&mut self) {
        assert!(!self.0.get(), "retired while it was still linked");
        assert!(!SHARED.load(Relaxed), "freed while others use it");
    }
}

/// While this lives, nothing is freed but at the end of a grace period, so nothing at all.
struct Shared;
static SHARED: AtomicBool = AtomicBool::new(false);
impl Shared {
    fn begin() -> Shared {
        SHARED.store(true, Relaxed);
        Shared
    }
}
impl Drop for Shared {
    fn drop(&mut self) {
        SHARED.store(false, Relaxed);
    }
}
type Run = unsafe fn(NonNull<Head>);

/// What was retired in this model: where it is, and how it is freed.
struct Grave {
    place: std::ops::Range<usize>,
    free: Box<dyn FnOnce() + Send>,
}

/// Loom runs one at a time in a test; the tests take turns.
static GRAVES: Mutex<Vec<Grave>> = Mutex::new(Vec::new());
static TURN: Mutex<()> = Mutex::new(());

/// Keeps `object` until the model is over, then calls `free` with it.
fn retire<T: 'static>(object: NonNull<T>, free: impl FnOnce(NonNull<T>) + Send + 'static) {
    let first = object.as_ptr().expose_provenance();
    let object = move || NonNull::new(std::ptr::with_exposed_provenance_mut::<T>(first)).expect("an object");
    let mut graves = GRAVES.lock().expect("no test has failed");
    assert!(graves.iter().all(|grave| grave.place.start != first), "retired twice");
    graves.push(Grave { place: first..first + size_of::<T>(), free: Box::new(move || free(object())) });
}

/// # Safety
/// As the real one.
pub unsafe fn call<F: Flavor>(head: NonNull<Head>, run: Run) {
    retire(head, move |head| {
        // SAFETY: retired once, all threads have ended.
        unsafe { head.as_ref() }.0.set(false);
        // SAFETY: as above.
        unsafe { run(head) };
    });
    // SAFETY: valid until it is run.
    unsafe { head.as_ref() }.0.set(true);
}

/// # Safety
/// As the real one.
pub unsafe fn free_later<F: Flavor, T: Send + 'static>(object: NonNull<T>) {
    // SAFETY: from a box, retired once, all threads have ended.
    retire(object, |object| drop(unsafe { Box::from_raw(object.as_ptr()) }));
}

pub fn defer<F: Flavor>(_: impl FnOnce()) {}

/// The model is over: all grace periods are.
fn bury() {
    let graves = std::mem::take(&mut *GRAVES.lock().expect("no test has failed"));
    graves.into_iter().for_each(|grave| (grave.free)());
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let _turn = TURN.lock().unwrap_or_else(|poison| poison.into_inner());
    let mut builder = Builder::new();
    // `LOOM_MAX_PREEMPTIONS` sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        model();
        bury();
    });
}

/// A value that loom watches.
struct Watched(UnsafeCell<u32>);
// SAFETY: loom checks all accesses, which is the point.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Watched {
    fn new(value: u32) -> Watched {
        let cell = Watched(UnsafeCell::new(0));
        // SAFETY: ours. A write of its own: what the constructor does is not watched.
        cell.0.with_mut(|place| unsafe { *place = value });
        cell
    }
    fn get(&self) -> u32 {
        // SAFETY: loom says when another thread writes meanwhile.
        self.0.with(|place| unsafe { *place })
    }
}

/// The same in a table, which frees it.
struct Entry(Watched);

impl Entry {
    fn new(value: u32) -> Entry {
        Entry(Watched::new(value))
    }
    fn get(&self) -> u32 {
        self.0.get()
    }
}
impl Drop for Entry {
    fn drop(&mut self) {
        let at = std::ptr::from_ref(self).addr();
        let is_retired =
            GRAVES.lock().is_ok_and(|graves| graves.iter().any(|grave| grave.place.contains(&at)));
        assert!(!is_retired, "retired while it was still linked");
    }
}

#[test]
fn stack() {
    check(|| {
        let stack = Arc::new(stack::Stack::<Watched, Library>::new());
        let _shared = Shared::begin();
        stack.push(Watched::new(1));
        let other = stack.clone();
        let pusher = thread::spawn(move || {
            other.push(Watched::new(2));
            other.pop(&GUARD).map(|cell| cell.get())
        });
        let mut all: Vec<u32> = stack.pop(&GUARD).iter().map(Watched::get).collect();
        stack.push(Watched::new(3));
        all.extend(pusher.join().expect("no panic"));
        all.extend(stack.take().map(|cell| cell.get()));
        all.sort();
        assert_eq!(all, [1, 2, 3]);
    });
}

#[test]
fn queue() {
    check(|| {
        let queue = Arc::new(queue::Queue::<Watched, Library>::new());
        let _shared = Shared::begin();
        let (other, third) = (queue.clone(), queue.clone());
        let enqueuer = thread::spawn(move || {
            other.enqueue(Watched::new(1));
            other.enqueue(Watched::new(2));
        });
        let dequeuer = thread::spawn(move || third.dequeue(&GUARD).value().map(|cell| cell.get()));
        let mut all = Vec::new();
        all.extend(queue.dequeue(&GUARD).value().map(|cell| cell.get()));
        enqueuer.join().expect("no panic");
        all.extend(dequeuer.join().expect("no panic"));
        while let queue::Dequeued::Value(cell) = queue.dequeue(&GUARD) {
            all.push(cell.get());
        }
        all.sort();
        assert_eq!(all, [1, 2]);
    });
}

/// All keys in one chain.
#[derive(Default)]
struct Zero;
impl std::hash::Hasher for Zero {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, _: &[u8]) {}
}
type Map = hash::HashMap<u32, Entry, Library, std::hash::BuildHasherDefault<Zero>>;

fn map(keys: std::ops::Range<u32>) -> Arc<Map> {
    let map = Map::with_capacity_and_hasher(0, Default::default());
    for key in keys {
        assert!(map.insert_unique(key, Entry::new(key), &GUARD).is_ok());
    }
    Arc::new(map)
}

#[test]
fn neighbours_are_removed() {
    check(|| {
        let map = map(0..2);
        let other = map.clone();
        let remover = thread::spawn(move || {
            assert_eq!(other.remove(&0, &GUARD).map(Entry::get), Some(0));
        });
        assert_eq!(map.remove(&1, &GUARD).map(Entry::get), Some(1));
        remover.join().expect("no panic");
        assert_eq!(map.iter(&GUARD).count(), 0);
    });
}

#[test]
fn nothing_is_inserted_behind_what_is_removed() {
    check(|| {
        let map = map(0..1);
        let other = map.clone();
        let remover = thread::spawn(move || {
            assert_eq!(other.remove(&0, &GUARD).map(Entry::get), Some(0));
        });
        assert!(map.insert(2, Entry::new(2), &GUARD).is_none());
        remover.join().expect("no panic");
        let left: Vec<u32> = map.iter(&GUARD).map(|(_, cell)| cell.get()).collect();
        assert_eq!(left, [2]);
    });
}

#[test]
fn a_key_is_inserted_once_and_removed_once() {
    check(|| {
        let map = map(0..0);
        let other = map.clone();
        let fight = |map: &Map, value: u32| {
            let inserted = i32::from(map.insert_unique(7, Entry::new(value), &GUARD).is_ok());
            inserted - i32::from(map.remove(&7, &GUARD).map(Entry::get).is_some())
        };
        let thread = thread::spawn(move || fight(&other, 1));
        let sum = fight(&map, 2) + thread.join().expect("no panic");
        assert_eq!(sum, i32::from(map.contains_key(&7, &GUARD)));
    });
}

#[test]
fn a_replaced_key_is_always_there() {
    check(|| {
        let map = map(0..1);
        let other = map.clone();
        let updater = thread::spawn(move || {
            assert_eq!(other.insert(0, Entry::new(5), &GUARD).map(Entry::get), Some(0));
        });
        let seen = map.get(&0, &GUARD).expect("the old one or the new one").get();
        assert!(seen == 0 || seen == 5);
        updater.join().expect("no panic");
        assert_eq!(map.get(&0, &GUARD).map(Entry::get), Some(5));
    });
}

#[test]
fn a_key_is_replaced_or_removed() {
    check(|| {
        let map = map(0..1);
        let other = map.clone();
        let remover = thread::spawn(move || other.remove(&0, &GUARD).map(Entry::get));
        let replaced = map.insert(0, Entry::new(5), &GUARD).map(Entry::get);
        let removed = remover.join().expect("no panic");
        let left = map.get(&0, &GUARD).map(Entry::get);
        let is_right =
            [(Some(0), Some(5), None), (None, Some(0), Some(5))].contains(&(replaced, removed, left));
        assert!(is_right, "replaced {replaced:?}, removed {removed:?}, left {left:?}");
        assert_eq!(map.iter(&GUARD).count(), usize::from(left.is_some()));
    });
}

/// Keys are their own hashes.
#[derive(Default)]
struct Same(u64);
impl std::hash::Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A reader has started from a bucket that is being split in front of what it looks for.
#[test]
fn a_key_is_found_while_the_table_grows() {
    // The table multiplies hashes by this, 2^64 over the golden ratio: a key in the second eighth.
    let key =
        (1..).find(|key: &u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 1).expect("one in eight");
    check(move || {
        type Map = hash::HashMap<u64, u64, Library, std::hash::BuildHasherDefault<Same>>;
        let map = Arc::new(Map::with_capacity_and_hasher(1, Default::default()));
        assert_eq!((map.insert(key, key, &GUARD), map.buckets()), (None, 4));
        let other = map.clone();
        let reader = thread::spawn(move || assert_eq!(other.get(&key, &GUARD), Some(&key)));
        // The first one makes it grow, the second one does it.
        map.insert(key + 1, 1, &GUARD);
        map.insert(key + 2, 2, &GUARD);
        assert_eq!(map.buckets(), 8);
        reader.join().expect("no panic");
    });
}
