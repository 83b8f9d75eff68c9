//! What functions cost by the way in which they were called.
//!
//! Samples say how much of a function's cost was for which caller (`mote_analysis::Costs`), one step at a time. Further
//! out it is shared out as gprof does it (Graham, Kessler, McKusick 1982): a function that costs one caller twice as
//! much as another has twice as much of each of its own callees there.

use crate::escape::safe;
use crate::export::flames;
use crate::table::{duration, short};
use mote_analysis::{Cost, CostSums};
use mote_pattern::similar;
use mote_words::{counted_grouped, cut};
use std::collections::HashMap;
use std::fmt::Write;

/// Levels of a path.
const DEPTH_MAX: usize = 64;
/// A part of all that is smaller is not followed further: it is the caller's own.
const SMALLEST: f64 = 0.0002;
/// What stands for the time.
const TIME: &str = "time";

/// Costs of one event by paths of calls.
#[derive(Debug)]
pub struct CostPaths {
    event: String,
    names: Vec<String>,
    /// Functions from the outermost to the innermost, and what the last one cost there itself.
    paths: Vec<(Vec<usize>, f64)>,
}

/// A function, with what it costs.
struct Node {
    all: f64,
    own: f64,
    /// What it called, and what of the cost of that was for it.
    calls: Vec<(usize, f64)>,
    /// What was for callers that are known.
    called: f64,
}

impl CostPaths {
    /// The paths of `costs`, by `event`: one of the counters, or `time`.
    ///
    /// # Errors
    /// For a person: that was not counted.
    pub fn new(costs: &CostSums, event: &str) -> Result<CostPaths, String> {
        let wanted = event.replace('-', "_");
        let place = costs.counters.iter().position(|counter| *counter == wanted);
        if place.is_none() && wanted != TIME {
            let all = costs.counters.iter().map(String::as_str).chain([TIME]);
            let similar = similar(&wanted, all.clone());
            let similar = if similar.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", similar.join(" or "))
            };
            let all: Vec<&str> = all.collect();
            return Err(format!("`{event}` was not counted{similar} There are {}.", all.join(", ")));
        }
        let value = |cost: &Cost| match place {
            Some(place) => cost.counts.get(place).copied().unwrap_or(0) as f64,
            None => cost.ns as f64,
        };
        let numbers: HashMap<&str, usize> = costs
            .functions
            .iter()
            .zip(0..)
            .map(|(function, number)| (function.name.as_str(), number))
            .collect();
        let node = |function: &mote_analysis::FunctionCost| Node {
            all: value(&function.total),
            own: value(&function.own),
            calls: Vec::new(),
            called: 0.0,
        };
        let mut nodes: Vec<Node> = costs.functions.iter().map(node).collect();
        for (number, function) in costs.functions.iter().enumerate() {
            for caller in &function.callers {
                let Some(place) = numbers.get(caller.name.as_str()).filter(|place| **place != number) else {
                    continue;
                };
                let part = value(&caller.total);
                if let Some(node) = nodes.get_mut(*place) {
                    node.calls.push((number, part));
                }
                if let Some(node) = nodes.get_mut(number) {
                    node.called += part;
                }
            }
        }
        let names = costs.functions.iter().map(|function| function.name.clone()).collect();
        Ok(CostPaths { event: wanted, names, paths: follow(&nodes) })
    }

    /// A flame graph, as one SVG file.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        let line = |path: &[usize]| {
            let names: Vec<String> = path.iter().map(|one| mote_symbol::folded(self.name(*one))).collect();
            names.join(";")
        };
        let lines: Vec<(String, u64)> = self
            .paths
            .iter()
            .map(|(path, own)| (line(path), own.round() as u64))
            .filter(|one| one.1 > 0)
            .collect();
        let lines = lines.iter().map(|(line, count)| (line.as_str(), *count));
        if self.event == TIME {
            flames(title, lines, duration)
        } else {
            flames(title, lines, |count| counted_grouped(count, "event", "events"))
        }
    }

    /// The paths as a tree, in lines of at most `width` columns.
    #[must_use]
    pub fn tree(&self, depth: usize, width: usize) -> String {
        let mut sums: HashMap<&[usize], f64> = HashMap::new();
        for (path, own) in &self.paths {
            for len in 0..=path.len() {
                *sums.entry(path.get(..len).unwrap_or_default()).or_default() += own;
            }
        }
        let all = sums.get(&[][..]).copied().unwrap_or(0.0).max(1.0);
        let mut paths: Vec<(&[usize], f64)> = sums.into_iter().filter(|(path, _)| !path.is_empty()).collect();
        // Below its caller, the largest first: by the sums along the path.
        let sum_of: HashMap<&[usize], f64> = paths.iter().copied().collect();
        let key = |path: &[usize]| -> Vec<(i64, usize)> {
            let sum = |len| sum_of.get(path.get(..len).unwrap_or_default()).copied().unwrap_or(0.0);
            (1..=path.len()).zip(path).map(|(len, last)| (-(sum(len) as i64), *last)).collect()
        };
        paths.sort_by_cached_key(|(path, _)| key(path));
        let mut out = format!("\n{:>8} {:>6}  function\n", self.event.replace('_', "-"), "");
        for (path, sum) in paths.iter().filter(|(path, _)| path.len() <= depth) {
            let value = if self.event == TIME { duration(*sum as u64) } else { short(*sum) };
            let name = path.last().map_or("", |last| self.name(*last));
            let line = format!(
                "{value:>8} {:>5.1}%  {}{}",
                100.0 * sum / all,
                "  ".repeat(path.len() - 1),
                safe(name)
            );
            let _ = writeln!(out, "{}", cut(&line, width));
        }
        out
    }

    fn name(&self, function: usize) -> &str {
        self.names.get(function).map_or("", String::as_str)
    }
}

