//! The stacks at some instructions.

use super::functions::{FunctionId, Functions, Named};
use super::walker::{How, PathSink, Walker};
use crate::program::Program;
use crate::running::Running;
use mote_pt::flow::{Event, Gap, Graph};
use mote_pt::image::Space;
use mote_pt::insn::Block;
use mote_pt::time::{Moment, Span, TimedSink};

/// Functions that a stack has at most: the innermost ones.
const DEPTH_MAX: usize = 256;

/// A sink that has the stack of each instruction that is wanted.
#[derive(Debug)]
pub struct Stacks<'p, P> {
    walker: Walker<'p, P, Nothing>,
    /// Numbers of instructions, ascending.
    wanted: Vec<u64>,
    found: Vec<Vec<FunctionId>>,
}

/// Paths that nobody asks for.
#[derive(Debug)]
struct Nothing;

impl PathSink for Nothing {
    type Node = ();
    fn outermost(&mut self, _: FunctionId) {}
    fn enter(&mut self, (): (), _: FunctionId, _: How, _: Span) {}
    fn become_another(&mut self, (): (), _: FunctionId) {}
    fn spend(&mut self, (): (), _: u64, _: Span, _: Span) {}
    fn leave(&mut self, (): (), _: How, _: Span, _: &mut Functions) {}
    fn cut(&mut self) {}
}

impl<'p, P: Program> Stacks<'p, P> {
    /// Of the instructions of these numbers in a stream.
    pub fn new(program: &'p P, running: Running, mut wanted: Vec<u64>) -> Stacks<'p, P> {
        wanted.sort_unstable();
        wanted.dedup();
        Stacks {
            walker: Walker::new(program, Functions::default(), running, Nothing),
            wanted,
            found: Vec::new(),
        }
    }

    /// All were found.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.found.len() == self.wanted.len()
    }

    /// The stacks, the outermost function first, by the number of the instruction.
    #[must_use]
    pub fn finish(self) -> Vec<(u64, Vec<Named>)> {
        let (functions, _) = self.walker.finish();
        let named =
            |stack: Vec<FunctionId>| stack.into_iter().map(|one| functions.get(one).clone()).collect();
        self.wanted.into_iter().zip(self.found.into_iter().map(named)).collect()
    }
}

impl<P: Program> TimedSink for Stacks<'_, P> {
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        self.walker.block(block, graph, moment);
        while self.wanted.get(self.found.len()).is_some_and(|wanted| *wanted < self.walker.instructions()) {
            let stack: Vec<FunctionId> = self.walker.stack().collect();
            self.found.push(stack[stack.len().saturating_sub(DEPTH_MAX)..].to_vec());
        }
    }

    fn event(&mut self, offset: u64, event: Event, moment: &Moment) {
        self.walker.event(offset, event, moment);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.walker.gap(gap, moment);
    }

    fn space(&mut self, space: Space) {
        self.walker.space(space);
    }
}
