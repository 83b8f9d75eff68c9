//! What metadata says, and where it says it: what both parsers end with.

use crate::error::{MAX_WARNINGS, MetadataError, MetadataFault, Oddity};
use crate::model::TraceClass;

/// Most field classes in metadata of so many bytes, all uses of named types counted: names for names cannot blow up,
/// and tens of thousands of events have no fewer bytes than these.
pub(crate) fn max_classes(bytes: usize) -> usize {
    (1 << 20) + bytes / 8
}

/// What metadata says, and where it says it.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) trace: TraceClass,
    pub(crate) oddities: Oddities,
    pub(crate) places: ClassPlaces,
}

/// Oddities with their places in bytes: the first [`MAX_WARNINGS`].
#[derive(Debug, Default)]
pub(crate) struct Oddities(pub(super) Vec<(Oddity, usize)>);

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

/// The fault at byte `at` of `text`, with its line and column.
pub(crate) fn place(text: &str, at: usize, kind: MetadataFault) -> MetadataError {
    let (line, column) = line_and_column(text, at);
    MetadataError { kind, line, column }
}

/// Line and column of byte `at` of `text`, from 1; the column in bytes.
pub(super) fn line_and_column(text: &str, at: usize) -> (u32, u32) {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = before.len() - memchr::memrchr(b'\n', before).map_or(0, |i| i + 1) + 1;
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (narrow(line), narrow(column))
}
