//! The hash and the ring buffer on loom's atomics, small, for `tests/loom_maps.rs`.

use super::hash::{Find, Hash, Inserted, Nothing};
use super::key::Key;
use super::link::{Link, State};
use super::memory::Memory;
use super::place::{HEADER, HashPlace, Place};
use super::ring::{Look, Ring, finished};
use loom::sync::atomic::AtomicU64;
use mote_bpf::{MapKind, MapShape};

/// Words of a hash of so many entries, all zero.
pub fn memory(shape: &MapShape) -> Vec<AtomicU64> {
    (0..Place::new(shape).words()).map(|_| AtomicU64::new(0)).collect()
}

/// A shape of one-word keys and values.
pub const fn hash_shape(entries: u32) -> MapShape {
    MapShape { kind: MapKind::Hash, key_bytes: 8, value_bytes: 8, entries, read_only: false }
}

/// A hash in such memory.
#[derive(Clone, Copy, Debug)]
pub struct ModelHash<'a>(Hash<&'a [AtomicU64]>);

impl<'a> ModelHash<'a> {
    /// In memory of [`memory`], made for the same shape.
    pub fn new(memory: &'a [AtomicU64], shape: &MapShape) -> ModelHash<'a> {
        ModelHash(Hash { memory, place: HashPlace::new(shape) })
    }

    /// The chain of a key.
    pub fn chain(&self, key: u64) -> usize {
        self.0.place.head(Key::new(&[key]).hash())
    }

    /// Adds 1 to a key's value; false when there is no room.
    pub fn add(&self, key: u64) -> bool {
        let words = [key];
        let key = Key::new(&words);
        let node = match self.0.find(&key) {
            Find::Found(found) => found.node,
            _ => match self.0.insert(&key, &Nothing, |memory, at| {
                memory.put(at, 1);
                true
            }) {
                Ok(Some(Inserted::Present(found))) => found.node,
                Ok(_) => return true,
                Err(_) => return false,
            },
        };
        self.0.memory.add(self.0.place.value(node), 1);
        true
    }

    /// Makes an entry whose value is its key, if there is none.
    pub fn insert(&self, key: u64) -> bool {
        let words = [key];
        let made = self.0.insert(&Key::new(&words), &Nothing, |memory, at| {
            memory.put(at, key);
            true
        });
        matches!(made, Ok(Some(Inserted::New)))
    }

    /// Removes a key; true when this call did it.
    pub fn delete(&self, key: u64) -> bool {
        self.0.delete(&Key::new(&[key])) == Ok(true)
    }

    /// The value of a key, if it is still its value after it was read.
    pub fn lookup(&self, key: u64) -> Option<u64> {
        let Find::Found(found) = self.0.find(&Key::new(&[key])) else { return None };
        let value = self.0.memory.peek(self.0.place.value(found.node));
        self.0.is_still(&found).then_some(value)
    }

    /// Whether a walk says that there is no such key; not if it gave up, which it does early in models.
    pub fn misses(&self, key: u64) -> bool {
        matches!(self.0.find(&Key::new(&[key])), Find::None(_))
    }

    /// Number of nodes that hold an entry.
    pub fn live(&self) -> usize {
        let state = |node| Link(self.0.memory.load(self.0.place.node(node))).state();
        (0..self.0.place.entries).filter(|node| state(*node) == State::Live).count()
    }

    /// Nodes that are neither entries nor free.
    pub fn lost(&self) -> u64 {
        self.0.lost()
    }
}

/// A shape of a ring buffer of 4 records; smaller than maps may have it.
pub const fn ring_words() -> usize {
    HEADER + 8
}

/// A ring buffer of 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct ModelRing<'a>(Ring<&'a [AtomicU64]>);

impl<'a> ModelRing<'a> {
    /// In memory of [`ring_words`] words.
    pub fn new(memory: &'a [AtomicU64]) -> ModelRing<'a> {
        ModelRing(Ring { memory, bytes: 64 })
    }

    /// Writes a record of one word.
    pub fn write(&self, value: u64) -> bool {
        let Some(at) = self.0.reserve(8, 1) else { return false };
        self.0.memory.put(at, value);
        let was = self.0.memory.load(at - 1);
        self.0.memory.swap_if(at - 1, was, finished(was, false))
    }

    /// Reads the record at `position`, and gives the next position.
    pub fn read(&self, position: u64) -> Option<(u64, u64)> {
        let Look::Record(at, len) = self.0.look(position) else { return None };
        let value = self.0.memory.peek(at);
        Some((value, self.0.release(position, len)))
    }
}
