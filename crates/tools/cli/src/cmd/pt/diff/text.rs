//! Tables for people.

use super::found::Found;
use crate::cmd::pt::differences::{path, signed};
use mote_hardware::paths::{Difference, Syscall};
use mote_words::grouped;
use std::collections::BTreeSet;
use std::fmt::{Result, Write};

/// All that was found.
pub(super) fn page(found: &Found) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = calls(found, &mut out).and_then(|()| paths(found, &mut out));
    out
}

/// System calls: how many of each, and instructions of one.
fn calls(found: &Found, out: &mut String) -> Result {
    let [first, second] = &found.sides;
    if !found.is_of_syscalls {
        return Ok(());
    }
    let [a, b, more] = ["mean of A", "mean of B", "difference"];
    writeln!(out, "{:>9} {:>9} {a:>12} {b:>12} {more:>12}  system call", "calls: A", "B")?;
    let names: BTreeSet<&String> = first.calls.keys().chain(second.calls.keys()).collect();
    for name in names {
        let of = [&first.calls, &second.calls].map(|calls| calls.get(name));
        let count = of.map(|call| call.map_or(0, |call| call.instructions.count())).map(grouped);
        let mean = of.map(|call| call.and_then(|call: &Syscall| call.instructions.mean()));
        let [a, b] = mean.map(|mean| mean.map_or_else(|| "-".to_owned(), grouped));
        let more = match mean {
            [Some(a), Some(b)] => signed(i128::from(b) - i128::from(a)),
            _ => "-".to_owned(),
        };
        writeln!(out, "{:>9} {:>9} {a:>12} {b:>12} {more:>12}  {name}", count[0], count[1])?;
    }
    writeln!(out)
}

fn paths(found: &Found, out: &mut String) -> Result {
    let [a, b] = [0, 1].map(|side| found.sides[side].tree.total());
    let [of_a, of_b, more] = ["A", "B", "difference"];
    writeln!(out, "{of_a:>14} {of_b:>14} {more:>14}  {:<7} path", "only in")?;
    let all = signed(i128::from(b) - i128::from(a));
    writeln!(out, "{:>14} {:>14} {all:>14}  {:<7} all instructions", grouped(a), grouped(b), "")?;
    for difference in found.differences.iter().take(found.limit) {
        line(difference, out)?;
    }
    match found.differences.len().checked_sub(found.limit).filter(|left| *left > 0) {
        Some(left) => writeln!(out, "{:>14} more: -n, or --format json", grouped(left as u64)),
        None => Ok(()),
    }
}

fn line(one: &Difference, out: &mut String) -> Result {
    let alone = match one.alone() {
        Some(0) => "A",
        Some(_) => "B",
        None => "",
    };
    let shown = |side: usize| match one.calls[side] {
        Some(_) => grouped(one.instructions[side]),
        None => "-".to_owned(),
    };
    let behind = match one.paths {
        1 => String::new(),
        paths => format!(" (with {} behind it)", grouped(paths - 1)),
    };
    let calls = match one.calls {
        [Some(a), Some(b)] if a != b => format!(" (calls: {} and {})", grouped(a), grouped(b)),
        [None, Some(calls)] | [Some(calls), None] if calls > 1 => format!(" ({} calls)", grouped(calls)),
        _ => String::new(),
    };
    let (a, b, more) = (shown(0), shown(1), signed(one.more()));
    writeln!(out, "{a:>14} {b:>14} {more:>14}  {alone:<7} {}{behind}{calls}", path(one))
}
