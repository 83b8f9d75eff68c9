//! Paths of calls as a picture's tree.

use mote_hardware::paths::{Functions, Node, ROOT, Tree};
use mote_view::page::Slice;

/// Most functions of a path: a picture shows fewer at once.
const DEPTH_MAX: usize = 128;
/// The smallest share of all that is a part of its own: what is less is its caller's.
const SMALLEST: u64 = 50_000;

/// The tree: what a path weighs by itself, and what is to be said of it. Paths for which `is_meant` does not hold are
/// left out, with those behind them.
pub(super) fn slices(
    (tree, functions): (&Tree, &Functions),
    name: &str,
    weight: impl Fn(&Node) -> u64,
    note: impl Fn(&Node) -> String,
    is_meant: impl Fn(u32) -> bool,
) -> Slice {
    let own: Vec<u64> = tree.nodes().iter().map(&weight).collect();
    let totals = tree.sums(&weight);
    let smallest = totals[ROOT as usize] / SMALLEST;
    let mut depths = vec![0_usize; own.len()];
    let mut made: Vec<Option<Slice>> = Vec::with_capacity(own.len());
    for (number, node) in tree.nodes().iter().enumerate() {
        let is_root = number == ROOT as usize;
        let depth = if is_root { 0 } else { depths[node.parent as usize] + 1 };
        depths[number] = depth;
        let is_shown = is_root || (made[node.parent as usize].is_some() && is_meant(number as u32));
        let is_large = is_root || (depth < DEPTH_MAX && totals[number] > smallest);
        let named = functions.get(node.function);
        let slice = || Slice {
            name: if is_root { name.to_owned() } else { named.name.clone() },
            own: own[number],
            note: if is_root { String::new() } else { note(node) },
            kernel: !is_root && named.is_kernel,
            ..Slice::default()
        };
        made.push((is_shown && is_large).then(slice));
        // What is too small for a part of its own is its caller's, with all behind it.
        if is_shown
            && !is_large
            && let Some(parent) = made[node.parent as usize].as_mut()
        {
            parent.own += totals[number];
        }
    }
    for number in (1..made.len()).rev() {
        let parent = tree.nodes()[number].parent as usize;
        if let Some(slice) = made[number].take()
            && let Some(parent) = made[parent].as_mut()
        {
            parent.parts.push(slice);
        }
    }
    made.into_iter().next().flatten().unwrap_or_default()
}
