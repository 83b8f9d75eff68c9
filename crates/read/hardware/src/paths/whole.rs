//! All paths of a stream.

use super::functions::{FunctionId, Functions};
use super::tree::{ROOT, Tree};
use super::walker::{How, PathSink};
use mote_pt::time::Span;

/// All paths.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    /// The call paths, with instructions. They have no times: streams run at the same time.
    pub tree: Tree,
}

impl PathSink for Whole {
    type Node = u32;

    fn outermost(&mut self, function: FunctionId) -> u32 {
        self.tree.child(ROOT, function)
    }

    fn enter(&mut self, from: u32, function: FunctionId, _: How, _: Span) -> u32 {
        self.tree.call(from, function)
    }

    fn become_another(&mut self, old: u32, function: FunctionId) -> u32 {
        self.tree.call(self.tree.parent(old), function)
    }

    fn spend(&mut self, node: u32, instructions: u64, _: Span, _: Span) {
        self.tree.node_mut(node).into_iter().for_each(|node| node.instructions += instructions);
    }

    fn leave(&mut self, _: u32, _: How, _: Span, _: &mut Functions) {}

    fn cut(&mut self) {}
}
