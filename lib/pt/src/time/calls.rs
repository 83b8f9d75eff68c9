//! Calls with the times at which they begin and end.

use super::bounds::Bounds;
use super::span::Span;
use super::timed::{Moment, TimedSink};
use crate::flow::calls::{Call, CallSink, Calls};
use crate::flow::{Event, Gap, Sink};
use crate::image::Space;
use crate::insn::{Block, Class, Graph};

/// A receiver of calls with their times.
pub trait TimedCallSink {
    /// A call begins or ends, when its branch was executed.
    fn call(&mut self, call: Call, when: Span);

    /// As [`CallSink::space`].
    fn space(&mut self, space: Space) {
        let _ = space;
    }

    /// As [`CallSink::is_function`].
    fn is_function(&self, address: u64) -> bool {
        let _ = address;
        false
    }
}

impl<F: FnMut(Call, Span)> TimedCallSink for F {
    fn call(&mut self, call: Call, when: Span) {
        self(call, when);
    }
}

/// The calls of a flow with times: what [`Calls`] is for one without.
#[derive(Debug)]
pub struct TimedCalls<S> {
    calls: Calls<Stamp<S>>,
    /// When the last block's branch was, if it may be a call or a return.
    branch: Option<Bounds>,
}

/// Gives calls on with a time.
#[derive(Debug)]
struct Stamp<S> {
    sink: S,
    now: Bounds,
}

impl<S: TimedCallSink> CallSink for Stamp<S> {
    fn call(&mut self, call: Call) {
        self.sink.call(call, self.now.span());
    }

    fn space(&mut self, space: Space) {
        self.sink.space(space);
    }

    fn is_function(&self, address: u64) -> bool {
        self.sink.is_function(address)
    }
}

impl<S: TimedCallSink> TimedCalls<S> {
    /// Calls are given to `sink`.
    pub fn new(sink: S) -> TimedCalls<S> {
        TimedCalls { calls: Calls::new(Stamp { sink, now: Bounds::UNKNOWN }), branch: None }
    }

    /// How many instructions were executed.
    pub fn instructions(&self) -> u64 {
        self.calls.instructions()
    }

    /// Where the calls are given to.
    pub fn into_sink(self) -> S {
        self.calls.into_sink().sink
    }
}

impl<S: TimedCallSink> TimedSink for TimedCalls<S> {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        // It is where the branch before has led to that says whether that was a call.
        if let Some(branch) = self.branch.take() {
            self.calls.sink().now = branch;
        }
        if matches!(block.class, Class::Call | Class::IndirectCall | Class::Return | Class::Far) {
            self.branch = Some(moment.last);
        }
        self.calls.block(block, graph);
    }

    fn event(&mut self, offset: u64, event: Event, moment: &Moment) {
        // Where it happens is where the last branch has led to, which was before.
        if let Event::AsyncBranch { from, .. } | Event::Disabled { from: Some(from), .. } = event
            && let Some(branch) = self.branch.take()
        {
            self.calls.sink().now = branch;
            self.calls.arrive(from);
        }
        self.calls.sink().now = moment.bounds;
        self.calls.event(offset, event);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.calls.sink().now = moment.bounds;
        self.calls.gap(gap);
    }

    fn space(&mut self, space: Space) {
        self.calls.space(space);
    }
}
