//! Metadata of either version to a [`TraceClass`].
//!
//! `packets` takes the text of CTF 1.8 metadata out of its packets, `tsdl` parses that text, `json`
//! the fragments of CTF 2.

pub(crate) mod json;
mod packets;
pub(crate) mod roles;
mod tsdl;

use crate::error::{MetadataError, MetadataFault};
use crate::model::TraceClass;

/// Most field classes in the metadata of one trace, all uses of named types counted.
pub(crate) const MAX_CLASSES: usize = 1 << 20;

/// Parses metadata: CTF 1.8 text, CTF 1.8 metadata packets, or CTF 2 JSON fragments; tells them apart itself.
///
/// # Errors
/// The first fault, with its line in the metadata's text.
pub fn metadata(bytes: &[u8]) -> Result<TraceClass, MetadataError> {
    let text = packets::text(bytes)?;
    let text = std::str::from_utf8(&text).map_err(|e| not_text(&text, e.valid_up_to()))?;
    match text.trim_start().bytes().next() {
        None => Err(MetadataError::nowhere(MetadataFault::Empty)),
        Some(b'{' | json::RECORD_SEPARATOR) => json::parse(text),
        Some(_) => tsdl::parse(text),
    }
}

/// The fault of metadata that is not UTF-8, or not metadata at all.
fn not_text(bytes: &[u8], at: usize) -> MetadataError {
    let kind = if at < 16 { MetadataFault::NotMetadata } else { MetadataFault::NotText };
    place(&String::from_utf8_lossy(bytes.get(..at).unwrap_or(bytes)), at, kind)
}

/// The fault at byte `at` of `text`, with its line and column.
pub(crate) fn place(text: &str, at: usize, kind: MetadataFault) -> MetadataError {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |i| i + 1) + 1;
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    MetadataError { kind, line: narrow(line), column: narrow(column) }
}
