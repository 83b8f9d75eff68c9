//! Filtering by address: which addresses the processor traces (IA32_RTIT_ADDRn_A and _B, as ADDRn_CFG has them; SDM 3C,
//! 33.2.4.3), and what it is told of files, which lie elsewhere in each process.

use crate::observer::Image;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A place that a filter names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Tracing ends where it is entered (TraceStop); otherwise what is there is traced.
    pub stops: bool,
    /// The file that `at` is an offset in; `None` where it is an address.
    pub file: Option<PathBuf>,
    /// The first byte, and the one behind the last.
    pub at: Range<u64>,
}

/// Gives the parts of a file that are traced, by offset: those of functions that were named, for instance.
pub type Parts = dyn Fn(&Path) -> Vec<Range<u64>>;

/// What is traced. A processor has two to four ranges; there may be more here.
#[derive(Default)]
pub struct Filter {
    places: Vec<Place>,
    parts: Option<Box<Parts>>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Filter {
    /// These places. Without one that does not stop, everything else is traced.
    pub fn new(places: Vec<Place>) -> Filter {
        Filter { places, parts: None }
    }

    /// And these parts of each file whose code is mapped: `parts` is asked once for each mapping.
    pub fn with_parts(self, parts: Box<Parts>) -> Filter {
        Filter { parts: Some(parts), ..self }
    }

    /// Whether it lets all pass.
    pub(crate) fn is_all(&self) -> bool {
        self.places.is_empty() && self.parts.is_none()
    }

    /// What counts before anything is mapped.
    pub(crate) fn begin(&self) -> Ranges {
        let is_limited = self.parts.is_some() || self.places.iter().any(|place| !place.stops);
        let mut ranges = Ranges { traced: is_limited.then(Vec::new), stops: Vec::new() };
        let addresses = self.places.iter().filter(|place| place.file.is_none());
        addresses.for_each(|place| ranges.add(place.stops, place.at.clone()));
        ranges
    }

    /// A part of a file is mapped.
    pub(crate) fn map(&self, image: &Image, ranges: &mut Ranges) {
        let end = image.start.saturating_add(image.bytes);
        ranges.forget(&(image.start..end));
        let mut add = |stops, at: &Range<u64>| {
            let to = |offset: u64| {
                image.start.saturating_add(offset.saturating_sub(image.offset)).clamp(image.start, end)
            };
            ranges.add(stops, to(at.start)..to(at.end));
        };
        let is_it =
            |file: &PathBuf| *file == image.path || file.canonicalize().is_ok_and(|file| file == image.path);
        let of_file = self.places.iter().filter(|place| place.file.as_ref().is_some_and(is_it));
        of_file.for_each(|place| add(place.stops, &place.at));
        if let Some(parts) = &self.parts {
            parts(&image.path).iter().for_each(|at| add(false, at));
        }
    }
}

/// The processor's address ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Ascending, and apart; `None` where all addresses are traced.
    traced: Option<Vec<Range<u64>>>,
    stops: Vec<Range<u64>>,
}

/// What a branch or an event leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// FilterEn is set.
    Traced,
    /// Code outside of the ranges that are traced.
    Untraced,
    /// A region that stops tracing.
    Stop,
}

impl Ranges {
    /// Whether there are none: all is traced.
    pub(crate) fn is_all(&self) -> bool {
        self.traced.is_none() && self.stops.is_empty()
    }

    /// What is at an address.
    pub(crate) fn at(&self, address: u64) -> Landing {
        let holds = |ranges: &[Range<u64>]| {
            let next = ranges.partition_point(|range| range.end <= address);
            ranges.get(next).is_some_and(|range| range.contains(&address))
        };
        if holds(&self.stops) {
            Landing::Stop
        } else if self.traced.as_deref().is_none_or(holds) {
            Landing::Traced
        } else {
            Landing::Untraced
        }
    }

    /// Adds a range: of what is traced, or of what stops.
    pub fn add(&mut self, stops: bool, range: Range<u64>) {
        let ranges = if stops { &mut self.stops } else { self.traced.get_or_insert_default() };
        if range.is_empty() {
            return;
        }
        // All that it touches becomes one with it.
        let first = ranges.partition_point(|other| other.end < range.start);
        let behind = ranges.partition_point(|other| other.start <= range.end);
        let touched = ranges.get(first..behind).unwrap_or_default();
        let start = touched.first().map_or(range.start, |other| other.start.min(range.start));
        let end = touched.last().map_or(range.end, |other| other.end.max(range.end));
        ranges.splice(first..behind, std::iter::once(start..end));
    }

