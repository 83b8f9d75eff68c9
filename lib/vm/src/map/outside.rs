//! A map and what tools do with it: look up, change, go through all entries. Everything is copied.

use super::consumer::{Consumer, copy_in, copy_out};
use super::hash::{Find, Hash, Inserted, Missed, Nothing, TRIES_MAX};
use super::key::{KEY_WORDS, Key, pack};
use super::lru::{self, Clock};
use super::memory::{Memory, Words};
use super::place::{ArrayPlace, COPIES, DROPPED, Place, shape_words, words};
use super::programs::ProgramSlot;
use super::ring::Ring;
use mote_bpf::{MapKind, MapShape};

/// A map in memory that its caller provides: address and shape. It is small; copies mean the same map.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    pub(crate) memory: Words,
    pub(crate) place: Place,
    shape: MapShape,
    slots: &'static [ProgramSlot],
}

/// Why a map did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// No map can have this shape.
    Shape,
    /// The memory begins with the header of another map, or with none.
    Header,
    /// The address is not a multiple of 8.
    Address,
    /// Key or value have another size than the shape says, or the map's kind has no such operation.
    Size,
    /// There is no such entry.
    Missing,
    /// There is such an entry.
    Exists,
    /// No entry is free. Counted in [`Map::dropped`].
    Full,
    /// Others changed the map all the time, or its memory is damaged. Counted in [`Map::dropped`].
    Busy,
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            MapError::Shape => "no map can have this shape",
            MapError::Header => "the memory holds another map, or none: create the map first",
            MapError::Address => "a map must begin at a multiple of 8",
            MapError::Size => "key or value have another size than the map's, or it has none",
            MapError::Missing => "the map has no such entry",
            MapError::Exists => "the map has such an entry already",
            MapError::Full => "the map is full",
            MapError::Busy => "the map is changed by others all the time, or damaged",
        })
    }
}

impl core::error::Error for MapError {}

impl From<Missed> for MapError {
    fn from(missed: Missed) -> MapError {
        match missed {
            Missed::Full => MapError::Full,
            Missed::Busy => MapError::Busy,
        }
    }
}

/// What an update may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Make the entry, or change it (`BPF_ANY`).
    Any,
    /// Only make it (`BPF_NOEXIST`).
    New,
    /// Only change it (`BPF_EXIST`).
    Existing,
}

/// A place among the entries of a map; the default is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    index: u64,
}

impl Map {
    /// Bytes that a map of this shape takes: a multiple of 64. 0 when there can be none.
    pub fn bytes(shape: &MapShape) -> usize {
        if shape.is_sound() { Place::new(shape).words() * 8 } else { 0 }
    }

    /// Makes an empty map in memory that is all zeros.
    ///
    /// # Errors
    /// [`MapError::Shape`], [`MapError::Address`].
    ///
    /// # Safety
    /// As [`Map::open`].
    pub unsafe fn create(at: *mut u8, shape: &MapShape) -> Result<Map, MapError> {
        // SAFETY: the caller's promise.
        let map = unsafe { Map::at(at, shape) }?;
        for (i, word) in shape_words(shape).into_iter().enumerate() {
            map.memory.publish(i, word);
        }
        Ok(map)
    }

    /// The map of this shape that was made in this memory before.
    ///
    /// # Errors
    /// [`MapError::Shape`], [`MapError::Address`], [`MapError::Header`] when a map of another shape was made there.
    ///
    /// # Safety
    /// [`Map::bytes`] bytes from `at` on are mapped, readable and writable as long as this value or a copy of it is
    /// used, also by a program that was loaded with it. No thread has a reference to them. Other processes may write
    /// there what they like.
    pub unsafe fn open(at: *mut u8, shape: &MapShape) -> Result<Map, MapError> {
        // SAFETY: the caller's promise.
        let map = unsafe { Map::at(at, shape) }?;
        let is_it = shape_words(shape).into_iter().enumerate().all(|(i, word)| map.memory.load(i) == word);
        if is_it { Ok(map) } else { Err(MapError::Header) }
    }

