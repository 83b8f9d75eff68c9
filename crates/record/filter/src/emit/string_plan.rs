//! How a string is compared with constants: which words of it are read, and what needs a helper.

use crate::string_pattern::StringPattern;
use mote_bpf::op::Size;

/// Longest string that is compared word by word.
pub(super) const WORDS_BYTES_MAX: usize = 256;

/// How a pattern is looked for when words do not do.
pub(super) enum Search<'p> {
    /// These bytes are somewhere, behind the first part.
    Find(&'p [u8]),
    /// All of the pattern.
    Glob,
}

/// What a pattern needs a helper for; `None`: words do.
pub(super) fn search(pattern: &StringPattern) -> Option<Search<'_>> {
    match pattern.parts() {
        [only] if only.len() <= WORDS_BYTES_MAX => None,
        [first, last] if first.len().max(last.len()) <= WORDS_BYTES_MAX => None,
        [first, middle, last] if last.is_empty() && first.len() <= WORDS_BYTES_MAX => {
            Some(Search::Find(middle))
        }
        _ => Some(Search::Glob),
    }
}

/// The bytes that the helper is given, for a pattern that needs one.
pub(super) fn helper_constant(pattern: &StringPattern) -> Option<Vec<u8>> {
    Some(match search(pattern)? {
        Search::Find(needle) => needle.to_vec(),
        Search::Glob => pattern.to_helper(),
    })
}

/// How `len` bytes are read: offset and size of each word; the last one may overlap the one before.
pub(super) fn words(len: usize) -> Vec<(usize, Size)> {
    let mut out: Vec<_> = (0..len / 8).map(|at| (at * 8, Size::DW)).collect();
    let done = len / 8 * 8;
    match len - done {
        0 => {}
        1 => out.push((done, Size::B)),
        2 => out.push((done, Size::H)),
        4 => out.push((done, Size::W)),
        3 if len > 8 => out.push((len - 4, Size::W)),
        3 => out.extend([(0, Size::H), (1, Size::H)]),
        _ if len > 8 => out.push((len - 8, Size::DW)),
        _ => out.extend([(0, Size::W), (len - 4, Size::W)]),
    }
    out
}

/// The bytes at `at` as a number.
pub(super) fn word_of(bytes: &[u8], at: usize, size: Size) -> u64 {
    let bytes = bytes.get(at..).unwrap_or_default();
    bytes.iter().take(size.bytes()).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
