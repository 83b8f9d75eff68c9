//! The maps of a session: what programs keep between events, and what it means to people.

use crate::shared_names::SharedNames;
use mote_bpf::helper::BUCKETS;
use mote_bpf::{MapKind, MapShape};
use mote_layout::cooperation::{FLAG_WORDS, SHARED_BYTES, SHARED_WORDS};
use mote_layout::tracer;

/// All maps of a session, in the order of the bundle: programs name them by their place here. Maps are only ever added.
#[derive(Clone, Debug, Default)]
pub struct Maps {
    entries: Vec<Entry>,
    /// Names of events that keys mention by number.
    events: Vec<String>,
    /// On the user's side, too, flags are in the memory that both sides share.
    flags_are_shared: bool,
    names: SharedNames,
    /// Names of the keys that speculations go by.
    speculation_keys: Vec<String>,
    /// Patterns of functions that requests mention by number.
    function_patterns: Vec<String>,
}

/// A map of the session, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is, for people and for debugging; unique in the session together with its meaning.
    pub name: String,
    /// Kind of the map, bytes of keys and values, number of entries.
    pub shape: MapShape,
    /// Bytes of its first value before any program runs; empty: zeros.
    pub initial: Vec<u8>,
    /// What its keys and values mean to people.
    pub meaning: Meaning,
}

/// What is in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Of each key, how often it was met (`u64`). A hash of the keys; without keys, an array of one value.
    Count {
        /// What the key is made of.
        keys: Vec<Key>,
    },
    /// Of each key and bucket, how often (`u64`). With keys: a hash; behind the keys the key has the bucket's place
    /// ([`bucket_value`]) as `u64`. Without: an array of one value, of one `u64` for each place.
    Histogram {
        /// What was measured.
        value: Key,
        /// What the key is made of, before the bucket.
        keys: Vec<Key>,
    },
    /// The last events: an array that the helper `keep_last` fills. A value is a sequence number and then the fields,
    /// of which the first two are the time (ns, `CLOCK_MONOTONIC`) and the thread.
    Last {
        /// Fields; offsets count from behind the sequence number.
        fields: Vec<Key>,
    },
    /// A flag that rules set and clear: `u64`, 0 or 1.
    Flag,
    /// What programs keep for themselves: counters, times, last values.
    State,
    /// Strings that programs compare with; read-only.
    Constants,
    /// The memory that a session shares with its processes ([`mote_layout::cooperation::SharedHeader`]): it is there,
    /// and not made for these programs.
    Shared,
    /// The areas of processes, by their index: an array of maps of which each has one value of
    /// [`mote_layout::cooperation::area_bytes`] of [`mote_layout::cooperation::SLOTS`] bytes.
    Areas,
    /// Of each map, by its place, how many keys did not fit: on the kernel's side, where maps do not count that.
    Dropped,
}

/// A part of a key, or a field that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The expression, as it was written.
    pub name: String,
    /// How its bytes are to be read.
    pub ty: KeyType,
    /// Where it is in the key, in bytes.
    pub offset: u32,
}

/// How the bytes of a part of a key are to be read. Numbers have 8 bytes, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// An `i64`.
    Signed,
    /// A `u64`.
    Unsigned,
    /// A `u64`, shown in base 16.
    Hex,
    /// A double's bits.
    Float,
    /// 0 or 1.
    Bool,
    /// Nanoseconds.
    Nanos,
    /// An integer with labels: label, first and last value that it names.
    Labels(Vec<(String, i64, i64)>),
    /// A string in so many bytes, zeros behind; one that fills them may have been cut.
    String(u32),
    /// An event's number in [`Maps::event`].
    Event,
}

impl KeyType {
    /// How many bytes it takes; a multiple of 8.
    pub fn bytes(&self) -> u32 {
        if let KeyType::String(bytes) = self { bytes.next_multiple_of(8) } else { 8 }
    }
}

/// Places of a histogram: those of negative values, descending, then those of the others.
pub const PLACES: u32 = 2 * BUCKETS;

/// First and last value of the bucket at a place of a histogram.
pub fn bucket_value(place: u64) -> (i128, i128) {
    let of = |bucket: u32| {
        let start = i128::from(mote_bpf::helper::bucket_start(bucket));
        let end = if bucket + 1 < BUCKETS {
            i128::from(mote_bpf::helper::bucket_start(bucket + 1)) - 1
        } else {
            i128::from(u64::MAX)
        };
        (start, end)
    };
    match u32::try_from(place).unwrap_or(u32::MAX) {
        // `BUCKETS - 1` has the values whose absolute value is in bucket 0: none. -1 is one before it.
        place if place < BUCKETS => {
            let (start, end) = of(BUCKETS - 1 - place);
            (-end, -start)
        }
        place => of((place - BUCKETS).min(BUCKETS - 1)),
    }
}

/// Entries of a map of counts.
pub(crate) const COUNTS_MAX: u32 = 16 << 10;
/// Entries of a map of histograms by key.
pub(crate) const HISTOGRAMS_MAX: u32 = 32 << 10;
/// Threads of which state is kept; those that were not seen for long give way.
pub(crate) const THREADS_MAX: u32 = 4 << 10;

