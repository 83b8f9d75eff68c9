//! The paths of each thread by itself.

use super::functions::{FunctionId, Functions};
use super::tree::{ROOT, Tree};
use super::walker::{How, PathSink};
use mote_pt::time::Span;
use std::collections::BTreeMap;

/// The paths of threads that are known, and how much others have executed.
#[derive(Clone, Debug, Default)]
pub struct ByThread {
    trees: BTreeMap<i32, Tree>,
    /// Instructions while no thread was known.
    others: u64,
    now: Option<i32>,
}

impl ByThread {
    /// The paths of each thread, by its number.
    #[must_use]
    pub fn threads(&self) -> &BTreeMap<i32, Tree> {
        &self.trees
    }

    /// Instructions while no thread was known: of [`Running::of_process`](crate::Running::of_process), those of others.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The paths of all threads together.
    #[must_use]
    pub fn all(&self) -> Tree {
        let mut all = Tree::default();
        self.trees.values().for_each(|tree| all.merge(ROOT, tree, |function| function));
        all
    }

    fn tree(&mut self) -> Option<&mut Tree> {
        self.now.and_then(|tid| self.trees.get_mut(&tid))
    }
}

/// Nodes are those of the thread that runs; of others all are the root, which stands for no function.
impl PathSink for ByThread {
    type Node = u32;

    fn outermost(&mut self, function: FunctionId) -> u32 {
        self.tree().map_or(ROOT, |tree| tree.child(ROOT, function))
    }

    fn enter(&mut self, from: u32, function: FunctionId, _: How, _: Span) -> u32 {
        self.tree().map_or(ROOT, |tree| tree.call(from, function))
    }

    fn become_another(&mut self, old: u32, function: FunctionId) -> u32 {
        self.tree().map_or(ROOT, |tree| tree.call(tree.parent(old), function))
    }

    fn spend(&mut self, node: u32, instructions: u64, _: Span, _: Span) {
        match self.tree() {
            Some(tree) => tree.node_mut(node).into_iter().for_each(|node| node.instructions += instructions),
            None => self.others += instructions,
        }
    }

    fn leave(&mut self, _: u32, _: How, _: Span, _: &mut Functions) {}

    fn cut(&mut self) {}

    fn switch(&mut self, tid: Option<i32>) {
        self.now = tid;
        if let Some(tid) = tid {
            self.trees.entry(tid).or_default();
        }
    }
}
