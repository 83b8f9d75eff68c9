//! Helpers for texts of the context: compare, copy, hash. Eight bytes at a time.
//!
//! A text begins at its `Start` and ends at its `End` or its first NUL, whichever comes first. Nothing outside of that
//! range is read. Another thread may change the text meanwhile; then the result is that of some mixture.

use super::process::mix;
use crate::entry::Returned;
use crate::fault::{Fault, load_u8, store_u8, store_u64};
use crate::touch::word;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Each byte the same.
pub(super) const fn splat(byte: u8) -> u64 {
    ONES * byte as u64
}

/// Place of the first zero byte; 8 when there is none.
#[inline(always)]
pub(super) fn first_zero(word: u64) -> u32 {
    (word.wrapping_sub(ONES) & !word & HIGHS).trailing_zeros() / 8
}

/// Bytes from `start` to `end`.
#[inline(always)]
pub(super) fn span(start: u64, end: u64) -> usize {
    end.saturating_sub(start) as usize
}

/// Less, equal or greater, as -1, 0 or 1.
#[inline(always)]
fn sign(order: core::cmp::Ordering) -> u64 {
    order as i64 as u64
}

/// Compares two texts of so many bytes at most.
///
/// # Safety
/// Both are as the verifier says; what is not there is a fault.
#[inline(always)]
unsafe fn compare(a: u64, a_len: usize, b: u64, b_len: usize) -> Result<u64, Fault> {
    let mut done = 0;
    loop {
        // Behind the end there are zeros, which end a text, too.
        // SAFETY: the caller's promise.
        let left = unsafe { word(a.wrapping_add(done as u64), a_len.saturating_sub(done)) }?;
        // SAFETY: the caller's promise.
        let right = unsafe { word(b.wrapping_add(done as u64), b_len.saturating_sub(done)) }?;
        let nul = first_zero(left);
        let differs = (left ^ right).trailing_zeros() / 8;
        if differs <= nul && differs < 8 {
            let shift = differs * 8;
            return Ok(sign((left >> shift & 0xff).cmp(&(right >> shift & 0xff))));
        }
        if nul < 8 {
            return Ok(0);
        }
        done += 8;
    }
}

pub(super) unsafe extern "C" fn text_compare(start: u64, end: u64, text: u64, size: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a text of the context, and so many readable bytes.
    unsafe { compare(start, span(start, end), text, size as usize) }.into()
}

pub(super) unsafe extern "C" fn text_text_compare(
    a: u64,
    a_end: u64,
    b: u64,
    b_end: u64,
    _: u64,
) -> Returned {
    // SAFETY: the verifier: two texts of the context.
    unsafe { compare(a, span(a, a_end), b, span(b, b_end)) }.into()
}

pub(super) unsafe extern "C" fn memory_compare(a: u64, a_size: u64, b: u64, b_size: u64, _: u64) -> Returned {
    // SAFETY: the verifier: so many readable bytes each.
    unsafe { compare_memory(a, a_size, b, b_size) }.into()
}

/// # Safety
/// As [`compare`].
unsafe fn compare_memory(a: u64, a_size: u64, b: u64, b_size: u64) -> Result<u64, Fault> {
    let both = a_size.min(b_size);
    for done in (0..both).step_by(8) {
        let left_over = (both - done) as usize;
        // SAFETY: the caller's promise.
        let left = unsafe { word(a.wrapping_add(done), left_over) }?;
        // SAFETY: the caller's promise.
        let right = unsafe { word(b.wrapping_add(done), left_over) }?;
        if left != right {
            return Ok(sign(left.swap_bytes().cmp(&right.swap_bytes())));
        }
    }
    Ok(sign(a_size.cmp(&b_size)))
}

pub(super) unsafe extern "C" fn strncmp(text: u64, size: u64, constant: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: so many readable bytes, and a text that ends.
    unsafe { compare_bytes(text, size, constant) }.into()
}

/// Byte by byte: where the constant ends is not known before.
///
/// # Safety
/// As [`compare`]; the constant has a NUL.
unsafe fn compare_bytes(text: u64, size: u64, constant: u64) -> Result<u64, Fault> {
    for done in 0..size {
        // SAFETY: the caller's promise.
        let left = unsafe { load_u8(text.wrapping_add(done)) }?;
        // SAFETY: the caller's promise.
        let right = unsafe { load_u8(constant.wrapping_add(done)) }?;
        if left != right || left == 0 {
            return Ok(sign(left.cmp(&right)));
        }
    }
    Ok(0)
}