    /// # Safety
    /// As [`Map::open`].
    unsafe fn at(at: *mut u8, shape: &MapShape) -> Result<Map, MapError> {
        if !shape.is_sound() {
            return Err(MapError::Shape);
        }
        if at.is_null() || !at.addr().is_multiple_of(8) {
            return Err(MapError::Address);
        }
        let place = Place::new(shape);
        // SAFETY: aligned, and mapped by the caller's promise.
        let memory = unsafe { Words::new(at, place.words()) };
        Ok(Map { memory, place, shape: *shape, slots: &[] })
    }

    /// The same map, of kind `Programs`, with this process's programs: a value of the map is 1 + the index of a slot,
    /// or 0.
    pub fn with_programs(self, slots: &'static [ProgramSlot]) -> Map {
        Map { slots, ..self }
    }

    /// The shape that it was made with: kind, bytes of keys and values, number of entries.
    pub fn shape(&self) -> &MapShape {
        &self.shape
    }

    /// Address of the first value of an array, which programs get from 16-byte loads; else of no meaning.
    pub(crate) fn values_address(&self) -> u64 {
        self.memory.address(super::place::HEADER)
    }

    /// The slot of a program's number.
    pub(crate) fn slot(&self, number: u32) -> Option<&'static ProgramSlot> {
        self.slots.get((number as usize).checked_sub(1)?)
    }

    /// Copies the value of a key; of a per-CPU array, copy 0.
    ///
    /// # Errors
    /// [`MapError::Missing`], [`MapError::Size`], [`MapError::Busy`].
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<(), MapError> {
        self.lookup_copy(key, 0, value)
    }

    /// Copies the value of a key; of a per-CPU array, the copy of the CPUs whose number modulo [`COPIES`] is `copy`.
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn lookup_copy(&self, key: &[u8], copy: u32, value: &mut [u8]) -> Result<(), MapError> {
        self.check(key, Some(value.len()))?;
        match &self.place {
            Place::Array(place) => {
                let at = place.value(index_of(key), copy).ok_or(MapError::Missing)?;
                copy_out(self.memory, at, value);
                Ok(())
            }
            Place::Hash(place) | Place::Lru(place) => {
                with_key(key, |key| self.lookup_hash(&self.hash(place), key, value))
            }
            Place::Ring(_) => Err(MapError::Size),
        }
    }

    fn lookup_hash(&self, hash: &Hash<Words>, key: &Key<'_>, value: &mut [u8]) -> Result<(), MapError> {
        for _ in 0..TRIES_MAX {
            match hash.find(key) {
                Find::Found(found) => {
                    copy_out(self.memory, hash.place.value(found.node), value);
                    if hash.is_still(&found) {
                        return Ok(());
                    }
                }
                Find::None(_) => return Err(MapError::Missing),
                Find::Busy => return Err(MapError::Busy),
            }
        }
        Err(MapError::Busy)
    }

    /// Sets the value of a key; of a per-CPU array, of all CPUs.
    ///
    /// # Errors
    /// Any but those of [`Map::open`].
    pub fn update(&self, key: &[u8], value: &[u8], how: Update) -> Result<(), MapError> {
        self.check(key, Some(value.len()))?;
        match &self.place {
            Place::Array(place) => self.set_array(place, index_of(key), value, how),
            Place::Hash(place) => with_key(key, |key| self.set_hash(self.hash(place), key, value, how)),
            Place::Lru(place) => with_key(key, |key| self.set_hash(self.hash(place), key, value, how)),
            Place::Ring(_) => Err(MapError::Size),
        }
    }

    fn set_array(&self, place: &ArrayPlace, index: u32, value: &[u8], how: Update) -> Result<(), MapError> {
        let at = place.value(index, 0).ok_or(MapError::Missing)?;
        if how == Update::New {
            return Err(MapError::Exists);
        }
        let copies = if place.copy_words == 0 { 1 } else { COPIES as usize };
        for copy in 0..copies {
            copy_in(self.memory, at + copy * place.copy_words, value);
        }
        Ok(())
    }

    fn set_hash(&self, hash: Hash<Words>, key: &Key<'_>, value: &[u8], how: Update) -> Result<(), MapError> {
        let found = match hash.find(key) {
            Find::Found(found) => Some(found),
            Find::Busy => return Err(self.drop_one(Missed::Busy)),
            Find::None(_) if how == Update::Existing => return Err(MapError::Missing),
            Find::None(_) => match self.make(&hash, key, |memory, at| {
                copy_in(*memory, at, value);
                true
            }) {
                Err(missed) => return Err(self.drop_one(missed)),
                Ok(Some(Inserted::Present(found))) => Some(found),
                Ok(_) => return Ok(()),
            },
        };
        if how == Update::New {
            return Err(MapError::Exists);
        }
        if let Some(found) = found {
            copy_in(self.memory, hash.place.value(found.node), value);
        }
        Ok(())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// [`MapError::Missing`], [`MapError::Busy`], [`MapError::Size`] when the kind's entries stay for ever.
    pub fn delete(&self, key: &[u8]) -> Result<(), MapError> {
        self.check(key, None)?;
        let (Place::Hash(place) | Place::Lru(place)) = &self.place else { return Err(MapError::Size) };
        match with_key(key, |key| self.hash(place).delete(key)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(MapError::Missing),
            Err(missed) => Err(missed.into()),
        }
    }

    /// Copies the entry behind the cursor, and moves that; false at the end. Entries that are made or deleted meanwhile
    /// may be there or not; no entry is there twice. Per-CPU arrays give copy 0 of each value; [`Map::lookup_copy`] has
    /// the others.
    ///
    /// Buffers that are shorter than key or value get their first bytes.
    pub fn next(&self, cursor: &mut Cursor, key: &mut [u8], value: &mut [u8]) -> bool {
        match &self.place {
            Place::Array(place) => {
                let Some(at) = place.value(u32::try_from(cursor.index).unwrap_or(u32::MAX), 0) else {
                    return false;
                };
                let index = (cursor.index as u32).to_le_bytes();
                key.iter_mut().zip(index).for_each(|(to, from)| *to = from);
                copy_out(self.memory, at, cut(value, self.shape.value_bytes));
                cursor.index += 1;
                true
            }
            Place::Hash(place) | Place::Lru(place) => {
                let hash = self.hash(place);
                let used = hash.used() as u64;
                while cursor.index < used {
                    cursor.index += 1;
                    if self.copy_entry(&hash, cursor.index as usize - 1, key, value) {
                        return true;
                    }
                }
                false
            }
            Place::Ring(_) => false,
        }
    }

    /// Copies the entry of a node, if it is one.
    fn copy_entry(&self, hash: &Hash<Words>, node: usize, key: &mut [u8], value: &mut [u8]) -> bool {
        let mut key_words = [0; KEY_WORDS];
        let Some(key_words) = key_words.get_mut(..hash.place.key_words) else { return false };
        let looks_so = hash.visit(node, |memory, key_at, value_at| {
            key_words.iter_mut().enumerate().for_each(|(i, word)| *word = memory.peek(key_at + i));
            copy_out(*memory, key_at, cut(key, self.shape.key_bytes));
            copy_out(*memory, value_at, cut(value, self.shape.value_bytes));
        });
        looks_so && matches!(hash.find(&Key::new(key_words)), Find::Found(found) if found.node == node)
    }

    /// Adds to the first 8 bytes of a key's value, atomically; makes an entry of zeros first when there is none. Of a
    /// per-CPU array, to `copy`.
    ///
    /// # Errors
    /// [`MapError::Full`], [`MapError::Busy`], [`MapError::Size`], [`MapError::Missing`] for an array's index.
    pub fn add(&self, key: &[u8], copy: u32, delta: i64) -> Result<(), MapError> {
        self.check(key, None)?;
        match &self.place {
            Place::Array(place) => {
                let at = place.value(index_of(key), copy).ok_or(MapError::Missing)?;
                self.memory.add(at, delta as u64);
                Ok(())
            }
            Place::Hash(place) | Place::Lru(place) => {
                with_key(key, |key| self.add_hash(&self.hash(place), key, delta as u64))
                    .map_err(MapError::from)
            }
            Place::Ring(_) => Err(MapError::Size),
        }
    }

    /// Adds to an entry of a hash; counts it when that could not be.
    #[inline(always)]
    pub(crate) fn add_hash(&self, hash: &Hash<Words>, key: &Key<'_>, delta: u64) -> Result<(), Missed> {
        let Find::Found(found) = hash.find(key) else { return self.add_new(hash, key, delta) };
        self.used(hash, found.node);
        self.memory.add(hash.place.value(found.node), delta);
        Ok(())
    }

    #[cold]
    fn add_new(&self, hash: &Hash<Words>, key: &Key<'_>, delta: u64) -> Result<(), Missed> {
        let made = self.make(hash, key, |memory, at| {
            memory.put(at, delta);
            (1..hash.place.value_words).for_each(|i| memory.put(at + i, 0));
            true
        });
        match made {
            Ok(Some(Inserted::Present(found))) => {
                self.memory.add(hash.place.value(found.node), delta);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(missed) => {
                self.count_dropped();
                Err(missed)
            }
        }
    }

    /// Makes an entry; old ones give way if it is an LRU hash.
    pub(crate) fn make(
        &self,
        hash: &Hash<Words>,
        key: &Key<'_>,
        fill: impl FnMut(&Words, usize) -> bool,
    ) -> Result<Option<Inserted>, Missed> {
        match self.place {
            Place::Lru(_) => hash.insert(key, &Clock, fill),
            _ => hash.insert(key, &Nothing, fill),
        }
    }

    /// Notes that an entry is used, if it is an LRU hash.
    #[inline(always)]
    pub(crate) fn used(&self, hash: &Hash<Words>, node: usize) {
        if let Place::Lru(_) = self.place {
            lru::touch(hash, node);
        }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, place: &super::place::HashPlace) -> Hash<Words> {
        Hash { memory: self.memory, place: *place }
    }

    /// A ring buffer's reader, which goes on where the one before left off; `None` for other kinds.
    pub fn consumer(&self) -> Option<Consumer> {
        self.ring().map(Consumer::new)
    }

    pub(crate) fn ring(&self) -> Option<Ring<Words>> {
        let Place::Ring(bytes) = self.place else { return None };
        Some(Ring { memory: self.memory, bytes: u64::from(bytes) })
    }

    /// How many entries, additions or records did not fit, by all processes.
    pub fn dropped(&self) -> u64 {
        self.memory.load(DROPPED)
    }

    /// Entries of a hash that no thread can use any more, because a process was killed while it made or deleted them.
    /// Exact when no thread is at work on the map.
    ///
    /// # Cost
    /// Goes through the whole map.
    pub fn lost(&self) -> u64 {
        match &self.place {
            Place::Hash(place) | Place::Lru(place) => self.hash(place).lost(),
            _ => 0,
        }
    }

    pub(crate) fn count_dropped(&self) {
        self.memory.add(DROPPED, 1);
    }

    fn drop_one(&self, missed: Missed) -> MapError {
        self.count_dropped();
        missed.into()
    }

    fn check(&self, key: &[u8], value_bytes: Option<usize>) -> Result<(), MapError> {
        let is_key = self.shape.kind != MapKind::RingBuffer && key.len() == self.shape.key_bytes as usize;
        let is_value = value_bytes.is_none_or(|bytes| bytes == self.shape.value_bytes as usize);
        if is_key && is_value { Ok(()) } else { Err(MapError::Size) }
    }
}

/// The index that an array's key is; the key's size was checked.
fn index_of(key: &[u8]) -> u32 {
    key.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}

fn with_key<R>(key: &[u8], then: impl FnOnce(&Key<'_>) -> R) -> R {
    let mut all = [0; KEY_WORDS];
    let count = words(key.len() as u32).min(KEY_WORDS);
    let words = all.get_mut(..count).unwrap_or_default();
    pack(key, words);
    then(&Key::new(words))
}

fn cut(bytes: &mut [u8], len: u32) -> &mut [u8] {
    let len = bytes.len().min(len as usize);
    bytes.get_mut(..len).unwrap_or_default()
}
