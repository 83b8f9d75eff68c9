//! What two trees of paths have, and the other has not.

use super::functions::{Functions, Named};
use super::tree::{ROOT, Tree};
use std::collections::BTreeMap;

/// One of two trees, with its names.
#[derive(Clone, Copy, Debug)]
pub struct Side<'t> {
    /// Paths.
    pub tree: &'t Tree,
    /// What their functions are called.
    pub functions: &'t Functions,
}

/// A path that both have with other numbers, or that one has alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its functions, the outermost first.
    pub path: Vec<Named>,
    /// How often it was called, on each side; nothing where it is not.
    pub calls: [Option<u64>; 2],
    /// Its own instructions; of a path that one side has alone, with those of all paths behind it, which it has alone,
    /// too.
    pub instructions: [u64; 2],
    /// How many paths that are: itself, and those behind.
    pub paths: u64,
}

impl Difference {
    /// How many instructions the second side has more.
    #[must_use]
    pub fn more(&self) -> i128 {
        i128::from(self.instructions[1]) - i128::from(self.instructions[0])
    }

    /// Which side has it alone.
    #[must_use]
    pub fn alone(&self) -> Option<usize> {
        self.calls.iter().position(Option::is_none).map(|missing| 1 - missing)
    }
}

/// All differences, the largest first: by instructions, then by calls. Of a path that one side has alone, the paths
/// behind it are not told one by one.
///
/// # Cost
/// Each path is visited once.
#[must_use]
pub fn diff(sides: [Side<'_>; 2]) -> Vec<Difference> {
    let totals = sides.map(|side| side.tree.totals());
    let counts = sides.map(|side| side.tree.sums(|_| 1));
    let children = sides.map(|side| side.tree.children());
    let mut found = Vec::new();
    let mut waiting: Vec<[Option<u32>; 2]> = vec![[Some(ROOT); 2]];
    while let Some(nodes) = waiting.pop() {
        let node = |side: usize| nodes[side].and_then(|node| sides[side].tree.nodes().get(node as usize));
        let of =
            |values: &[Vec<u64>; 2], side: usize| nodes[side].map_or(0, |node| values[side][node as usize]);
        let is_everywhere = nodes.iter().all(Option::is_some);
        let own = |side: usize| match is_everywhere {
            true => node(side).map_or(0, |node| node.instructions),
            false => of(&totals, side),
        };
        let calls = [0, 1].map(|side| node(side).map(|node| node.calls));
        let instructions = [own(0), own(1)];
        let is_same = calls[0] == calls[1] && instructions[0] == instructions[1];
        // The root is no path.
        if !is_same && nodes != [Some(ROOT); 2] {
            let paths = if is_everywhere { 1 } else { of(&counts, 0).max(of(&counts, 1)) };
            found.push(Difference { path: path(sides, nodes), calls, instructions, paths });
        }
        if is_everywhere {
            waiting.extend(pairs(sides, &children, nodes));
        }
    }
    let calls = |one: &Difference| one.calls[0].unwrap_or(0).abs_diff(one.calls[1].unwrap_or(0));
    found.sort_by(|one, other| {
        let key = |one: &Difference| (one.more().unsigned_abs(), calls(one));
        key(other).cmp(&key(one)).then_with(|| one.path.cmp(&other.path))
    });
    found
}

fn path(sides: [Side<'_>; 2], nodes: [Option<u32>; 2]) -> Vec<Named> {
    let path = |side: usize| {
        let Side { tree, functions } = sides[side];
        nodes[side].map(|node| tree.path(node, functions).into_iter().cloned().collect())
    };
    path(0).or_else(|| path(1)).unwrap_or_default()
}

/// The children of two nodes, by name.
fn pairs(
    sides: [Side<'_>; 2],
    children: &[Vec<Vec<u32>>; 2],
    nodes: [Option<u32>; 2],
) -> Vec<[Option<u32>; 2]> {
    let mut by_name: BTreeMap<&Named, [Option<u32>; 2]> = BTreeMap::new();
    for side in [0, 1] {
        let Side { tree, functions } = sides[side];
        for child in nodes[side].and_then(|node| children[side].get(node as usize)).into_iter().flatten() {
            let named = functions.get(tree.nodes()[*child as usize].function);
            by_name.entry(named).or_default()[side] = Some(*child);
        }
    }
    by_name.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_pt::time::Span;

    /// A tree of lines `a;b;c`, each with its own instructions.
    fn tree(lines: &[(&str, u64)], functions: &mut Functions) -> Tree {
        let mut tree = Tree::default();
        for (line, own) in lines {
            let mut node = ROOT;
            for name in line.split(';') {
                node = tree.child(node, functions.number(&Named { name: name.to_owned(), is_kernel: false }));
            }
            tree.spend(node, *own, Span::UNKNOWN, Span::UNKNOWN);
            tree.node_mut(node).into_iter().for_each(|node| node.calls += 1);
        }
        tree
    }

    #[test]
    fn what_one_has_alone_is_told_once() {
        let (mut of_a, mut of_b) = (Functions::default(), Functions::default());
        // Names have other numbers.
        of_b.number(&Named { name: "extra".to_owned(), is_kernel: false });
        let a = tree(&[("main", 10), ("main;work", 50), ("main;gone", 3)], &mut of_a);
        let b =
            tree(&[("main", 12), ("main;work", 50), ("main;extra", 20), ("main;extra;deep", 9)], &mut of_b);
        let sides = [Side { tree: &a, functions: &of_a }, Side { tree: &b, functions: &of_b }];
        let shown: Vec<String> = diff(sides)
            .iter()
            .map(|one| {
                let path: Vec<&str> = one.path.iter().map(|named| named.name.as_str()).collect();
                format!("{:+} {} {:?} {}", one.more(), path.join(";"), one.alone(), one.paths)
            })
            .collect();
        let expect = ["+29 main;extra Some(1) 2", "-3 main;gone Some(0) 1", "+2 main None 1"];
        assert_eq!(shown, expect);
        assert!(diff([sides[0], sides[0]]).is_empty());
    }
}
