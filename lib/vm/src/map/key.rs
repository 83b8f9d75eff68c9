//! Keys as whole words, and their hash.
//!
//! The hash is the same in all processes and versions that share a map: it is part of the memory's format.

use mote_bpf::map::KEY_MAX;

/// Words of the longest key.
pub(crate) const KEY_WORDS: usize = KEY_MAX as usize / 8;

/// A key, filled up with zeros, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    words: &'a [u64],
    hash: u64,
}

impl<'a> Key<'a> {
    /// From its words.
    #[inline(always)]
    pub(crate) fn new(words: &'a [u64]) -> Key<'a> {
        Key { words, hash: hash(words) }
    }

    /// The key's words of 64 bits.
    #[inline(always)]
    pub(crate) fn words(&self) -> &'a [u64] {
        self.words
    }

    /// The hash of the words, by which the chain is chosen.
    #[inline(always)]
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// What a node keeps of the hash; bit 0 is for the LRU, for which a new entry was not used yet: so those that come
    /// and are never used again go first.
    pub(crate) fn mark(&self) -> u64 {
        self.hash & !USED
    }
}

/// Bit of a node's mark: the entry was used since the clock's hand passed.
pub(crate) const USED: u64 = 1;

/// Bytes as words, filled up with zeros.
pub(crate) fn pack(bytes: &[u8], into: &mut [u64]) {
    into.fill(0);
    for (word, chunk) in into.iter_mut().zip(bytes.chunks(8)) {
        *word = self::word(chunk);
    }
}

/// Up to 8 bytes as a word, filled up with zeros.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(all)
}

const K0: u64 = 0x9e37_79b9_7f4a_7c15;
const K1: u64 = 0xd6e8_feb8_6659_fd93;

/// One multiplication of 64 by 64 bits for two words, upper half and lower half folded, as in wyhash.
#[inline(always)]
fn hash(words: &[u64]) -> u64 {
    words.chunks(2).fold(K0, |hash, pair| match *pair {
        [a, b] => fold(hash ^ a, K1 ^ b),
        [a] => fold(hash ^ a, K1),
        _ => hash,
    })
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