/// Areas of processes that programs of the kernel's side find, at most.
pub const AREAS_MAX: u32 = 4096;
/// Where the index of a process's area is in a thread's entry, to which `r2` points on the kernel's side; a `u32`, 0
/// for none.
pub const AREA_INDEX_AT: i16 = 12;
/// Where the id is there that the thread knows itself by, which its slot in the area has; a `u32`, 0 when it is not
/// known.
pub const OWN_ID_AT: i16 = 36;
/// Bytes of the counters of what did not fit.
const DROPPED_BYTES: u32 = 8 << 10;

/// Where the keys that did not fit into a map are counted, in the map of [`Meaning::Dropped`]. What lies beyond is the
/// last one's.
pub fn dropped_offset(map: u32) -> u32 {
    (map * 8).min(DROPPED_BYTES - 8)
}

/// Flags that both sides share, at most.
pub(crate) const FLAGS_MAX: usize = FLAG_WORDS as usize;

/// Where the `u64` of the flag in a slot lies among the words of the shared memory, in bytes.
pub const fn flag_offset(slot: usize) -> usize {
    (SHARED_WORDS as usize - FLAGS_MAX + slot) * 8
}

/// Events of which the kernel's side keeps counters and the like, a power of two; what lies beyond is kept with others.
pub(crate) const EVENTS: u32 = 4096;
/// Threads and events of which state is kept there.
const THREADS_OF_EVENTS_MAX: u32 = 64 << 10;

impl Maps {
    /// The registry of a session without maps.
    pub fn new() -> Maps {
        Maps::default()
    }

    /// None yet, in a session whose shared words are these.
    pub fn with_names(names: SharedNames) -> Maps {
        Maps { names, ..Maps::default() }
    }

    /// Which name has which of the session's shared words.
    pub fn names(&self) -> &SharedNames {
        &self.names
    }

    /// All maps by the index that programs name.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Their shapes, in order, as an environment has them.
    pub fn shapes(&self) -> Vec<MapShape> {
        self.entries.iter().map(|entry| entry.shape).collect()
    }

    /// The name of an event that a key mentions.
    pub fn event(&self, number: u64) -> Option<&str> {
        self.events.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// The number of an event in keys.
    pub(crate) fn event_number(&mut self, name: &str) -> u64 {
        number_in(&mut self.events, name)
    }

    /// The pattern of functions that a request mentions.
    pub fn function_pattern(&self, number: u64) -> Option<&str> {
        self.function_patterns.get(usize::try_from(number).ok()?).map(String::as_str)
    }

    /// The number of a pattern of functions in requests.
    pub(crate) fn function_pattern_number(&mut self, pattern: &str) -> u64 {
        number_in(&mut self.function_patterns, pattern)
    }

    /// The number of a kind of key that speculations go by; `None` when there are too many.
    pub(crate) fn speculation_key(&mut self, name: &str) -> Option<u32> {
        let keys = &mut self.speculation_keys;
        let at = keys.iter().position(|known| known == name).unwrap_or(keys.len());
        if at == keys.len() {
            keys.push(name.to_owned());
        }
        u32::try_from(at).ok().filter(|at| *at < tracer::KINDS_MAX)
    }

    /// Flags are words of the memory that the session shares with its processes from now on, as they are on the
    /// kernel's side.
    pub fn share_flags(&mut self) {
        self.flags_are_shared = true;
    }

    /// Whether flags are in shared memory.
    pub fn flags_are_shared(&self) -> bool {
        self.flags_are_shared
    }

    /// Adds a map of a program that clang compiled; it is not shown.
    pub fn add_state(&mut self, name: &str, shape: MapShape, initial: Vec<u8>) {
        self.entries.push(Entry { name: name.to_owned(), shape, initial, meaning: Meaning::State });
    }

    /// The map that is exactly so, made when it is not there: programs of several events share it.
    pub(crate) fn shared(&mut self, entry: Entry) -> u32 {
        let at = self.entries.iter().position(|known| *known == entry);
        at.unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() - 1
        }) as u32
    }

    /// Forgets all but the first `len` maps: of a program that did not come to be.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
    }
}

impl Entry {
    /// A map of counts.
    pub(crate) fn count(name: &str, keys: Vec<Key>) -> Entry {
        let shape = if keys.is_empty() { one_value(8) } else { hash(&keys, 0, COUNTS_MAX) };
        Entry { name: name.to_owned(), shape, initial: Vec::new(), meaning: Meaning::Count { keys } }
    }

    /// A map of histograms.
    pub(crate) fn histogram(name: &str, value: Key, keys: Vec<Key>) -> Entry {
        let shape = if keys.is_empty() { one_value(PLACES * 8) } else { hash(&keys, 8, HISTOGRAMS_MAX) };
        let meaning = Meaning::Histogram { value, keys };
        Entry { name: name.to_owned(), shape, initial: Vec::new(), meaning }
    }

