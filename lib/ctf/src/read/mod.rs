//! Metadata of either version to a [`TraceClass`].
//!
//! `packets` takes the text of CTF 1.8 metadata out of its packets, `tsdl` parses that text, `json`
//! the fragments of CTF 2.

pub(crate) mod json;
mod packets;
pub(crate) mod roles;
mod tsdl;

use crate::error::{MAX_WARNINGS, MetadataError, MetadataFault, MetadataWarning, Oddity};
use crate::model::TraceClass;

/// Most field classes in the metadata of one trace, all uses of named types counted.
pub(crate) const MAX_CLASSES: usize = 1 << 20;

/// What metadata says, and where it says it.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) trace: TraceClass,
    pub(crate) oddities: Oddities,
    pub(crate) places: ClassPlaces,
}

/// Oddities with their places in bytes: the first [`MAX_WARNINGS`].
#[derive(Debug, Default)]
pub(crate) struct Oddities(Vec<(Oddity, usize)>);

impl Oddities {
    pub(crate) fn note(&mut self, at: usize, oddity: Oddity) {
        if self.0.len() < MAX_WARNINGS {
            self.0.push((oddity, at));
        }
    }
}

/// A part of a trace class.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// What is said once: the packet header.
    Trace,
    /// The clock class with this index.
    Clock(usize),
    /// The stream class with this index.
    Stream(usize),
    /// The event class with the second index in the stream class with the first.
    Event(usize, usize),
}

/// Where the parts begin, in bytes, by their indices.
#[derive(Debug, Default)]
pub(crate) struct ClassPlaces {
    pub(crate) trace: usize,
    pub(crate) clocks: Vec<usize>,
    pub(crate) streams: Vec<usize>,
    pub(crate) events: Vec<Vec<usize>>,
}

impl ClassPlaces {
    pub(crate) fn of(&self, part: Part) -> usize {
        let place = match part {
            Part::Trace => None,
            Part::Clock(clock) => self.clocks.get(clock),
            Part::Stream(stream) => self.streams.get(stream),
            Part::Event(stream, event) => self.events.get(stream).and_then(|events| events.get(event)),
        };
        place.copied().unwrap_or(self.trace)
    }
}

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

/// The fault at byte `at` of `text`, with its line and column.
pub(crate) fn place(text: &str, at: usize, kind: MetadataFault) -> MetadataError {
    let (line, column) = line_and_column(text, at);
    MetadataError { kind, line, column }
}

/// Line and column of byte `at` of `text`, from 1; the column in bytes.
fn line_and_column(text: &str, at: usize) -> (u32, u32) {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |i| i + 1) + 1;
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (narrow(line), narrow(column))
}
