//! Where things lie in a map's memory, in words of 8 bytes. All of it follows from the shape, which is the caller's
//! own.
//!
//! | words | what |
//! |---|---|
//! | 0 to 2 | the shape, as [`shape_words`] says; for tools that look at the memory |
//! | [`DROPPED`] | what did not fit |
//! | [`FREE`], [`FRESH`] | of hashes: head of the free list; nodes that were ever taken |
//! | [`HAND`] | of LRU hashes: where the clock's hand stands |
//! | [`PRODUCED`], [`CONSUMED`] | of ring buffers: bytes, ever |
//! | from [`HEADER`] on | values; or heads of chains, then nodes; or records |

use mote_bpf::{MapKind, MapShape};

/// Count of what did not fit.
pub(crate) const DROPPED: usize = 8;
/// Head of the free list.
pub(crate) const FREE: usize = 16;
/// Nodes that were ever taken.
pub(crate) const FRESH: usize = 17;
/// The clock's hand.
pub(crate) const HAND: usize = 24;
/// Bytes that were ever reserved in a ring buffer.
pub(crate) const PRODUCED: usize = 16;
/// Bytes that its consumer is done with.
pub(crate) const CONSUMED: usize = 24;
/// Words before the contents.
pub(crate) const HEADER: usize = 32;

/// Copies of a per-CPU array. A CPU uses the one of its number modulo this.
pub const COPIES: u32 = 64;

/// The first three words of a map of this shape. Neither of them is 0 in the first.
pub(crate) fn shape_words(shape: &MapShape) -> [u64; 3] {
    const MAGIC: u64 = 0x6d6f_7465 << 32; // "mote"
    [
        MAGIC | (shape.read_only as u64) << 8 | shape.kind as u64,
        u64::from(shape.key_bytes) << 32 | u64::from(shape.value_bytes),
        u64::from(shape.entries),
    ]
}

/// Words that hold so many bytes.
pub(crate) const fn words(bytes: u32) -> usize {
    bytes.div_ceil(8) as usize
}

/// Where the values of an array lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayPlace {
    pub(crate) entries: usize,
    pub(crate) value_words: usize,
    /// From a copy to the next; 0 when there is one only.
    pub(crate) copy_words: usize,
}

impl ArrayPlace {
    fn new(shape: &MapShape) -> ArrayPlace {
        let (entries, value_words) = (shape.entries as usize, words(shape.value_bytes));
        // Copies do not share cache lines.
        let apart = (entries * value_words).next_multiple_of(8);
        let copy_words = if shape.kind == MapKind::PerCpuArray { apart } else { 0 };
        ArrayPlace { entries, value_words, copy_words }
    }

    /// The first word of a value; `None` when there is no such index.
    #[inline(always)]
    pub(crate) fn value(&self, index: u32, copy: u32) -> Option<usize> {
        let index = index as usize;
        let copy = (copy % COPIES) as usize * self.copy_words;
        (index < self.entries).then(|| HEADER + copy + index * self.value_words)
    }

    fn words(&self) -> usize {
        // One more word than the values have: text in a read-only array ends there at the latest.
        let all = if self.copy_words == 0 {
            self.entries * self.value_words
        } else {
            self.copy_words * COPIES as usize
        };
        HEADER + all + 1
    }
}

/// Where the nodes of a hash lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashPlace {
    pub(crate) entries: usize,
    pub(crate) heads: usize,
    pub(crate) heads_at: usize,
    pub(crate) key_words: usize,
    pub(crate) value_words: usize,
    node_words: usize,
    nodes_at: usize,
}

/// Words of a node before its key: the link and the mark.
const NODE_HEAD: usize = 2;

impl HashPlace {
    pub(crate) fn new(shape: &MapShape) -> HashPlace {
        let entries = shape.entries as usize;
        let heads = entries.next_power_of_two().max(8);
        let (key_words, value_words) = (words(shape.key_bytes), words(shape.value_bytes));
        HashPlace {
            entries,
            heads,
            heads_at: HEADER,
            key_words,
            value_words,
            node_words: NODE_HEAD + key_words + value_words,
            nodes_at: HEADER + heads,
        }
    }

    /// Head of the chain of a hash.
    #[inline(always)]
    pub(crate) fn head(&self, hash: u64) -> usize {
        self.heads_at + (hash as usize & (self.heads - 1))
    }

    /// A node's link.
    #[inline(always)]
    pub(crate) fn node(&self, node: usize) -> usize {
        self.nodes_at + node * self.node_words
    }

    /// Its hash, and bit 0.
    #[inline(always)]
    pub(crate) fn mark(&self, node: usize) -> usize {
        self.node(node) + 1
    }

    /// Where the key of a node lies.
    #[inline(always)]
    pub(crate) fn key(&self, node: usize) -> usize {
        self.node(node) + NODE_HEAD
    }

    /// Where the value of a node lies.
    #[inline(always)]
    pub(crate) fn value(&self, node: usize) -> usize {
        self.key(node) + self.key_words
    }

    fn words(&self) -> usize {
        self.nodes_at + self.entries * self.node_words
    }
}

/// Where the contents of a map lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// `Array`, `PerCpuArray` and `Programs`.
    Array(ArrayPlace),
    /// `Hash`.
    Hash(HashPlace),
    /// `LruHash`.
    Lru(HashPlace),
    /// `RingBuffer`, of so many bytes.
    Ring(u32),
}

impl Place {
    /// For a sound shape.
    pub(crate) fn new(shape: &MapShape) -> Place {
        match shape.kind {
            MapKind::Array | MapKind::PerCpuArray | MapKind::Programs => Place::Array(ArrayPlace::new(shape)),
            MapKind::Hash => Place::Hash(HashPlace::new(shape)),
            MapKind::LruHash => Place::Lru(HashPlace::new(shape)),
            MapKind::RingBuffer => Place::Ring(shape.entries),
        }
    }

    /// Words of the whole map: a multiple of 8.
    pub(crate) fn words(&self) -> usize {
        let words = match self {
            Place::Array(place) => place.words(),
            Place::Hash(place) | Place::Lru(place) => place.words(),
            Place::Ring(bytes) => HEADER + *bytes as usize / 8,
        };
        words.next_multiple_of(8)
    }
}