    /// A map of the last events; entry 0 is the counter.
    pub(crate) fn last(name: &str, entries: u32, fields: Vec<Key>) -> Entry {
        let value_bytes = 8 + bytes(&fields);
        let shape = MapShape {
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes,
            entries: entries + 1,
            read_only: false,
        };
        Entry { name: name.to_owned(), shape, initial: Vec::new(), meaning: Meaning::Last { fields } }
    }

    /// The map of a flag.
    pub(crate) fn flag(name: &str) -> Entry {
        let (initial, meaning) = (Vec::new(), Meaning::Flag);
        Entry { name: name.to_owned(), shape: one_value(8), initial, meaning }
    }

    /// The memory that the session shares with its processes.
    pub(crate) fn shared() -> Entry {
        let (initial, meaning) = (Vec::new(), Meaning::Shared);
        Entry { name: "shared".to_owned(), shape: one_value(SHARED_BYTES as u32), initial, meaning }
    }

    /// The words of that memory, as programs of traced processes see them.
    pub(crate) fn shared_words() -> Entry {
        let (initial, meaning) = (Vec::new(), Meaning::Shared);
        let shape = one_value(SHARED_WORDS * 8);
        Entry { name: "shared words".to_owned(), shape, initial, meaning }
    }

    /// The areas of processes.
    pub(crate) fn areas() -> Entry {
        let (initial, meaning) = (Vec::new(), Meaning::Areas);
        let shape = MapShape {
            kind: MapKind::Array,
            key_bytes: 4,
            value_bytes: 4,
            entries: AREAS_MAX,
            read_only: false,
        };
        Entry { name: "areas".to_owned(), shape, initial, meaning }
    }

    /// What did not fit into the other maps.
    pub(crate) fn dropped() -> Entry {
        let (initial, meaning) = (Vec::new(), Meaning::Dropped);
        Entry { name: "dropped".to_owned(), shape: one_value(DROPPED_BYTES), initial, meaning }
    }

    /// Counters and the like of one program.
    pub(crate) fn state(name: &str, value_bytes: u32) -> Entry {
        let (initial, meaning) = (Vec::new(), Meaning::State);
        Entry { name: name.to_owned(), shape: one_value(value_bytes), initial, meaning }
    }

    /// What is kept for each thread.
    pub(crate) fn threads(name: &str, value_bytes: u32) -> Entry {
        let shape = MapShape {
            kind: MapKind::LruHash,
            key_bytes: 8,
            value_bytes,
            entries: THREADS_MAX,
            read_only: false,
        };
        Entry { name: name.to_owned(), shape, initial: Vec::new(), meaning: Meaning::State }
    }

    /// What is kept for each thread and event: the event's number is behind the thread in the key.
    pub(crate) fn threads_of_events(name: &str, value_bytes: u32) -> Entry {
        let mut entry = Entry::threads(name, value_bytes);
        entry.shape.key_bytes = 16;
        entry.shape.entries = THREADS_OF_EVENTS_MAX;
        entry
    }

    /// Strings that programs compare with.
    pub(crate) fn constants(bytes: Vec<u8>) -> Entry {
        let shape = MapShape { read_only: true, ..one_value(bytes.len() as u32) };
        Entry { name: "constants".to_owned(), shape, initial: bytes, meaning: Meaning::Constants }
    }
}

/// Bytes of all parts of a key.
pub(crate) fn bytes(keys: &[Key]) -> u32 {
    keys.iter().map(|key| key.ty.bytes()).sum()
}

fn one_value(value_bytes: u32) -> MapShape {
    MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes, entries: 1, read_only: false }
}

fn hash(keys: &[Key], more: u32, entries: u32) -> MapShape {
    let key_bytes = bytes(keys) + more;
    MapShape { kind: MapKind::Hash, key_bytes, value_bytes: 8, entries, read_only: false }
}

/// The number of a name in a list, to which it is added if it is new.
fn number_in(list: &mut Vec<String>, name: &str) -> u64 {
    let at = list.iter().position(|known| known == name);
    at.unwrap_or_else(|| {
        list.push(name.to_owned());
        list.len() - 1
    }) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_order_without_gaps() {
        let mut next = -i128::from(u64::MAX);
        for place in 0..u64::from(PLACES) {
            let (first, last) = bucket_value(place);
            // Bucket 0 is there twice: 0 is never counted as negative.
            if place != u64::from(BUCKETS) {
                assert_eq!(first, next, "{place}");
            }
            assert!(last >= first);
            next = last + 1;
        }
        assert_eq!(next, 1 << 64);
        assert_eq!(bucket_value(u64::MAX), bucket_value(u64::from(PLACES) - 1));
    }

    #[test]
    fn equal_maps_are_one() {
        let mut maps = Maps::new();
        let flag = maps.shared(Entry::flag("busy"));
        assert_eq!(maps.shared(Entry::flag("busy")), flag);
        assert_ne!(maps.shared(Entry::flag("idle")), flag);
        assert!(maps.shapes().iter().all(MapShape::is_sound));
    }
}