/// Bytes of a text: up to `most`, or its first NUL.
///
/// # Safety
/// As [`compare`].
#[inline]
pub(super) unsafe fn length(start: u64, most: usize) -> Result<usize, Fault> {
    let mut done = 0;
    while done < most {
        // SAFETY: the caller's promise.
        let nul = first_zero(unsafe { word(start.wrapping_add(done as u64), most - done) }?);
        if nul < 8 {
            return Ok(most.min(done + nul as usize));
        }
        done += 8;
    }
    Ok(most)
}

/// Bytes of a text before its NUL, wherever that is.
///
/// # Safety
/// As [`compare`]: what is not there is a fault.
pub(crate) unsafe fn until_nul(start: u64) -> Result<usize, Fault> {
    let mut at = start;
    // Aligned words do not reach into a page that the text does not.
    while !at.is_multiple_of(8) {
        // SAFETY: the caller's promise.
        if unsafe { load_u8(at) }? == 0 {
            return Ok(span(start, at));
        }
        at = at.wrapping_add(1);
    }
    loop {
        // SAFETY: the caller's promise; bytes behind the text, but of the same aligned word.
        let nul = first_zero(unsafe { crate::fault::load_u64(at) }?);
        if nul < 8 {
            return Ok(span(start, at) + nul as usize);
        }
        at = at.wrapping_add(8);
    }
}

pub(super) unsafe extern "C" fn text_copy(start: u64, end: u64, buffer: u64, size: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a text of the context, and so many writable bytes.
    unsafe { copy(start, span(start, end), buffer, size as usize) }.into()
}

/// Copies a text, zeros behind; all bytes of the text.
///
/// # Safety
/// As [`compare`]; `size` bytes from `buffer` on are writable.
#[inline(always)]
unsafe fn copy(start: u64, most: usize, buffer: u64, size: usize) -> Result<u64, Fault> {
    let mut done = 0;
    while done < size {
        // SAFETY: the caller's promise.
        let next = unsafe { word(start.wrapping_add(done as u64), most.saturating_sub(done)) }?;
        let nul = first_zero(next);
        if nul < 8 {
            let last = next & ((1 << (nul * 8)) - 1);
            // SAFETY: the caller's promise.
            unsafe { put(buffer.wrapping_add(done as u64), last, size - done) }?;
            // SAFETY: the caller's promise.
            unsafe { clear(buffer, done + 8, size) }?;
            return Ok(most.min(done + nul as usize) as u64);
        }
        // SAFETY: the caller's promise.
        unsafe { put(buffer.wrapping_add(done as u64), next, size - done) }?;
        done += 8;
    }
    // SAFETY: the caller's promise.
    let rest = unsafe { length(start.wrapping_add(done as u64), most.saturating_sub(done)) }?;
    Ok((done + rest) as u64)
}

/// Writes zeros from `from` to `size`.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn clear(buffer: u64, from: usize, size: usize) -> Result<(), Fault> {
    for done in (from..size).step_by(8) {
        // SAFETY: the caller's promise.
        unsafe { put(buffer.wrapping_add(done as u64), 0, size - done) }?;
    }
    Ok(())
}

/// Writes a word, or its first `left` bytes.
///
/// # Safety
/// They are writable.
#[inline(always)]
unsafe fn put(at: u64, value: u64, left: usize) -> Result<(), Fault> {
    if left >= 8 {
        // SAFETY: the caller's promise.
        return unsafe { store_u64(at, value) };
    }
    for i in 0..left as u64 {
        // SAFETY: the caller's promise.
        unsafe { store_u8(at.wrapping_add(i), (value >> (i * 8)) as u8) }?;
    }
    Ok(())
}

pub(super) unsafe extern "C" fn text_hash(start: u64, end: u64, _: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a text of the context.
    unsafe { hash(start, span(start, end)) }.into()
}

/// FNV-1a of the text's bytes, and a final mix.
///
/// # Safety
/// As [`compare`].
unsafe fn hash(start: u64, most: usize) -> Result<u64, Fault> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for done in (0..most).step_by(8) {
        let left = most - done;
        // SAFETY: the caller's promise.
        let word = unsafe { word(start.wrapping_add(done as u64), left) }?;
        let count = left.min(first_zero(word) as usize);
        for byte in word.to_le_bytes().into_iter().take(count) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if count < 8 {
            break;
        }
    }
    Ok(mix(hash))
}
