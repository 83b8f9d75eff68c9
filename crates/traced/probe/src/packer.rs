//! Puts the fields of a small event behind one another, without gaps, in whole 8-byte words.
//!
//! The bytes are gathered in a register and stored a word at a time, because the writer's copy into the ring loads
//! words: a load of bytes that several narrower stores have left waits until all of them are in the cache (bench
//! `event_cost`, case `nine_strings`).

use mote_layout::record::FIELDS_MAX;

/// The fields so far. It is handed on by value, so that it stays in registers.
#[derive(Debug)]
#[must_use]
pub struct Packer {
    /// Where they begin.
    start: *mut u64,
    /// Their bytes.
    len: usize,
    /// Those of them that do not fill a word; zeros above.
    word: u64,
}

impl Packer {
    /// Begins at `start`.
    ///
    /// # Safety
    /// All that is put must fit into the memory from `start` on, with one whole word behind it.
    #[inline(always)]
    pub(crate) unsafe fn new(start: *mut u64) -> Packer {
        Packer { start, len: 0, word: 0 }
    }

    /// Adds the lowest `bytes` (1 to 8) bytes of `value`; the others must be 0.
    #[inline(always)]
    pub(crate) fn put(self, value: u64, bytes: usize) -> Packer {
        let used = 8 * (self.len & 7) as u32;
        let word = self.word | value << used;
        self.store(word);
        let len = self.len + bytes;
        let full = (len ^ self.len) & 8 != 0;
        // Behind a full word: what did not fit. Two shifts, because one by 64 is none.
        Packer { len, word: if full { value >> 1 >> (63 - used) } else { word }, ..self }
    }

    /// Stores the word that is being filled.
    #[inline(always)]
    fn store(&self, word: u64) {
        // SAFETY: the promise to `new`: this word holds bytes of a field, or is the one behind the last.
        unsafe { self.start.wrapping_byte_add(self.len & !7).write(word) };
    }

    /// Adds bytes.
    #[inline(always)]
    pub(crate) fn put_bytes(mut self, bytes: &[u8]) -> Packer {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self = self.put(u64::from_le_bytes(*word), 8);
        }
        if rest.is_empty() { self } else { self.put(small(rest), rest.len()) }
    }

    /// Adds the bytes before the first NUL, and a NUL.
    #[inline(always)]
    pub(crate) fn put_text(self, text: &[u8]) -> Packer {
        if text.len() < 8 {
            return self.put_small_text(small(text));
        }
        let start = self.start;
        let (len, word) = self.put_long_text(text);
        Packer { start, len, word }
    }

    /// Adds the bytes of `word` up to and with the first that is 0; there is one.
    #[inline(always)]
    fn put_small_text(self, word: u64) -> Packer {
        const ONES: u64 = 0x0101_0101_0101_0101;
        // The highest bit of each byte that is 0; the lowest such bit is right, others need not be.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        let up_to_nul = zeros ^ zeros.wrapping_sub(1);
        self.put(word & up_to_nul, zeros.trailing_zeros() as usize / 8 + 1)
    }

    /// Adds a text that need not be short. Returns `len` and `word`, two registers.
    #[inline(never)]
    fn put_long_text(mut self, text: &[u8]) -> (usize, u64) {
        let (words, rest) = cut_at_nul(text).as_chunks::<8>();
        for word in words {
            self = self.put(u64::from_le_bytes(*word), 8);
        }
        let end = self.put_small_text(small(rest));
        (end.len, end.word)
    }

    /// Stores the bytes that do not fill a word. Returns how many there are of all fields.
    #[inline(always)]
    pub(crate) fn finish(self) -> usize {
        self.store(self.word);
        self.len
    }
}

/// The bytes before the first NUL.
pub(crate) fn cut_at_nul(text: &[u8]) -> &[u8] {
    // A longer text is lost as too big.
    let text = text.get(..FIELDS_MAX).unwrap_or(text);
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// Fewer than 8 bytes as a number, zeros above, by loads that may overlap.
#[inline(always)]
pub(crate) fn small(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let half = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        half(low) | half(high) << (8 * (len - 4))
    } else if let (Some(low), Some(last)) = (bytes.first_chunk::<2>(), bytes.last()) {
        u64::from(u16::from_le_bytes(*low)) | u64::from(*last) << (8 * (len - 1))
    } else {
        bytes.first().map_or(0, |byte| u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn packed(fields: &[&[u8]], put: impl Fn(Packer, &[u8]) -> Packer) -> Vec<u8> {
        let mut words = [!0u64; 40];
        let start = words.as_mut_ptr();
        // SAFETY: the fields of the tests are shorter than the memory.
        let packer = unsafe { Packer::new(start) };
        let len = fields.iter().fold(packer, |packer, field| put(packer, field)).finish();
        words.iter().flat_map(|word| word.to_le_bytes()).take(len).collect()
    }

    #[test]
    fn bytes_of_every_length_follow_one_another_at_every_place() {
        let source: Vec<u8> = (1..=40).collect();
        for first in 0..18 {
            for second in 0..18 {
                let fields = [&source[..first], &source[20..20 + second], &source[3..4]];
                assert_eq!(packed(&fields, Packer::put_bytes), fields.concat(), "{first} and {second} bytes");
            }
        }
    }

    #[test]
    fn texts_end_at_their_first_nul_and_have_one() {
        let source: Vec<u8> = (0x7e..=0x8e).chain([0xff; 20]).collect();
        for first in 0..18 {
            for len in 0..20 {
                for nul in 0..=len {
                    let mut text = source[..len].to_vec();
                    text.iter_mut().skip(nul).take(1).for_each(|byte| *byte = 0);
                    let expect = [&source[..first], &source[..nul], &[0, 5]].concat();
                    let put = |packer: Packer, field: &[u8]| match field {
                        [0xee, text @ ..] => packer.put_text(text),
                        bytes => packer.put_bytes(bytes),
                    };
                    let text = [&[0xee], &text[..]].concat();
                    assert_eq!(packed(&[&source[..first], &text, &[5]], put), expect, "{first} {len} {nul}");
                }
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
