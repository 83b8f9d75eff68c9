//! Streams of processors, by the threads that ran there.

use mote_pt::flow::{Block, Event, Gap, Graph};
use mote_pt::image::Space;
use mote_pt::time::{Moment, TimedSink};
use std::collections::HashMap;

/// A sink of [`crate::follow_timed`] that has another one for each thread: calls of threads that take turns on a
/// processor do not mix.
///
/// # Cost
/// An index for each block; as much memory as the threads' sinks have.
pub struct PerThread<S, F> {
    make: F,
    sinks: Vec<Of<S>>,
    /// The index of each thread's sink.
    numbers: HashMap<i32, usize>,
    /// The one of the thread that runs.
    now: usize,
    space: Space,
}

struct Of<S> {
    sink: S,
    /// The last one that it was told.
    space: Space,
}

impl<S: TimedSink, F: FnMut(i32) -> S> PerThread<S, F> {
    /// `make` makes the sink of a thread. Until something else is known, `first` runs.
    pub fn new(first: i32, make: F) -> PerThread<S, F> {
        let (sinks, numbers, space) = (Vec::new(), HashMap::new(), Space::default());
        let mut threads = PerThread { make, sinks, numbers, now: 0, space };
        threads.thread(first);
        threads
    }

    /// Gives up the sinks, in the order in which their threads came.
    pub fn into_sinks(self) -> impl Iterator<Item = S> {
        self.sinks.into_iter().map(|of| of.sink)
    }

    #[inline]
    fn sink(&mut self) -> &mut S {
        &mut self.sinks[self.now].sink
    }
}

impl<S: TimedSink, F: FnMut(i32) -> S> TimedSink for PerThread<S, F> {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        self.sink().block(block, graph, moment);
    }

    fn event(&mut self, offset: u64, event: Event, moment: &Moment) {
        self.sink().event(offset, event, moment);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.sink().gap(gap, moment);
    }

    fn space(&mut self, space: Space) {
        self.space = space;
        self.sinks[self.now].space = space;
        self.sink().space(space);
    }

    fn thread(&mut self, tid: i32) {
        let PerThread { make, sinks, numbers, now, space } = self;
        *now = *numbers.entry(tid).or_insert_with(|| {
            sinks.push(Of { sink: make(tid), space: Space::default() });
            sinks.len() - 1
        });
        let of = &mut sinks[*now];
        if of.space != *space {
            of.space = *space;
            of.sink.space(*space);
        }
    }
}
