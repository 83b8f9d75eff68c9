//! Where a PSB is (SDM 3C, 33.3.7 and 33.4.2.17): its 16 bytes are 02 82 eight times, which no other packets give.
//!
//! A trace that lost bytes may have more than eight of these pairs in succession, where a PSB was cut off and another
//! one followed. What follows the pairs is in step with the last of them: so the last 16 bytes of such a *run* are its
//! PSB.

use std::ops::Range;

/// Bytes of a PSB.
pub(super) const LENGTH: usize = 16;

/// Its bytes.
pub(super) const BYTES: [u8; LENGTH] =
    [2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82];

const PAIR: [u8; 2] = [2, 0x82];
/// Any 8 bytes of a PSB are one of these.
const INNER: [u64; 2] = [0x8202_8202_8202_8202, 0x0282_0282_0282_0282];

/// Where the first PSB begins of those that begin at `from` or behind it. Linear.
pub(super) fn forward(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = word(bytes, at) {
        if !INNER.contains(&word) {
            at += 8;
            continue;
        }
        // The pairs that go on here, and those before them that this search has passed without noticing.
        let run = run(bytes, at);
        let begin = run.start.max(from);
        // Where a search begins between the bytes of a pair.
        let begin = begin + (run.end - begin) % 2;
        if run.end - begin >= LENGTH {
            return Some(run.end - LENGTH);
        }
        at = run.end;
    }
    None
}

/// Where the last PSB begins of those that begin before `until`. Linear.
pub(super) fn backward(bytes: &[u8], until: usize) -> Option<usize> {
    let mut limit = bytes.len().min(until.saturating_add(LENGTH - 1));
    while let Some(at) = limit.checked_sub(8) {
        if !word(bytes, at).is_some_and(|word| INNER.contains(&word)) {
            limit = at;
            continue;
        }
        let run = run(bytes, at);
        match run.end.checked_sub(LENGTH) {
            Some(begin) if begin >= run.start && begin < until => return Some(begin),
            _ => limit = run.start,
        }
    }
    None
}

/// Where the pairs end that begin at `at`.
pub(super) fn run_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + 2 * rest.chunks_exact(2).take_while(|pair| **pair == PAIR).count()
}

/// All pairs around the 8 bytes at `at`, which are one of [`INNER`].
fn run(bytes: &[u8], at: usize) -> Range<usize> {
    let first = at + usize::from(bytes.get(at) != Some(&PAIR[0]));
    let before = bytes.get(..first).unwrap_or_default();
    let pairs = before.rchunks_exact(2).take_while(|pair| **pair == PAIR).count();
    first - 2 * pairs..run_end(bytes, first)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}
