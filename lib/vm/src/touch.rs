//! Reads of memory that may not be there, in pieces that text helpers and maps want.
//!
//! Built on the loads of [`fault`](crate::fault), which return a fault where other code would be killed.

use crate::Fault;
use crate::fault::{load_u8, load_u16, load_u32, load_u64};

/// The next word of something of which `left` bytes are left: 8 of them, or all, filled up with zeros.
///
/// # Safety
/// Reads up to 8 of the `left` bytes at `at`, wherever that is.
///
/// # Errors
/// A fault, when they cannot be read.
#[inline(always)]
pub(crate) unsafe fn word(at: u64, left: usize) -> Result<u64, Fault> {
    if left >= 8 {
        // SAFETY: the caller's promise.
        return unsafe { load_u64(at) };
    }
    // SAFETY: the caller's promise.
    unsafe { part(at, left) }
}

/// The last up to 7 bytes of something.
///
/// # Safety
/// Reads `left` bytes (at most 7) at `at`.
///
/// # Errors
/// A fault, when they cannot be read.
#[inline]
pub(crate) unsafe fn part(at: u64, left: usize) -> Result<u64, Fault> {
    if left >= 4 {
        let last = left as u64 - 4;
        // SAFETY: the caller's promise.
        let low = unsafe { load_u32(at) }?;
        // SAFETY: the last four of them.
        let high = unsafe { load_u32(at.wrapping_add(last)) }?;
        return Ok(u64::from(low) | u64::from(high) << (last * 8));
    }
    if left >= 2 {
        let last = left as u64 - 2;
        // SAFETY: the caller's promise.
        let low = unsafe { load_u16(at) }?;
        // SAFETY: the last two of them.
        let high = unsafe { load_u16(at.wrapping_add(last)) }?;
        return Ok(u64::from(low) | u64::from(high) << (last * 8));
    }
    if left == 0 {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    unsafe { load_u8(at) }.map(u64::from)
}
