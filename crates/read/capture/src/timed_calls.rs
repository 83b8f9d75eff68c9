//! Functions that were called: for how long, at least and at most.

use crate::calls::{Functions, Table};
use crate::code::Code;
use mote_pt::flow::calls::{Call, CallSink};
use mote_pt::flow::{Block, Event, Gap, Graph};
use mote_pt::image::Space;
use mote_pt::time::calls::{TimedCallSink, TimedCalls};
use mote_pt::time::{Moment, Span, TimedSink};
use std::collections::{HashMap, VecDeque};

/// The sum of several stretches of time, one behind the other, in ticks of the time stamp counter.
///
/// Each lies between bounds of its own. Many short ones may lie between the same two packets of time: together they
/// were no longer than what is between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    least: u64,
    most: Option<u64>,
    /// Up to here time counts in `most` already.
    until: u64,
}

impl Default for Busy {
    /// No time.
    fn default() -> Busy {
        Busy { least: 0, most: Some(0), until: 0 }
    }
}

impl Busy {
    /// Adds a stretch behind the others.
    pub fn add(&mut self, begin: Span, end: Span) {
        self.least = self.least.saturating_add(end.since(begin).low.unwrap_or(0));
        let bounds = begin.low.zip(end.high);
        self.most = self
            .most
            .zip(bounds)
            .map(|(most, (begin, end))| most.saturating_add(end.saturating_sub(begin.max(self.until))));
        self.until = self.until.max(bounds.map_or(0, |(_, end)| end));
    }

    /// The sum, at least and at most.
    #[must_use]
    pub fn ticks(&self) -> Span {
        let least = (self.least > 0 || self.most.is_some()).then_some(self.least);
        Span { low: least, high: self.most }
    }

    /// Adds stretches that have nothing to do with these: of another thread, or another function.
    pub fn join(&mut self, other: &Busy) {
        self.least = self.least.saturating_add(other.least);
        self.most = self.most.zip(other.most).map(|(most, more)| most.saturating_add(more));
    }
}

/// When a function was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionTime {
    /// With all that it has called; of calls in calls of the same function, the outermost only.
    pub total: Busy,
    /// Its own time.
    pub own: Busy,
}

/// A sink of [`crate::follow_timed`]: the functions of a stream, with their times.
///
/// # Cost
/// Some tens of nanoseconds a call.
pub struct TimedCallTable<'c>(TimedCalls<Sums<'c>>);

impl Default for TimedCallTable<'_> {
    /// No calls; functions that are entered from what is not traced are not told from others.
    fn default() -> Self {
        TimedCallTable(TimedCalls::new(Sums::default()))
    }
}

impl<'c> TimedCallTable<'c> {
    /// No calls, through code that says where functions begin.
    #[must_use]
    pub fn of(code: &'c Code) -> TimedCallTable<'c> {
        TimedCallTable(TimedCalls::new(Sums { table: Table::of(code), ..Sums::default() }))
    }

    /// The functions, and the times of those that have any, by address space and first instruction.
    #[must_use]
    pub fn functions(self) -> (Functions, HashMap<(Space, u64), FunctionTime>) {
        let sums = self.0.into_sink();
        (sums.table.functions, sums.times)
    }
}

impl TimedSink for TimedCallTable<'_> {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        self.0.block(block, graph, moment);
    }

    fn event(&mut self, offset: u64, event: Event, moment: &Moment) {
        self.0.event(offset, event, moment);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.0.gap(gap, moment);
    }

    fn space(&mut self, space: Space) {
        self.0.space(space);
    }
}

#[derive(Default)]
struct Sums<'c> {
    table: Table<'c>,
    times: HashMap<(Space, u64), FunctionTime>,
    /// When the calls began that are under way.
    begins: VecDeque<Span>,
    /// When the innermost call began or went on.
    since: Span,
}

impl Sums<'_> {
    /// The innermost call is interrupted, or ends.
    fn pause(&mut self, when: Span) {
        let since = std::mem::replace(&mut self.since, when);
        if let Some((key, _)) = self.table.open.back() {
            self.times.entry(*key).or_default().own.add(since, when);
        }
    }
}

impl TimedCallSink for Sums<'_> {
    fn call(&mut self, call: Call, when: Span) {
        self.pause(when);
        match call {
            Call::Begin { .. } => {
                self.table.call(call);
                self.begins.push_back(when);
                // Calls that were forgotten have no begin any more.
                self.begins.drain(..self.begins.len().saturating_sub(self.table.open.len()));
            }
            Call::End { .. } => {
                let key = self.table.open.back().map(|(key, _)| *key);
                self.table.call(call);
                let begin = self.begins.pop_back().unwrap_or_default();
                let Some(key) = key else { return };
                if self.table.functions.get(&key).is_some_and(|function| function.open == 0) {
                    self.times.entry(key).or_default().total.add(begin, when);
                }
            }
        }
    }

    fn space(&mut self, space: Space) {
        self.table.space(space);
    }

    fn is_function(&self, address: u64) -> bool {
        self.table.is_function(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_pt::flow::calls::End;

    fn span(low: u64, high: u64) -> Span {
        Span { low: Some(low), high: Some(high) }
    }

    #[test]
    fn stretches_between_the_same_bounds_are_no_longer_than_these() {
        let mut busy = Busy::default();
        assert_eq!(busy.ticks(), span(0, 0));
        for _ in 0..100 {
            busy.add(span(1000, 1800), span(1000, 1800));
        }
        assert_eq!(busy.ticks(), span(0, 800));
        busy.add(span(1800, 1810), span(2000, 2005));
        assert_eq!(busy.ticks(), span(190, 1005));
        busy.join(&Busy { least: 1, most: Some(2), until: 9 });
        assert_eq!(busy.ticks(), span(191, 1007));
        // Where bounds are missing.
        busy.add(span(3000, 3001), Span { low: Some(3100), high: None });
        assert_eq!(busy.ticks(), Span { low: Some(191 + 99), high: None });
        let mut busy = Busy::default();
        busy.add(Span::UNKNOWN, Span::UNKNOWN);
        assert_eq!(busy.ticks(), Span::UNKNOWN);
    }

    #[test]
    fn functions_have_their_own_time_and_that_of_their_calls() {
        let mut sums = Sums::default();
        let begin = |function, depth| Call::Begin { function, returns_to: None, depth };
        let end = |function, depth| Call::End { function, depth, instructions: 1, by: End::Return };
        let at = |time| span(time, time + 2);
        // 1 calls 2, which calls 1, which calls nobody.
        let calls = [(begin(1, 0), 100), (begin(2, 1), 110), (begin(1, 2), 130), (end(1, 2), 160)];
        for (call, time) in calls.into_iter().chain([(end(2, 1), 165), (end(1, 0), 200)]) {
            sums.call(call, at(time));
        }
        let times = |function| sums.times[&(Space::default(), function)];
        assert_eq!(times(1).total.ticks(), span(98, 102));
        assert_eq!(times(1).own.ticks(), span(8 + 28 + 33, 12 + 32 + 37));
        assert_eq!(times(2).total.ticks(), span(53, 57));
        assert_eq!(times(2).own.ticks(), span(18 + 3, 22 + 7));
        assert_eq!(sums.table.functions[&(Space::default(), 1)].calls, 2);
    }
}
