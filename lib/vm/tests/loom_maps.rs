//! The hash and the ring buffer under every interleaving of two threads that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p mote-trace-vm --release --test loom_maps`.
#![cfg(loom)]

use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use mote_vm::map::model::{ModelHash, ModelRing, hash_shape, memory, ring_words};

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    // `LOOM_MAX_PREEMPTIONS` sets another bound.
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Runs both on one hash of so many entries, and `after` when they are done.
fn two(
    entries: u32,
    one: impl Fn(ModelHash<'_>) + Sync + Send + Clone + 'static,
    other: impl Fn(ModelHash<'_>) + Sync + Send + Clone + 'static,
    after: impl Fn(ModelHash<'_>) + Sync + Send + 'static,
) {
    check(2, move || {
        let shape = hash_shape(entries);
        let words = Arc::new(memory(&shape));
        let (shared, one) = (words.clone(), one.clone());
        let thread = thread::spawn(move || one(ModelHash::new(&shared, &hash_shape(entries))));
        other(ModelHash::new(&words, &shape));
        thread.join().expect("ends");
        after(ModelHash::new(&words, &shape));
    });
}

#[test]
fn one_key_is_inserted_once() {
    let add = |hash: ModelHash<'_>| assert!(hash.add(7));
    two(2, add, add, |hash| {
        assert_eq!((hash.lookup(7), hash.live(), hash.lost()), (Some(2), 1, 0));
    });
}

#[test]
fn insertion_meets_deletion() {
    let work = |hash: ModelHash<'_>| {
        hash.insert(7);
        hash.delete(7);
    };
    two(2, work, work, |hash| assert_eq!((hash.live(), hash.lost()), (0, 0)));
}

/// A node goes from key to key: a thread that finds a key reads its value, or nothing. (The second node is for when the
/// first is just being taken out by the other thread.)
#[test]
fn a_node_that_is_used_again_is_noticed() {
    let work = |hash: ModelHash<'_>| {
        hash.insert(7);
        hash.delete(7);
        hash.insert(9);
    };
    let look = |hash: ModelHash<'_>| {
        for key in [7, 9] {
            assert!(hash.lookup(key).is_none_or(|value| value == key));
        }
    };
    two(2, work, look, |hash| assert_eq!((hash.lookup(9), hash.lost()), (Some(9), 0)));
}

/// Before an entry in its chain is another, which goes, and whose node comes back in another chain: the walk to the
/// first one notices that it was led away.
#[test]
fn an_entry_that_stays_is_always_found() {
    check(2, || {
        let shape = hash_shape(3);
        let words = Arc::new(memory(&shape));
        let hash = ModelHash::new(&words, &shape);
        let near = (1..).find(|key| hash.chain(*key) == hash.chain(0)).expect("some key");
        let far = (1..).find(|key| hash.chain(*key) != hash.chain(0)).expect("some key");
        assert!(hash.insert(0) && hash.insert(near));
        let shared = words.clone();
        let thread = thread::spawn(move || {
            let hash = ModelHash::new(&shared, &hash_shape(3));
            assert!(hash.delete(near) && hash.insert(far));
        });
        assert!(!hash.misses(0));
        assert!(!hash.insert(0), "it is there");
        thread.join().expect("ends");
        assert_eq!((hash.live(), hash.lost()), (2, 0));
    });
}

#[test]
fn records_come_out_whole() {
    check(2, || {
        let words: Arc<Vec<_>> = Arc::new((0..ring_words()).map(|_| AtomicU64::new(0)).collect());
        let writer = |word| {
            let words = words.clone();
            thread::spawn(move || assert!(ModelRing::new(&words).write(word)))
        };
        let writers = [writer(1), writer(2)];
        let ring = ModelRing::new(&words);
        let mut got = [0; 2];
        let (mut position, mut count) = (0, 0);
        let mut look = |got: &mut [u64; 2]| {
            while let Some((word, next)) = ring.read(position) {
                got[count] = word;
                (position, count) = (next, count + 1);
            }
        };
        look(&mut got);
        writers.into_iter().for_each(|writer| writer.join().expect("ends"));
        look(&mut got);
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}
