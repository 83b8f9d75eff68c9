//! Tables and trees for people.

use super::weight::{Weight, paths};
use crate::cmd::pt::gather::Gathered;
use crate::cmd::pt::times;
use mote_hardware::paths::{ROOT, Syscall};
use mote_pt::time::Span;
use mote_words::{fitted, grouped};
use std::fmt::{Result, Write};

/// What paths weigh, how many functions they have at most, and which share of a system call at least, in percent.
type Shown = (Weight, usize, f64);

/// All that was found.
pub(super) fn page(found: &Gathered, shown: Shown) -> String {
    let mut out = String::new();
    if !found.of.calls.is_empty() {
        // Writing to a string does not fail.
        let _ = table(found, &mut out).and_then(|()| trees(found, shown, &mut out));
    }
    out
}

fn table(found: &Gathered, out: &mut String) -> Result {
    let times =
        if found.times.are_known { format!(" {:>22} {:>22}", "time: median", "99 %") } else { String::new() };
    let [calls, median, mean, high, max] = ["calls", "median", "mean", "99 %", "most instructions"];
    writeln!(out, "{calls:>9} {median:>10} {mean:>10} {high:>10} {max:>18}{times}  system call")?;
    let mut all: Vec<_> = found.of.calls.iter().collect();
    let sum = |Syscall { instructions, .. }: &Syscall| {
        u128::from(instructions.mean().unwrap_or(0)) * u128::from(instructions.count())
    };
    all.sort_by(|(one, first), (other, second)| sum(second).cmp(&sum(first)).then(one.cmp(other)));
    for (name, call) in all {
        let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), grouped);
        let of = &call.instructions;
        let [median, mean, high, max] = [of.quantile(500), of.mean(), of.quantile(990), of.max()].map(shown);
        let times = if found.times.are_known {
            let time = |permille: u64| {
                times::duration(Span {
                    low: call.least_ns.quantile(permille),
                    high: call.most_ns.quantile(permille),
                })
            };
            format!(" {:>22} {:>22}", time(500), time(990))
        } else {
            String::new()
        };
        writeln!(
            out,
            "{:>9} {median:>10} {mean:>10} {high:>10} {max:>18}{times}  {name}",
            grouped(of.count())
        )?;
    }
    Ok(())
}

/// The paths of each system call, the heaviest first.
fn trees(found: &Gathered, (by, deepest, least): Shown, out: &mut String) -> Result {
    let tree = &found.of.tree;
    let totals = tree.sums(|node| by.of(node, found.times));
    let (mut children, is_meant) = (tree.children(), paths(found));
    for children in &mut children {
        children.sort_by_key(|child| (u64::MAX - totals[*child as usize], *child));
    }
    let weight = match by {
        Weight::Instructions => "instructions",
        Weight::Time => "time at most",
    };
    let mut waiting: Vec<(u32, usize, u64)> = Vec::new();
    waiting.extend(children[ROOT as usize].iter().rev().map(|child| (*child, 0, totals[*child as usize])));
    while let Some((number, depth, whole)) = waiting.pop() {
        let (node, total) = (&tree.nodes()[number as usize], totals[number as usize]);
        let share = 100.0 * total as f64 / whole.max(1) as f64;
        if !is_meant[number as usize] || share < least || depth > deepest {
            continue;
        }
        let name = &found.functions.get(node.function).name;
        if depth == 0 {
            writeln!(out, "\n{weight:>16} {:>14} {:>8} {:>9}  {name}", "own", "", "calls")?;
        }
        let shown = |weight: u64| match by {
            Weight::Instructions => grouped(weight),
            Weight::Time => by.words(weight),
        };
        let own = by.of(node, found.times);
        let (total, own, calls) = (shown(total), shown(own), grouped(node.calls));
        let name = format!("{:depth$}{}", "", fitted(name, 80), depth = 2 * depth);
        writeln!(out, "{total:>16} {own:>14} {share:>6.1} % {calls:>9}  {name}")?;
        waiting.extend(children[number as usize].iter().rev().map(|child| (*child, depth + 1, whole)));
    }
    Ok(())
}
