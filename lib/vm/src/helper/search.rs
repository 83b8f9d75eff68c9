//! Finding a piece of up to 64 bytes in a text, in linear time whatever the bytes are.
//!
//! Shift-And (Baeza-Yates and Gonnet 1992, "A new approach to text searching"): bit `i` of the state says that the last
//! `i + 1` bytes of the text are the first `i + 1` of the piece. While the state is empty, whole words without the
//! piece's first byte are skipped. Which places of the piece hold a byte is compared in words, so that nothing must be
//! prepared.
//!
//! A piece that is longer is found by its first 64 bytes; at each of these places the rest is compared.

use super::text::{first_zero, length, span, splat};
use crate::entry::Returned;
use crate::fault::{Fault, load_u8};
use crate::touch::word;

/// Bytes that the state has bits for.
pub(super) const PIECE_MAX: usize = 64;

/// A piece of a pattern: bytes, some of which may be any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    bytes: [u64; PIECE_MAX / 8],
    any: u64,
    count: usize,
}

impl Piece {
    /// An empty one.
    pub(super) const fn new() -> Piece {
        Piece { bytes: [0; PIECE_MAX / 8], any: 0, count: 0 }
    }

    /// Appends a byte, or any byte; more than [`PIECE_MAX`] are forgotten.
    pub(super) fn push(&mut self, byte: Option<u8>) {
        let Some(word) = self.bytes.get_mut(self.count / 8) else { return };
        match byte {
            Some(byte) => *word |= u64::from(byte) << (self.count % 8 * 8),
            None => self.any |= 1 << self.count,
        }
        self.count += 1;
    }

    /// Its first byte, if that is not any.
    fn first(&self) -> Option<u8> {
        (self.any & 1 == 0).then_some(self.bytes[0] as u8)
    }

    /// The places that match a byte, as bits.
    #[inline(always)]
    fn places(&self, byte: u8) -> u64 {
        let splat = splat(byte);
        let words = self.bytes.iter().take(self.count.div_ceil(8));
        words.enumerate().fold(self.any, |places, (i, word)| places | equal_bytes(word ^ splat) << (i * 8))
    }

    /// Where it begins for the first time in the text, from `from` on.
    ///
    /// # Safety
    /// The text is as the verifier says; what is not there is a fault.
    pub(super) unsafe fn find(&self, text: &Text, mut from: usize) -> Result<Option<usize>, Fault> {
        let Some(last) = self.count.checked_sub(1) else { return Ok((from <= text.len).then_some(from)) };
        let mut state = 0u64;
        while from < text.len {
            if let (0, Some(first)) = (state, self.first()) {
                // SAFETY: the caller's promise.
                let Some(place) = (unsafe { text.find_byte(first, from) })? else { return Ok(None) };
                from = place;
            }
            // SAFETY: the caller's promise.
            state = (state << 1 | 1) & self.places(unsafe { text.byte(from) }?);
            if state >> last & 1 != 0 {
                return Ok(Some(from - last));
            }
            from += 1;
        }
        Ok(None)
    }
}

/// The bytes of a word that are zero, as 8 bits.
#[inline(always)]
fn equal_bytes(word: u64) -> u64 {
    const LOWS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zeros = !((word & LOWS).wrapping_add(LOWS) | word | LOWS);
    (zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// A text, or another row of bytes without NUL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    start: u64,
    /// Bytes of it.
    pub(super) len: usize,
}

impl Text {
    /// The text at `start`, of at most so many bytes.
    ///
    /// # Safety
    /// As [`Piece::find`].
    pub(super) unsafe fn new(start: u64, most: usize) -> Result<Text, Fault> {
        // SAFETY: the caller's promise.
        Ok(Text { start, len: unsafe { length(start, most) }? })
    }

    /// # Safety
    /// As [`Piece::find`].
    #[inline(always)]
    pub(super) unsafe fn byte(&self, at: usize) -> Result<u8, Fault> {
        // SAFETY: the caller's promise.
        unsafe { load_u8(self.start.wrapping_add(at as u64)) }
    }

    /// Where a byte other than NUL is for the first time, from `from` on.
    ///
    /// # Safety
    /// As [`Piece::find`].
    unsafe fn find_byte(&self, byte: u8, mut from: usize) -> Result<Option<usize>, Fault> {
        let splat = splat(byte);
        while from < self.len {
            let left = self.len - from;
            // SAFETY: the caller's promise.
            let place =
                first_zero(unsafe { word(self.start.wrapping_add(from as u64), left) }? ^ splat) as usize;
            // In a byte of zeros behind the end it is only if the text changed meanwhile.
            if place < 8 {
                return Ok((place < left).then_some(from + place));
            }
            from += 8;
        }
        Ok(None)
    }
}

pub(super) unsafe extern "C" fn text_find(start: u64, end: u64, needle: u64, size: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a text of the context, and so many readable bytes.
    let found = unsafe { find(start, span(start, end), needle, size as usize) };
    found.map(|place| place.map_or(u64::MAX, |place| place as u64)).into()
}

/// # Safety
/// As [`Piece::find`], both.
unsafe fn find(start: u64, most: usize, needle: u64, size: usize) -> Result<Option<usize>, Fault> {
    // SAFETY: the caller's promise.
    let needle = unsafe { Text::new(needle, size) }?;
    // SAFETY: the caller's promise.
    let text = unsafe { Text::new(start, most) }?;
    let mut piece = Piece::new();
    for at in 0..needle.len.min(PIECE_MAX) {
        // SAFETY: the caller's promise.
        piece.push(Some(unsafe { needle.byte(at) }?));
    }
    let mut from = 0;
    loop {
        // SAFETY: the caller's promise.
        let Some(place) = (unsafe { piece.find(&text, from) })? else { return Ok(None) };
        if place + needle.len > text.len {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        if unsafe { rest_is(&text, place, &needle) }? {
            return Ok(Some(place));
        }
        from = place + 1;
    }
}

/// Whether what is behind the needle's first 64 bytes is there, too.
///
/// # Safety
/// As [`Piece::find`], both.
unsafe fn rest_is(text: &Text, place: usize, needle: &Text) -> Result<bool, Fault> {
    for at in PIECE_MAX..needle.len {
        // SAFETY: the caller's promise.
        let byte = unsafe { needle.byte(at) }?;
        // SAFETY: the caller's promise.
        if unsafe { text.byte(place + at) }? != byte {
            return Ok(false);
        }
    }
    Ok(true)
}
