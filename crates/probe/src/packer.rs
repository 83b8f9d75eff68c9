//! Puts the fields of a small event behind one another, without gaps, in whole 8-byte words.
//!
//! The bytes are gathered in a register and stored a word at a time, because the writer's copy into the ring loads words: a
//! load of bytes that several narrower stores have left waits until all of them are in the cache (bench `event_cost`,
//! case `nine_strings`: 33 ns so, by byte stores; see ARCHITECTURE.md).

/// Where the next field goes.
#[derive(Debug)]
pub struct Packer {
    /// The word that is being filled.
    to: *mut u64,
    /// What is in it; zeros above.
    word: u64,
    /// How much of it is used, in bits: 0 to 56.
    used: u32,
}

impl Packer {
    /// Begins at `to`.
    ///
    /// # Safety
    /// All that is put must fit into the memory from `to` on, with one whole word behind it.
    #[inline(always)]
    pub(crate) unsafe fn new(to: *mut u64) -> Packer {
        Packer { to, word: 0, used: 0 }
    }

    /// Bytes from `start`, where this packer began.
    #[inline(always)]
    pub(crate) fn len_from(&self, start: *const u64) -> usize {
        self.to.addr() - start.addr() + self.used as usize / 8
    }

    /// Adds the lowest `bytes` (1 to 8) bytes of `value`; the others must be 0.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: u64, bytes: usize) {
        debug_assert!((1..=8).contains(&bytes) && (bytes == 8 || value >> (8 * bytes) == 0));
        let word = self.word | value << self.used;
        // SAFETY: the promise to `new`: the word holds bytes of this field.
        unsafe { self.to.write(word) };
        let over = value >> 1 >> (63 - self.used);
        let used = self.used + 8 * bytes as u32;
        let full = used >> 6;
        self.word = if full == 0 { word } else { over };
        self.to = self.to.wrapping_add(full as usize);
        self.used = used & 63;
    }

    /// Adds bytes.
    #[inline(always)]
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.put(u64::from_le_bytes(*word), 8);
        }
        if !rest.is_empty() {
            self.put(small(rest), rest.len());
        }
    }

    /// Adds a text and its NUL.
    #[cold]
    pub(crate) fn put_text(&mut self, text: &[u8]) {
        self.put_bytes(text);
        self.put(0, 1);
    }

    /// Stores the word that is not full.
    #[inline(always)]
    pub(crate) fn finish(&self) {
        // SAFETY: the promise to `new`: this is the word behind the last full one.
        unsafe { self.to.write(self.word) };
    }
}

/// Fewer than 8 bytes as a number, zeros above, by loads that may overlap.
#[inline(always)]
pub(crate) fn small(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    debug_assert!(len < 8);
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        half(low) | half(high) << (8 * (len - 4))
    } else if let (Some(first), Some(middle), Some(last)) = (bytes.first(), bytes.get(len / 2), bytes.last()) {
        u64::from(*first) | u64::from(*middle) << (8 * (len / 2)) | u64::from(*last) << (8 * (len - 1))
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn packed(fields: &[&[u8]]) -> Vec<u8> {
        let mut words = [!0u64; 40];
        let start = words.as_mut_ptr();
        // SAFETY: the fields of the tests are shorter than the memory.
        let mut packer = unsafe { Packer::new(start) };
        fields.iter().for_each(|field| packer.put_bytes(field));
        packer.finish();
        let len = packer.len_from(start);
        words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect()
    }

    #[test]
    fn bytes_of_every_length_follow_one_another_at_every_place() {
        let source: Vec<u8> = (1..=40).collect();
        for first in 0..18 {
            for second in 0..18 {
                let fields = [&source[..first], &source[20..20 + second], &source[3..4]];
                assert_eq!(packed(&fields), fields.concat(), "{first} and {second} bytes");
            }
        }
    }

    #[test]
    fn few_bytes_are_a_number() {
        for len in 0..8 {
            let bytes = &[1u8, 2, 3, 4, 5, 6, 7][..len];
            let expect = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            assert_eq!(small(bytes), expect);
        }
    }
}
