//! Each structure beside the standard library's: random operations of one thread, the same results.

use mote_reclaim::{Dequeued, Expedited, HashMap, Library, List, Queue, Stack, Thread, barrier, library};
use std::collections::{HashMap as StdMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::Barrier;

/// Xorshift64*: Marsaglia 2003, Vigna 2016.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

#[test]
fn stack_is_a_vec() {
    let (stack, mut vec, mut random) = (Stack::<String>::new(), Vec::new(), Random(1));
    for turn in 0..20_000 {
        match random.below(100) {
            0 => assert_eq!(stack.take().collect::<Vec<_>>(), vec.drain(..).rev().collect::<Vec<_>>()),
            1..50 => assert_eq!(stack.pop(&library::read()), vec.pop()),
            _ => {
                stack.push(turn.to_string());
                vec.push(turn.to_string());
            }
        }
        assert_eq!(stack.is_empty(), vec.is_empty());
    }
}

#[test]
fn queue_is_a_deque() {
    let (queue, mut deque, mut random) = (Queue::<String>::new(), VecDeque::new(), Random(2));
    for turn in 0..20_000 {
        if random.below(2) == 0 {
            queue.enqueue(turn.to_string());
            deque.push_back(turn.to_string());
        } else {
            let expected = deque.pop_front().map_or(Dequeued::Empty, Dequeued::Value);
            assert_eq!(queue.dequeue(&library::read()), expected);
        }
    }
}

#[test]
fn list_is_a_vec() {
    let (list, mut vec, mut random) = (List::<String>::new(), Vec::<String>::new(), Random(3));
    for turn in 0..5_000 {
        let value = turn.to_string();
        let guard = library::read();
        let mut updater = list.update();
        let place = random.below(vec.len() as u64 + 1) as usize;
        let element = list.iter(&guard).nth(place);
        match (random.below(12), element) {
            (0..3, _) => {
                updater.push_front(value.clone());
                vec.insert(0, value);
            }
            (3..6, _) => {
                updater.push_back(value.clone());
                vec.push(value);
            }
            (6, Some(element)) => {
                assert_eq!(updater.insert_before(element, value.clone()), Ok(()));
                vec.insert(place, value);
            }
            (7, Some(element)) => {
                assert_eq!(updater.insert_after(element, value.clone()), Ok(()));
                vec.insert(place + 1, value);
            }
            (8, Some(element)) => {
                assert_eq!(updater.replace(element, value.clone()), Ok(()));
                assert_eq!(updater.replace(element, value.clone()), Err(value.clone()));
                vec[place] = value;
            }
            (9 | 10, Some(element)) => {
                assert!(updater.remove(element));
                assert!(!updater.remove(element), "removed twice");
                assert_eq!(*element, vec.remove(place));
            }
            (_, _) => {
                let digit = char::from(b'0' + random.below(10) as u8);
                let before = vec.len();
                vec.retain(|value| !value.ends_with(digit));
                assert_eq!(updater.retain(|value| !value.ends_with(digit)), before - vec.len());
            }
        }
        drop(updater);
        assert!(list.iter(&guard).map(|element| element.get()).eq(&vec));
        assert!(list.iter_back(&guard).map(|element| element.get()).eq(vec.iter().rev()));
        assert_eq!(list.is_empty(), vec.is_empty());
    }
}

#[test]
fn elements_of_other_lists_are_refused() {
    let (one, other) = (List::<u8>::new(), List::<u8>::new());
    one.update().push_back(1);
    let guard = library::read();
    let element = one.iter(&guard).next().expect("an element");
    assert!(!other.update().remove(element));
    assert_eq!(other.update().insert_after(element, 2), Err(2));
    assert_eq!(*element, 1);
}

/// A random walk over keys below `keys`, whose number goes up to `most` and down again.
fn walk<S: BuildHasher>(map: &HashMap<u64, String, Library, S>, keys: u64, turns: u64, seed: u64) {
    let (mut known, mut random) = (StdMap::<u64, String>::new(), Random(seed));
    for turn in 0..turns {
        // Waves: more insertions, then more removals.
        let inserts = if (turn * 4 / turns).is_multiple_of(2) { 7 } else { 2 };
        let (key, value, guard) = (random.below(keys), turn.to_string(), library::read());
        assert_eq!(map.get(&key, &guard), known.get(&key));
        if random.below(10) < inserts {
            match random.below(3) {
                0 => assert_eq!(map.insert(key, value.clone(), &guard), known.insert(key, value).as_ref()),
                1 => match map.insert_unique(key, value.clone(), &guard) {
                    Ok(inserted) => {
                        assert_eq!((inserted, known.insert(key, value.clone())), (&value, None));
                    }
                    Err((back, there)) => assert_eq!((back, Some(there)), (value, known.get(&key))),
                },
                _ => match map.replace(key, value.clone(), &guard) {
                    Ok(old) => assert_eq!(known.insert(key, value).as_ref(), Some(old)),
                    Err(back) => {
                        assert_eq!(back, value);
                        assert!(!known.contains_key(&key));
                    }
                },
            }
        } else if random.below(4) == 0 {
            let removed = map.remove_if(&key, |_, value| value.len() % 2 == 0, &guard);
            let expected = known.get(&key).filter(|value| value.len() % 2 == 0).cloned();
            assert_eq!(removed, expected.as_ref());
            if expected.is_some() {
                known.remove(&key);
            }
        } else {
            assert_eq!(map.remove(&key, &guard), known.remove(&key).as_ref());
        }
        assert_eq!(map.len(), known.len());
        if turn % 4096 == 0 {
            same(map, &known);
        }
    }
    same(map, &known);
}

fn same<S: BuildHasher>(map: &HashMap<u64, String, Library, S>, known: &StdMap<u64, String>) {
    let guard = library::read();
    let all: StdMap<u64, String> = map.iter(&guard).map(|(key, value)| (*key, value.clone())).collect();
    assert_eq!(map.iter(&guard).count(), known.len(), "no entry is given twice");
    assert_eq!(&all, known);
}

#[test]
fn hash_map_is_a_hash_map() {
    walk(&HashMap::new(), 50, 20_000, 4);
    walk(&HashMap::new(), 20_000, 100_000, 5);
}

/// Hashes that collide, wholly or in the bits that choose the bucket.
#[derive(Default)]
struct Bad<const MASK: u64>(u64);
impl<const MASK: u64> Hasher for Bad<MASK> {
    fn finish(&self) -> u64 {
        self.0 & MASK
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
type Collide<const MASK: u64> = std::hash::BuildHasherDefault<Bad<MASK>>;

#[test]
fn keys_of_one_hash_are_told_apart() {
    walk(&HashMap::with_hasher(Collide::<0>::default()), 60, 20_000, 6);
    walk(&HashMap::with_hasher(Collide::<7>::default()), 300, 20_000, 7);
    walk(&HashMap::with_hasher(Collide::<{ u64::MAX }>::default()), 3_000, 20_000, 8);
    walk(&HashMap::with_hasher(Collide::<{ u64::MAX << 8 }>::default()), 3_000, 20_000, 9);
}

#[test]
fn a_table_grows_and_shrinks() {
    let map = HashMap::<u32, u32>::new();
    let first = map.buckets();
    for key in 0..40_000 {
        map.insert(key, key, &library::read());
    }
    assert!(map.buckets() >= 16_384, "{} buckets for 40,000 entries", map.buckets());
    let guard = library::read();
    assert!((0..40_000).all(|key| map.get(&key, &guard) == Some(&key)));
    drop(guard);
    for key in 0..40_000 {
        assert_eq!(map.remove(&key, &library::read()), Some(&key));
    }
    for turn in 0..1_000_000 {
        if map.buckets() == first {
            assert_eq!(map.len(), 0);
            return;
        }
        if turn % 512 == 0 {
            barrier::<Library>();
        }
        map.insert(1, 1, &library::read());
        map.remove(&1, &library::read());
    }
    panic!("it stays at {} buckets", map.buckets());
}

/// A thread may still start from the buckets that are to go.
#[test]
fn a_table_does_not_shrink_further_under_a_reader() {
    let map = HashMap::<u32, u32, Expedited>::new();
    let thread = Thread::<Expedited>::register().expect("a free slot");
    // So many that it is not growing any more when they are all there.
    (0..7_000).for_each(|key| assert_eq!(map.insert(key, key, &thread.read()), None));
    let most = map.buckets();
    let (reading, done) = (&Barrier::new(2), &Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let thread = Thread::<Expedited>::register().expect("a free slot");
            let guard = thread.read();
            reading.wait();
            done.wait();
            drop(guard);
        });
        reading.wait();
        for key in 0..7_000 {
            assert_eq!(map.remove(&key, &thread.read()), Some(&key));
        }
        for _ in 0..10_000 {
            map.insert(1, 1, &thread.read());
            map.remove(&1, &thread.read());
        }
        let now = map.buckets();
        done.wait();
        assert_eq!(now, most / 2);
    });
}

#[test]
fn values_are_freed_once() {
    use std::sync::Arc;
    let value = Arc::new(());
    let thread = Thread::<Expedited>::register().expect("a free slot");
    let stack = Stack::<_, Expedited>::new();
    let queue = Queue::<_, Expedited>::new();
    let list = List::<_, Expedited>::new();
    let map = HashMap::<u32, Arc<()>, Expedited>::new();
    for key in 0..100 {
        stack.push(value.clone());
        queue.enqueue(value.clone());
        list.update().push_back(value.clone());
        map.insert(key % 70, value.clone(), &thread.read());
    }
    for key in 0..10 {
        drop(stack.pop(&thread.read()));
        drop(queue.dequeue(&thread.read()).value());
        map.remove(&key, &thread.read());
        let guard = thread.read();
        let element = list.iter(&guard).next().expect("an element");
        assert!(list.update().remove(element));
    }
    drop(stack.take().take(5).collect::<Vec<_>>());
    stack.push(value.clone());
    barrier::<Expedited>();
    assert_eq!(Arc::strong_count(&value), 1 + 1 + 90 + 90 + 60);
    drop((stack, queue, list, map));
    assert_eq!(Arc::strong_count(&value), 1);
}
