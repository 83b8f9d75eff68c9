//! The table of functions whose calls were recorded.

use super::columns::{Columns, Number, Wanted, number};
use super::numbers::{duration, tight};
use super::{more, say};
use crate::escape::safe;
use mote_analysis::{FunctionCount, Interval};
use mote_words::counted_grouped;
use std::fmt::Result;

const OF_ALL: &str = "all together";
const OF_ONE: &str = "how long";

/// With how long they took.
const TIMES: [Number<'static>; 8] = [
    number("calls", 10, 0),
    number("total", 7, 0).of(OF_ALL),
    number("self", 7, 0).of(OF_ALL),
    number("min", 7, 5).of(OF_ONE),
    number("mean", 7, 2).of(OF_ONE),
    number("p50", 7, 4).of(OF_ONE),
    number("p99", 7, 1).of(OF_ONE),
    number("max", 7, 0).of(OF_ONE),
];
/// Without.
const COUNTS: [Number<'static>; 1] = [number("calls", 10, 0)];
/// Columns of names: usual ones, and the fewest.
const NAMES: (usize, usize) = (30, 24);

/// What is shown of functions.
#[derive(Clone, Copy, Debug)]
pub struct FunctionTable<'a> {
    /// In the order in which they are shown.
    pub functions: &'a [FunctionCount],
    /// Calls whose own time and total are estimates.
    pub estimates: u64,
    /// Most rows.
    pub rows: usize,
    /// Only the numbers of calls.
    pub counts_only: bool,
}

impl FunctionTable<'_> {
    /// The table in lines of at most `width` columns, behind an empty line; empty without functions.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        super::lines(width, |out, width| self.write(out, width))
    }

    /// Appends it.
    pub(super) fn write(&self, out: &mut String, width: usize) -> Result {
        if self.functions.is_empty() {
            return Ok(());
        }
        let shown = || self.functions.iter().take(self.rows);
        let numbers: &[Number<'_>] = if self.counts_only { &COUNTS } else { &TIMES };
        let names = shown().map(|function| safe(&function.name)).collect();
        let wanted = Wanted { title: "function", names, name: NAMES, numbers, rest: ("", 0) };
        let table = Columns::begin(out, width, &wanted)?.with_whole_names();
        for (function, name) in shown().zip(&wanted.names) {
            let Interval { min, mean, p50, p99, max, .. } = function.duration_ns;
            let times = [function.total_ns, function.total_self_ns, min, mean, p50, p99, max];
            let numbers: Vec<String> =
                std::iter::once(tight(function.calls, 10)).chain(times.map(duration)).collect();
            table.row(out, name, &numbers, "")?;
        }
        let left = self.functions.len().saturating_sub(self.rows);
        more(out, width, left, ("more function", "more functions"))?;
        if self.estimates > 0 && !self.counts_only {
            let calls = counted_grouped(self.estimates, "call", "calls");
            let text = "are estimates: their threads had too many others inside of them";
            say(out, width, &format!("total and self of {calls} {text}"), 2)?;
        }
        Ok(())
    }
}

/// Calls of a function that were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// The function.
    pub name: String,
    /// How many calls began.
    pub calls: u64,
    /// How many of them have not ended, where that was counted.
    pub under_way: Option<u64>,
}

/// What is shown of counted calls.
#[derive(Clone, Copy, Debug)]
pub struct CallCountTable<'a> {
    /// In the order in which they are shown.
    pub functions: &'a [CallCount],
}

/// Columns of counted calls.
const CALL_COUNTS: [Number<'static>; 2] = [number("calls", 12, 0), number("under way", 10, 0)];

impl CallCountTable<'_> {
    /// The table in lines of at most `width` columns, behind an empty line; empty without functions.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        super::lines(width, |out, width| self.write(out, width))
    }

    fn write(&self, out: &mut String, width: usize) -> Result {
        let Some(first) = self.functions.first() else { return Ok(()) };
        let numbers = if first.under_way.is_some() { &CALL_COUNTS[..] } else { &CALL_COUNTS[..1] };
        let names = self.functions.iter().map(|function| safe(&function.name)).collect();
        let wanted = Wanted { title: "function", names, name: NAMES, numbers, rest: ("", 0) };
        let table = Columns::begin(out, width, &wanted)?.with_whole_names();
        for (function, name) in self.functions.iter().zip(&wanted.names) {
            let under_way = function.under_way.map(|under_way| tight(under_way, 10));
            let numbers: Vec<String> = std::iter::once(tight(function.calls, 12)).chain(under_way).collect();
            table.row(out, name, &numbers, "")?;
        }
        Ok(())
    }
}
