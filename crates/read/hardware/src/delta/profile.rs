//! What the intervals between two patterns were, all together.

use super::sequence::At;
use mote_analysis::Histogram;
use mote_capture::Of;
use mote_pt::image::Space;
use mote_pt::time::{Nanoseconds, Span};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Threads that have sums of their own; those of others are their streams'.
const WHO_MAX: usize = 4096;
/// Pairs of places of a stream that have sums of their own.
const PLACES_MAX: usize = 1 << 20;

/// A place in code.
type Place = (Space, u64);

/// Whose intervals they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Who {
    /// The stream.
    pub of: Of,
    /// The thread, where it is known.
    pub tid: Option<i32>,
}

/// By what intervals are the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By the time that they took at least, and then at most; where that is not known, by instructions.
    #[default]
    Time,
    /// By how many instructions they had.
    Instructions,
}

/// An interval; of one pattern alone, where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The thread and processor that executed it.
    pub who: Who,
    /// The last instruction of the first pattern; of one pattern alone, its first one.
    pub from: At,
    /// The instruction that ends it.
    pub to: At,
    /// How many instructions were executed behind `from`, up to `to`; of one pattern alone, how many it is of.
    pub instructions: u64,
    /// How long it took, in nanoseconds.
    pub ns: Span,
    /// Tracing was off for a part of it.
    pub is_untraced: bool,
}

/// The intervals of somebody.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// How many instructions they had.
    pub instructions: Histogram,
    /// How many nanoseconds at least, of those where that is known.
    pub least_ns: Histogram,
    /// How many at most.
    pub most_ns: Histogram,
    /// How many have a part that was not traced.
    pub untraced: u64,
}

impl Sums {
    fn add(&mut self, case: &Case) {
        self.instructions.add(case.instructions);
        case.ns.low.iter().for_each(|ns| self.least_ns.add(*ns));
        case.ns.high.iter().for_each(|ns| self.most_ns.add(*ns));
        self.untraced += u64::from(case.is_untraced);
    }
}

/// Intervals from one place of the code to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// How many.
    pub count: u64,
    /// Instructions of all of them.
    pub instructions: u64,
    /// Instructions of the longest.
    pub instructions_max: u64,
    /// The nanoseconds that one took for certain, of all the most.
    pub ns_max: Option<u64>,
}

impl Between {
    fn add(&mut self, case: &Case) {
        self.count += 1;
        self.instructions += case.instructions;
        self.instructions_max = self.instructions_max.max(case.instructions);
        self.ns_max = self.ns_max.max(case.ns.low);
    }

    fn join(&mut self, other: &Between) {
        self.count += other.count;
        self.instructions += other.instructions;
        self.instructions_max = self.instructions_max.max(other.instructions_max);
        self.ns_max = self.ns_max.max(other.ns_max);
    }
}

/// All intervals.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    by: By,
    worst_max: usize,
    /// Of each stream and thread.
    pub of: BTreeMap<Who, Sums>,
    /// All together.
    pub all: Sums,
    /// By the functions in which they begin and end.
    pub between: BTreeMap<(String, String), Between>,
    /// The same of the stream that is read, by address.
    places: FxHashMap<(Place, Place), Between>,
    /// The worst ones, in their order.
    pub worst: Vec<Case>,
    /// How often each pattern was.
    pub found: [u64; 2],
    /// The first pattern was again while an interval was open: it goes on from the first time.
    pub again: u64,
    /// The second one was while none was open.
    pub alone: u64,
    /// Intervals that are in no sum by places, because there are too many places.
    pub unplaced: u64,
    /// Intervals that have no end, because code is missing, or the capture ends.
    pub cut: u64,
}

impl Profile {
    /// Keeps so many of the worst.
    #[must_use]
    pub fn new(by: By, worst_max: usize) -> Profile {
        Profile { by, worst_max, ..Profile::default() }
    }

    /// Adds an interval.
    pub(super) fn add(&mut self, case: Case) {
        self.all.add(&case);
        // Histograms are large, and threads may be many.
        let has_room = self.of.len() < WHO_MAX || self.of.contains_key(&case.who);
        let who = if has_room { case.who } else { Who { tid: None, ..case.who } };
        self.of.entry(who).or_default().add(&case);
        let places = (case.from.place(), case.to.place());
        if self.places.len() < PLACES_MAX {
            self.places.entry(places).or_default().add(&case);
        } else {
            match self.places.get_mut(&places) {
                Some(between) => between.add(&case),
                None => self.unplaced += 1,
            }
        }
        self.compare(case);
    }

    /// Keeps an interval, if it is one of the worst.
    fn compare(&mut self, case: Case) {
        let key = |case: &Case| match self.by {
            By::Time => (case.ns.low, case.ns.high, case.instructions),
            By::Instructions => (Some(case.instructions), case.ns.low, case.ns.high.unwrap_or(0)),
        };
        // The first of those that are the same comes first.
        let is_full = self.worst.len() >= self.worst_max;
        if is_full && self.worst.last().is_none_or(|last| key(last) >= key(&case)) {
            return;
        }
        let at = self.worst.partition_point(|other| key(other) >= key(&case));
        self.worst.insert(at, case);
        self.worst.truncate(self.worst_max);
    }

    /// A stream has ended: what its places are called is known now.
    pub(super) fn settle(&mut self, name: impl Fn(Place) -> String) {
        for ((from, to), between) in self.places.drain() {
            self.between.entry((name(from), name(to))).or_default().join(&between);
        }
    }
}

impl At {
    fn place(self) -> Place {
        (self.space, self.address)
    }
}

/// How long it was from one instruction to another, in nanoseconds, where a clock says so.
pub(super) fn nanoseconds(clock: Option<Nanoseconds>, from: &At, to: &At) -> Span {
    clock.map_or(Span::UNKNOWN, |clock| clock.duration(to.when.since(from.when)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(number: u64, instructions: u64, ns: (Option<u64>, Option<u64>)) -> Case {
        let at = |number| At { number, space: Space::ANY, address: 0x1000, when: Span::UNKNOWN };
        let who = Who { of: Of::Thread(7), tid: Some(7) };
        let ns = Span { low: ns.0, high: ns.1 };
        Case { who, from: at(number), to: at(number + instructions), instructions, ns, is_untraced: false }
    }

    #[test]
    fn the_worst_are_those_that_took_longest_for_certain() {
        let cases = [
            case(0, 5, (None, None)),
            case(10, 50, (Some(0), Some(900))),
            case(20, 7, (Some(300), Some(400))),
            case(30, 9, (Some(300), Some(400))),
            case(40, 9, (Some(300), Some(400))),
        ];
        for (by, expect) in [(By::Time, [30, 40, 20]), (By::Instructions, [10, 30, 40])] {
            let mut profile = Profile::new(by, 3);
            cases.iter().for_each(|case| profile.add(case.clone()));
            let worst: Vec<u64> = profile.worst.iter().map(|case| case.from.number).collect();
            assert_eq!(worst, expect, "{by:?}");
            // No time is absent, and not 0.
            assert_eq!((profile.all.least_ns.count(), profile.all.instructions.count()), (4, 5));
            profile.settle(|(_, address)| format!("{address:x}"));
            let between = &profile.between[&("1000".to_owned(), "1000".to_owned())];
            assert_eq!((between.count, between.instructions_max, between.ns_max), (5, 50, Some(300)));
        }
    }
}