    /// What was there is no more: something else is mapped.
    fn forget(&mut self, gone: &Range<u64>) {
        for ranges in [Some(&mut self.stops), self.traced.as_mut()].into_iter().flatten() {
            let kept = ranges.drain(..).flat_map(|range| {
                let before = range.start..range.end.min(gone.start);
                let behind = range.start.max(gone.end)..range.end;
                [before, behind]
            });
            *ranges = kept.filter(|range| range.start < range.end).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(stops: bool, file: Option<&str>, at: Range<u64>) -> Place {
        Place { stops, file: file.map(PathBuf::from), at }
    }

    fn image(start: u64, path: &str, offset: u64) -> Image {
        Image { pid: 7, start, bytes: 0x1000, path: path.into(), offset }
    }

    #[test]
    fn files_are_where_they_are_mapped() {
        use Landing::{Stop, Traced, Untraced};
        let filter = Filter::new(vec![
            place(false, Some("/a"), 0x1100..0x1200),
            place(false, None, 0x9000..0x9010),
            place(true, Some("/a"), 0x1180..0x1190),
            place(false, Some("/b"), 0x1100..0x9000),
        ]);
        let mut ranges = filter.begin();
        assert_eq!([0x9000, 0x900f, 0x9010].map(|at| ranges.at(at)), [Traced, Traced, Untraced]);
        filter.map(&image(0x5000, "/a", 0x1000), &mut ranges);
        let at = [0x50ff, 0x5100, 0x517f, 0x5180, 0x518f, 0x5190, 0x51ff, 0x5200];
        let expect = [Untraced, Traced, Traced, Stop, Stop, Traced, Traced, Untraced];
        assert_eq!(at.map(|at| ranges.at(at)), expect);
        // As far as it is mapped.
        filter.map(&image(0x7000, "/b", 0x1000), &mut ranges);
        assert_eq!(
            [0x70ff, 0x7100, 0x7fff, 0x8000].map(|at| ranges.at(at)),
            [Untraced, Traced, Traced, Untraced]
        );
        // Another file in its place.
        filter.map(&image(0x5100, "/c", 0), &mut ranges);
        assert_eq!([0x5100, 0x5180, 0x9000].map(|at| ranges.at(at)), [Untraced, Untraced, Traced]);
    }

    #[test]
    fn what_only_stops_limits_nothing_else() {
        let filter = Filter::new(vec![place(true, Some("/a"), 0x10..0x20)]);
        let mut ranges = filter.begin();
        assert!(ranges.is_all());
        filter.map(&image(0x5000, "/a", 0), &mut ranges);
        assert_eq!([0x500f, 0x5010].map(|at| ranges.at(at)), [Landing::Traced, Landing::Stop]);
        assert!(!ranges.is_all());
        assert!(!Filter::default().with_parts(Box::new(|_| Vec::new())).begin().is_all());
    }

    #[test]
    fn functions_are_parts_of_files() {
        let parts =
            |path: &Path| if path == Path::new("/a") { vec![0x10..0x20, 0x20..0x30] } else { Vec::new() };
        let filter = Filter::default().with_parts(Box::new(parts));
        let mut ranges = filter.begin();
        filter.map(&image(0x5000, "/a", 0), &mut ranges);
        filter.map(&image(0x6000, "/b", 0), &mut ranges);
        assert_eq!(ranges.traced.as_deref(), Some(std::slice::from_ref(&(0x5010..0x5030))));
    }

    #[test]
    fn ranges_are_apart() {
        let mut ranges = Ranges::default();
        for range in [10..20, 30..40, 5..7, 19..25, 40..41, 3..3, 24..30, 100..110, 1..2] {
            ranges.add(false, range);
        }
        assert_eq!(ranges.traced.as_deref(), Some(&[1..2, 5..7, 10..41, 100..110][..]));
        ranges.forget(&(15..102));
        assert_eq!(ranges.traced.as_deref(), Some(&[1..2, 5..7, 10..15, 102..110][..]));
    }
}
