//! Metadata of either version to a [`TraceClass`].
//!
//! `packets` takes the text of CTF 1.8 metadata out of its packets, `tsdl` parses that text, `json`
//! the fragments of CTF 2; `parsed` is what both end with.

pub(crate) mod json;
mod packets;
mod parsed;
pub(crate) mod roles;
mod tsdl;

pub(crate) use parsed::{ClassPlaces, Metadata, Oddities, Part, max_classes, place};

use crate::error::{MetadataError, MetadataFault, MetadataWarning, Oddity};
use crate::model::TraceClass;
use parsed::line_and_column;

/// Parses metadata: CTF 1.8 text, CTF 1.8 metadata packets, or CTF 2 JSON fragments; tells them apart itself.
///
/// # Errors
/// The first fault, with its line in the metadata's text. [`crate::Schema::parse`] finds more of them.
pub fn metadata(bytes: &[u8]) -> Result<TraceClass, MetadataError> {
    let found = packets::text(bytes)?;
    Ok(parse(&found)?.trace)
}

/// Parses metadata and gives it to `compile`, whose faults get the place of their part.
pub(crate) fn compiled<T>(
    bytes: &[u8],
    compile: impl FnOnce(TraceClass) -> Result<T, (MetadataFault, Part)>,
) -> Result<(T, Vec<MetadataWarning>), MetadataError> {
    let found = packets::text(bytes)?;
    let Metadata { trace, oddities, places } = parse(&found)?;
    let text = std::str::from_utf8(&found.text).unwrap_or("");
    let compiled = compile(trace).map_err(|(kind, part)| place(text, places.of(part), kind))?;
    let warnings = oddities.0.into_iter().map(|(kind, at)| {
        let (line, column) = line_and_column(text, at);
        MetadataWarning { kind, line, column }
    });
    Ok((compiled, warnings.collect()))
}

fn parse(found: &packets::Found<'_>) -> Result<Metadata, MetadataError> {
    let text = std::str::from_utf8(&found.text).map_err(|e| not_text(&found.text, e.valid_up_to()))?;
    match text.trim_start().bytes().next() {
        None => Err(place(text, 0, MetadataFault::Empty)),
        Some(b'{' | json::RECORD_SEPARATOR) => json::parse(text),
        Some(_) => {
            let mut metadata = tsdl::parse(text)?;
            if found.order.is_some_and(|order| order != metadata.trace.byte_order) {
                metadata.oddities.note(0, Oddity::PacketByteOrder);
            }
            Ok(metadata)
        }
    }
}

/// The fault of metadata that is not UTF-8, or not metadata at all.
fn not_text(bytes: &[u8], at: usize) -> MetadataError {
    let kind = if at < 16 { MetadataFault::NotMetadata } else { MetadataFault::NotText };
    place(&String::from_utf8_lossy(bytes.get(..at).unwrap_or(bytes)), at, kind)
}
