//! Trees as lines.

use super::items::{Item, What};
use crate::escape;
use crate::table::duration;
use mote_analysis::CallClasses;
use std::io::Write;

/// Deepest indentation.
const DEPTH_MAX: usize = 64;

/// How trees are printed.
#[derive(Debug)]
pub(super) struct Printer {
    /// Names of functions as escaped text.
    names: Vec<Vec<u8>>,
    /// Lines below the first one that are shown.
    pub(super) depth: usize,
}

impl Printer {
    pub(super) fn new(calls: &CallClasses) -> Printer {
        let name = |function| {
            let mut name = Vec::new();
            escape::escaped(&mut name, calls.name(function).as_bytes());
            name
        };
        Printer { names: (0..calls.functions()).map(name).collect(), depth: usize::MAX }
    }

    /// Appends a tree, behind its place. Returns how many bytes it has taken.
    pub(super) fn print(&self, out: &mut Vec<u8>, root: Item) -> usize {
        let (since, mut bytes) = (root.time, 0);
        // Not by recursion: how deep spans and calls are nested is the program's affair.
        let mut waiting: Vec<(usize, Item)> = vec![(0, root)];
        while let Some((depth, mut item)) = waiting.pop() {
            bytes += item.bytes();
            if depth <= self.depth {
                self.line(out, depth, &item, since);
            }
            let below = match &mut item.what {
                What::Event(_) => continue,
                What::Span(span) => &mut span.items,
                What::Call(called) => &mut called.items,
            };
            waiting.extend(below.drain(..).rev().map(|item| (depth + 1, item)));
        }
        bytes
    }

    fn line(&self, out: &mut Vec<u8>, depth: usize, item: &Item, since: i64) {
        let depth = depth.min(DEPTH_MAX);
        if depth > 0 {
            let offset = duration(item.time.abs_diff(since));
            let _ = write!(out, "  +{offset:<8}{:1$}", "", 2 * depth - 1);
        }
        let indent = 2 * depth + 12;
        match &item.what {
            What::Event(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            What::Span(span) => {
                span.line(out);
                if span.more > 0 {
                    let more = span.more;
                    let _ = writeln!(out, "{:indent$}*** {more} more: too many to keep in memory ***", "");
                }
            }
            What::Call(called) => {
                called.line(out, self.names.get(called.call.function).map_or(b"", Vec::as_slice));
                if called.is_cut {
                    let _ = writeln!(out, "{:indent$}*** more above: too many to keep in memory ***", "");
                }
            }
        }
    }
}
