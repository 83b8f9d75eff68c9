//! The table of what functions cost.

use super::columns::{Columns, Number, Wanted, number};
use super::numbers::{duration, short, tight};
use super::{more, say};
use crate::escape::safe;
use mote_analysis::{Cost, CostSums, FunctionCost};
use mote_words::counted_grouped;
use std::fmt::Result;

const OF_ALL: &str = "all together";
const OF_ONE: &str = "a call";
/// Columns of names: usual ones, and the fewest.
const NAMES: (usize, usize) = (30, 24);
/// Columns of a count.
const COUNT: usize = 8;
/// Counters of cycles, instructions, and the end of the names of those that are set against instructions.
const CYCLES: &str = "cycles";
const INSTRUCTIONS: &str = "instructions";
const MISSES: &str = "misses";

/// What is shown of what functions cost.
#[derive(Clone, Copy, Debug)]
pub struct CostTable<'a> {
    /// The costs of all functions.
    pub costs: &'a CostSums,
    /// Most rows.
    pub rows: usize,
    /// Functions' own parts, without what they called.
    pub is_own: bool,
}

/// A number that follows from counts.
enum Ratio {
    /// Of one to another.
    Plain(usize, usize),
    /// Of a thousand of another.
    Thousand(usize, usize),
}

impl Ratio {
    fn of(&self, cost: &Cost) -> Option<f64> {
        let count = |at: usize| cost.counts.get(at).map(|count| *count as f64);
        let (above, below, scale) = match *self {
            Ratio::Plain(above, below) => (count(above)?, count(below)?, 1.0),
            Ratio::Thousand(above, below) => (count(above)?, count(below)?, 1000.0),
        };
        (below > 0.0).then(|| scale * above / below)
    }
}

/// The ratios of these counters, with titles: instructions to a cycle, misses to a thousand instructions.
fn ratios(counters: &[String]) -> Vec<(String, Ratio)> {
    let place = |name: &str| counters.iter().position(|counter| counter == name);
    let Some(instructions) = place(INSTRUCTIONS) else { return Vec::new() };
    let cycles = place(CYCLES).map(|cycles| ("IPC".to_owned(), Ratio::Plain(instructions, cycles)));
    let misses = counters.iter().enumerate().filter(|(_, name)| name.ends_with(MISSES));
    let misses = misses.map(|(at, name)| {
        let what = name.trim_end_matches(MISSES).trim_end_matches(['_', '-']);
        (format!("{what}/1k"), Ratio::Thousand(at, instructions))
    });
    cycles.into_iter().chain(misses).collect()
}

impl CostTable<'_> {
    /// The table in lines of at most `width` columns, behind an empty line; empty without functions.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        super::lines(width, |out, width| self.write(out, width))
    }

    fn write(&self, out: &mut String, width: usize) -> Result {
        let CostSums { counters, functions, .. } = self.costs;
        if functions.is_empty() {
            return Ok(());
        }
        let ratios = ratios(counters);
        let titles: Vec<String> = counters.iter().map(|name| title(name)).collect();
        let mut numbers: Vec<Number<'_>> =
            vec![number("calls", 10, 0), number("total", 7, 0).of(OF_ALL), number("self", 7, 0).of(OF_ALL)];
        numbers.push(number("time", 7, 0).of(OF_ONE));
        let rank = |at: usize| u8::try_from(at + 1).unwrap_or(u8::MAX);
        numbers.extend((0..).zip(&titles).map(|(at, name)| number(name, COUNT, rank(at)).of(OF_ONE)));
        numbers.extend(ratios.iter().map(|(name, _)| number(name, COUNT, 1)));
        let shown = || functions.iter().take(self.rows);
        let names = shown().map(|function| safe(&function.name)).collect();
        let wanted = Wanted { title: "function", names, name: NAMES, numbers: &numbers, rest: ("", 0) };
        let table = Columns::begin(out, width, &wanted)?.with_whole_names();
        for (function, name) in shown().zip(&wanted.names) {
            table.row(out, name, &self.numbers(function, &ratios), "")?;
        }
        let left = functions.len().saturating_sub(self.rows);
        more(out, width, left, ("more function", "more functions"))?;
        self.say_what_is_odd(out, width)
    }

    fn numbers(&self, function: &FunctionCost, ratios: &[(String, Ratio)]) -> Vec<String> {
        let cost = if self.is_own { &function.own } else { &function.total };
        let calls = tight(function.calls, 9);
        let calls = if function.is_estimate { format!("~{calls}") } else { calls };
        let each = |sum: u64| sum as f64 / function.calls.max(1) as f64;
        let time = duration(each(cost.ns).round() as u64);
        let counts = cost.counts.iter().map(|count| short(each(*count)));
        let ratios = ratios.iter().map(|(_, ratio)| ratio.of(cost).map_or_else(|| "-".to_owned(), short));
        [calls, duration(function.total.ns), duration(function.own.ns), time]
            .into_iter()
            .chain(counts)
            .chain(ratios)
            .collect()
    }

    fn say_what_is_odd(&self, out: &mut String, width: usize) -> Result {
        let CostSums { functions, ran_ns, took_ns, .. } = self.costs;
        let samples = functions.iter().map(|function| function.samples).sum();
        let mut text = counted_grouped(samples, "sample", "samples");
        if *ran_ns > 0 {
            let part = 100.0 * *took_ns as f64 / *ran_ns as f64;
            text += &format!(", which took {part:.1} % of the time that the program ran");
        }
        if functions.iter().any(|function| function.is_estimate) {
            text += "; ~ is an estimate: of these functions only some calls were recorded";
        }
        say(out, width, &text, 2)?;
        let not_counted: u64 = functions.iter().map(|function| function.not_counted).sum();
        if not_counted > 0 {
            let samples = counted_grouped(not_counted, "sample is", "samples are");
            let why = "in no count: counters were shared with others, or could not be opened";
            say(out, width, &format!("{samples} {why}"), 2)?;
        }
        Ok(())
    }
}

/// A counter's name in the head of its column.
fn title(counter: &str) -> String {
    let name = counter.replace('_', "-");
    let short = [
        ("task-clock", "cpu ns"),
        ("context-switches", "switches"),
        ("instructions", "instr"),
        ("page-faults", "faults"),
        ("migrations", "migr"),
        ("cache-misses", "c-miss"),
        ("branch-misses", "br-miss"),
    ];
    let known = short.iter().find(|(long, _)| *long == name);
    let name = known.map_or(name.as_str(), |(_, short)| short);
    name.chars().take(COUNT).collect()
}