/// All paths, from functions on whose callers are not known.
fn follow(nodes: &[Node]) -> Vec<(Vec<usize>, f64)> {
    let all: f64 = nodes.iter().map(|node| node.own).sum();
    let mut paths = Vec::new();
    let roots = nodes.iter().enumerate().filter_map(|(number, node)| {
        let outside = node.all - node.called;
        (outside > 0.0 && outside >= SMALLEST * all).then_some((vec![number], outside / node.all))
    });
    let mut waiting: Vec<(Vec<usize>, f64)> = roots.collect();
    while let Some((path, share)) = waiting.pop() {
        let Some(node) = path.last().and_then(|last| nodes.get(*last)) else { continue };
        let mut own = node.own * share;
        for (callee, part) in &node.calls {
            let cost = part * share;
            let whole = nodes.get(*callee).map_or(0.0, |callee| callee.all);
            if path.contains(callee) || path.len() >= DEPTH_MAX || cost < SMALLEST * all || whole <= 0.0 {
                own += cost;
                continue;
            }
            waiting.push(([path.as_slice(), &[*callee]].concat(), cost / whole));
        }
        paths.push((path, own));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_analysis::{Caller, FunctionCost};

    fn function(name: &str, all: u64, own: u64, callers: &[(&str, u64)]) -> FunctionCost {
        let cost = |count| Cost { ns: 10 * count, counts: vec![count] };
        let caller =
            |(name, count): &(&str, u64)| Caller { name: (*name).to_owned(), calls: 1, total: cost(*count) };
        FunctionCost {
            name: name.to_owned(),
            total: cost(all),
            own: cost(own),
            callers: callers.iter().map(caller).collect(),
            ..FunctionCost::default()
        }
    }

    fn costs() -> CostSums {
        // `leaf` costs `a` three times as much as `b`.
        let functions = vec![
            function("main", 1000, 100, &[]),
            function("a", 500, 200, &[("main", 500)]),
            function("b", 400, 300, &[("main", 400)]),
            function("leaf", 400, 400, &[("a", 300), ("b", 100)]),
        ];
        CostSums { counters: vec!["cache_misses".to_owned()], functions, ..CostSums::default() }
    }

    #[test]
    fn what_a_function_costs_is_shared_out_among_its_callers() {
        let paths = CostPaths::new(&costs(), "cache-misses").unwrap();
        let mut lines: Vec<(String, u64)> = paths
            .paths
            .iter()
            .map(|(path, own)| {
                (path.iter().map(|one| paths.name(*one)).collect::<Vec<_>>().join(";"), *own as u64)
            })
            .collect();
        lines.sort();
        let expected =
            [("main", 100), ("main;a", 200), ("main;a;leaf", 300), ("main;b", 300), ("main;b;leaf", 100)];
        assert_eq!(lines, expected.map(|(line, own)| (line.to_owned(), own)));
        let tree = paths.tree(usize::MAX, 80);
        let rows: Vec<&str> = tree.lines().skip(2).map(str::trim_start).collect();
        assert!(rows[0].starts_with("1.00k") && rows[0].ends_with("main"), "{tree}");
        assert!(
            rows[1].ends_with("  a") && rows[2].ends_with("    leaf") && rows[3].ends_with("  b"),
            "{tree}"
        );
        assert!(paths.svg("costs").contains(r#"data-name="leaf""#));
    }

    #[test]
    fn functions_that_call_each_other_end() {
        let functions = vec![function("a", 100, 50, &[("b", 50)]), function("b", 100, 50, &[("a", 50)])];
        let costs = CostSums { counters: vec!["n".to_owned()], functions, ..CostSums::default() };
        let paths = CostPaths::new(&costs, "n").unwrap();
        let sum: f64 = paths.paths.iter().map(|(_, own)| own).sum();
        assert!((90.0..=110.0).contains(&sum), "{sum}");
    }

    #[test]
    fn what_was_not_counted_is_said() {
        let why = CostPaths::new(&costs(), "cache-miss").unwrap_err();
        assert!(why.contains("did you mean cache_misses") && why.contains("time"), "{why}");
        assert!(CostPaths::new(&costs(), "time").is_ok());
    }
}
