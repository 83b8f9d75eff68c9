//! The bytes of a torture record.
//!
//! ```text
//! tag       below LEN_MAX: the payload's length; above: no payload, low 14 bits are bits 18..32 of the sequence
//! thread    stream << 18 | bits 0..18 of the sequence
//! payload   up to 8 bytes of the sequence from bit 18 on, then bytes that follow from stream, sequence and length
//! ```
//! So a record of any length says its writer, its number among the writer's, and its length, and each further byte is a
//! checksum of these.

use mote_layout::record::{PREFIX_BYTES, split};

/// Longest payload.
pub const LEN_MAX: usize = 0xbfff;
/// Streams are numbered below this.
pub const STREAMS: usize = 1 << 14;
const LOW_BITS: u32 = 18;
const EMPTY: u16 = 0xc000;

/// A record as the reader has found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub stream: usize,
    pub sequence: u64,
    /// The low 48 bits.
    pub time: u64,
    /// Bytes, with the prefix.
    pub bytes: usize,
}

/// The word that stands in the place of the thread id.
pub fn thread(stream: usize, sequence: u64) -> u32 {
    (stream as u32) << LOW_BITS | (sequence as u32 & ((1 << LOW_BITS) - 1))
}

/// The tag of a record with a payload of `len` bytes.
pub fn tag(sequence: u64, len: usize) -> u16 {
    match len {
        0 => EMPTY | (sequence >> LOW_BITS) as u16 & !EMPTY,
        _ => len as u16,
    }
}

fn step(stream: usize, sequence: u64, len: usize) -> (u64, u64) {
    let seed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (stream as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
        ^ (len as u64).wrapping_mul(0xca5a_8263_9512_1157);
    (seed ^ seed >> 29, seed.wrapping_mul(0xff51_afd7_ed55_8ccd) | 1)
}

/// Writes a payload of `len` bytes to the start of `words`, and up to 7 bytes more.
pub fn fill(words: &mut [u64], stream: usize, sequence: u64, len: usize) {
    let (mut word, step) = step(stream, sequence, len);
    for (at, to) in words.iter_mut().take(len.div_ceil(8)).enumerate() {
        *to = if at == 0 { sequence >> LOW_BITS } else { word };
        word = word.wrapping_add(step);
    }
}

/// Reads the record at the start of `bytes` and checks all its bytes.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8]) -> Result<Found, &'static str> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Err("a cut prefix") };
    let (header, thread) = prefix.split_at(8);
    let header = u64::from_le_bytes(header.try_into().expect("8 bytes"));
    let thread = u32::from_le_bytes(thread.try_into().expect("4 bytes"));
    let (tag, time) = split(header);
    let stream = (thread >> LOW_BITS) as usize;
    let low = u64::from(thread) & ((1 << LOW_BITS) - 1);
    let len = if tag & EMPTY == EMPTY { 0 } else { usize::from(tag) };
    let Some(payload) = rest.get(..len) else { return Err("a cut payload") };
    let high = match len {
        0 => u64::from(tag & !EMPTY),
        _ => payload.iter().take(8).rev().fold(0, |high, byte| high << 8 | u64::from(*byte)),
    };
    let sequence = high << LOW_BITS | low;
    if len > 8 && !pattern_matches(&payload[8..], stream, sequence, len) {
        return Err("a payload of other bytes");
    }
    Ok(Found { stream, sequence, time, bytes: PREFIX_BYTES + len })
}

fn pattern_matches(rest: &[u8], stream: usize, sequence: u64, len: usize) -> bool {
    let (mut word, step) = step(stream, sequence, len);
    let (words, tail) = rest.as_chunks::<8>();
    for bytes in words {
        word = word.wrapping_add(step);
        if u64::from_le_bytes(*bytes) != word {
            return false;
        }
    }
    word = word.wrapping_add(step);
    *tail == word.to_le_bytes()[..tail.len()]
}

/// The offset at which a record begins, at or before `limit`.
pub fn boundary(bytes: &[u8], limit: usize) -> usize {
    let mut at = 0;
    while let Ok(found) = read(&bytes[at..]) {
        if at + found.bytes > limit {
            break;
        }
        at += found.bytes;
    }
    at
}
