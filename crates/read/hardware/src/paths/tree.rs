//! Paths of calls, with what was executed at their ends: a tree, each of whose nodes is a path from the root.

use super::functions::{FunctionId, Functions, Named};
use mote_capture::Busy;
use mote_pt::time::Span;
use rustc_hash::FxHashMap;

/// Most nodes: more than any program has that does not run wild. Beyond, what is called counts as the caller's own.
const NODES_MAX: usize = 1 << 22;
/// The root's number.
pub const ROOT: u32 = 0;

/// A path: a function, in those that have called it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    /// The last function of the path.
    pub function: FunctionId,
    /// The path without it.
    pub parent: u32,
    /// How often it was called so.
    pub calls: u64,
    /// Its own instructions.
    pub instructions: u64,
    /// Its own time, in ticks of the time stamp counter.
    pub busy: Busy,
}

/// Paths by number; a path's number is larger than its parent's.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    children: FxHashMap<(u32, FunctionId), u32>,
}

impl Default for Tree {
    /// The root alone.
    fn default() -> Tree {
        Tree { nodes: vec![Node::default()], children: FxHashMap::default() }
    }
}

impl Tree {
    /// All nodes, with the root as the first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// There is nothing but the root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// The path behind one, whose last function is called there.
    pub(super) fn child(&mut self, parent: u32, function: FunctionId) -> u32 {
        if let Some(child) = self.children.get(&(parent, function)) {
            return *child;
        }
        if self.nodes.len() == NODES_MAX {
            return parent;
        }
        let number = self.nodes.len() as u32;
        self.nodes.push(Node { function, parent, ..Node::default() });
        self.children.insert((parent, function), number);
        number
    }

    /// The same, for a call that begins: it is counted.
    pub(super) fn call(&mut self, parent: u32, function: FunctionId) -> u32 {
        let child = self.child(parent, function);
        self.node_mut(child).into_iter().for_each(|node| node.calls += 1);
        child
    }

    pub(super) fn parent(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(ROOT, |node| node.parent)
    }

    pub(super) fn node_mut(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(node as usize)
    }

    /// So many instructions, from then to then.
    pub(super) fn spend(&mut self, node: u32, instructions: u64, from: Span, to: Span) {
        if let Some(node) = self.node_mut(node) {
            node.instructions += instructions;
            node.busy.add(from, to);
        }
    }

    /// Adds all that another tree has to a node, with the functions that its own become here; times are of others.
    pub(super) fn merge(
        &mut self,
        at: u32,
        other: &Tree,
        mut function: impl FnMut(FunctionId) -> FunctionId,
    ) {
        let mut numbers = vec![at; other.nodes.len()];
        for (number, node) in other.nodes.iter().enumerate() {
            let to = match number {
                0 => at,
                _ => {
                    let parent = numbers.get(node.parent as usize).copied().unwrap_or(at);
                    self.child(parent, function(node.function))
                }
            };
            numbers[number] = to;
            if let Some(sum) = self.node_mut(to) {
                sum.calls += node.calls;
                sum.instructions += node.instructions;
                sum.busy.join(&node.busy);
            }
        }
    }

    /// The same with other names of functions; paths whose names are the same then become one.
    #[must_use]
    pub fn renamed(&self, functions: &Functions, name: impl Fn(&Named) -> Named) -> (Tree, Functions) {
        let (mut tree, mut names) = (Tree::default(), Functions::default());
        tree.merge(ROOT, self, |function| names.number(&name(functions.get(function))));
        (tree, names)
    }

    /// The same paths, with the instructions of these functions only.
    #[must_use]
    pub fn only(&self, functions: &Functions, is_meant: impl Fn(&Named) -> bool) -> Tree {
        let mut tree = self.clone();
        let others = tree.nodes.iter_mut().filter(|node| !is_meant(functions.get(node.function)));
        others.for_each(|node| node.instructions = 0);
        tree
    }

    /// Instructions of all paths.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.nodes.iter().map(|node| node.instructions).sum()
    }

    /// Of each node: instructions with those of all paths behind it.
    #[must_use]
    pub fn totals(&self) -> Vec<u64> {
        self.sums(|node| node.instructions)
    }

    /// Of each node: what it has of something, with all paths behind it.
    #[must_use]
    pub fn sums(&self, of: impl Fn(&Node) -> u64) -> Vec<u64> {
        let mut sums: Vec<u64> = self.nodes.iter().map(of).collect();
        for number in (1..self.nodes.len()).rev() {
            let sum = sums[number];
            sums[self.nodes[number].parent as usize] += sum;
        }
        sums
    }

    /// Of each node: the numbers of its children, in their order.
    #[must_use]
    pub fn children(&self) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); self.nodes.len()];
        for (number, node) in (0..).zip(&self.nodes).skip(1) {
            all[node.parent as usize].push(number);
        }
        all
    }

    /// The functions of a path, the outermost first.
    #[must_use]
    pub fn path<'f>(&self, node: u32, functions: &'f Functions) -> Vec<&'f Named> {
        let mut path = Vec::new();
        let mut at = node;
        while let Some(node) = self.nodes.get(at as usize).filter(|_| at != ROOT) {
            path.push(functions.get(node.function));
            at = node.parent;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_added_by_their_paths() {
        let mut functions = Functions::default();
        let [a, b, c] = ["a", "b", "c"]
            .map(|name| functions.number(&Named { name: name.to_owned(), is_kernel: name == "c" }));
        let mut one = Tree::default();
        let at_a = one.child(ROOT, a);
        let at_b = one.child(at_a, b);
        one.spend(at_a, 5, Span::UNKNOWN, Span::UNKNOWN);
        one.spend(at_b, 7, Span::UNKNOWN, Span::UNKNOWN);
        let mut other = Tree::default();
        let (of_b, of_a) = (other.child(ROOT, b), other.child(ROOT, a));
        other.spend(of_b, 1, Span::UNKNOWN, Span::UNKNOWN);
        let of_c = other.child(of_a, c);
        other.spend(of_c, 2, Span::UNKNOWN, Span::UNKNOWN);
        one.merge(at_a, &other, |function| function);
        assert_eq!((one.total(), one.totals()[ROOT as usize]), (15, 15));
        let mut shown: Vec<String> = (1..one.nodes().len() as u32)
            .map(|node| {
                let path: Vec<String> =
                    one.path(node, &functions).iter().map(|named| named.folded()).collect();
                format!("{} {}", path.join(";"), one.nodes()[node as usize].instructions)
            })
            .collect();
        shown.sort();
        assert_eq!(shown, ["a 5", "a;a 0", "a;a;c_[k] 2", "a;b 8"]);
        assert_eq!(one.children()[at_a as usize].len(), 2);
        assert_eq!(one.only(&functions, |named| !named.is_kernel).total(), 13);
        let same = |_: &Named| Named { name: "x".to_owned(), is_kernel: false };
        let (tree, names) = one.renamed(&functions, same);
        assert_eq!((tree.nodes().len(), tree.totals()[ROOT as usize]), (4, 15));
        assert_eq!(tree.path(2, &names).len(), 2);
    }
}
