//! Where time was spent, by samples: functions and call trees with how many samples each has; or where threads were
//! without a CPU, with how long.

use crate::escape::safe;
use crate::off_cpu::OffCpu;
use crate::stack::{Stack, Stacks};
use crate::table::duration;
use mote_analysis::Analysis;
use mote_symbol::Location;
use mote_timeline::Record;
use mote_words::{counted_grouped, cut, grouped};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// Field of a sample that says whether its stack was followed to its begin.
const COMPLETE: &str = "complete";
/// Levels of a tree.
const DEPTH_MAX: usize = 200;
/// How functions of the kernel begin that every thread leaves its CPU through: they say nothing of why.
const LEAVING: [&str; 4] = ["__schedule", "schedule", "preempt_schedule", "__cond_resched"];

/// Counts samples by function, and by call path; ends as a [`Hotspots`]. Events with stacks are samples.
pub struct Sampled<'a> {
    stacks: &'a mut Stacks,
    /// Functions by name and module.
    known: HashMap<(String, String), usize>,
    names: Vec<(String, String)>,
    /// Index in `paths` by process, kernel's and process's addresses.
    seen: HashMap<(u32, Vec<u64>), usize>,
    /// Functions from the outermost to the innermost, and how many samples had them.
    paths: Vec<(Vec<usize>, u64)>,
    complete: Option<u64>,
    events: u64,
    off_cpu: OffCpu,
    /// Times without a CPU are what is counted.
    is_off_cpu: bool,
}

/// What samples came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hotspots {
    /// How many there are; of times without a CPU their sum.
    pub samples: u64,
    /// What numbers are: `samples`, or `ns`.
    pub unit: &'static str,
    /// How many events there are.
    pub events: u64,
    /// How many of them have a stack that was followed to its begin; `None` where that is not known.
    pub complete: Option<u64>,
    /// Functions, those with the most samples of their own first.
    pub functions: Vec<Hotspot>,
    /// From the outermost functions on.
    pub tree: Vec<Branch>,
}

/// Samples of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hotspot {
    /// Its name, or its address.
    pub name: String,
    /// The file, or `kernel`.
    pub module: String,
    /// Samples in itself.
    #[serde(rename = "self")]
    pub own: u64,
    /// Samples in itself and in what it called.
    pub total: u64,
}

/// Samples of a function that was called in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// The file, or `kernel`.
    pub module: String,
    /// Samples in itself and in what it called here.
    pub total: u64,
    /// What it called, those with the most samples first.
    pub calls: Vec<Branch>,
}

impl<'a> Sampled<'a> {
    /// No samples so far; `stacks` reads and names them.
    #[must_use]
    pub fn new(stacks: &'a mut Stacks) -> Sampled<'a> {
        Sampled {
            stacks,
            known: HashMap::new(),
            names: Vec::new(),
            seen: HashMap::new(),
            paths: Vec::new(),
            complete: None,
            events: 0,
            off_cpu: OffCpu::default(),
            is_off_cpu: false,
        }
    }

    /// Times without a CPU only, which are left out else; they count in nanoseconds.
    #[must_use]
    pub fn of_off_cpu(self) -> Sampled<'a> {
        Sampled { is_off_cpu: true, ..self }
    }

    /// The functions of a stack, from the outermost on.
    fn path(&mut self, stack: &Stack) -> Vec<usize> {
        let mut path = Vec::new();
        let is_leaving = |frame: &Arc<Location>| {
            let first = frame.functions.first();
            first.is_some_and(|function| LEAVING.iter().any(|begin| function.name.starts_with(begin)))
        };
        let kernel = stack.kernel.iter().skip_while(|frame| self.is_off_cpu && is_leaving(frame));
        for frame in kernel.chain(&stack.user) {
            let module = frame.module.rsplit('/').next().unwrap_or_default().to_owned();
            let names: Vec<String> = match frame.functions.as_slice() {
                [] => vec![format!("{:#x}", frame.begin.unwrap_or(frame.module_offset))],
                functions => functions.iter().map(|function| function.name.to_string()).collect(),
            };
            for name in names {
                let next = self.names.len();
                let at = *self.known.entry((name, module.clone())).or_insert_with_key(|key| {
                    self.names.push(key.clone());
                    next
                });
                path.push(at);
            }
        }
        path.reverse();
        path
    }
}

impl Analysis for Sampled<'_> {
    type Output = Hotspots;

    fn event(&mut self, record: &Record<'_>) {
        let weight = match (self.off_cpu.duration(record), self.is_off_cpu) {
            (None, false) => 1,
            (Some(duration), true) => duration,
            _ => return,
        };
        let Some((kernel, user)) = self.stacks.addresses(record) else { return };
        let key = (record.pid().or(record.tid()).unwrap_or(0), [kernel, &[0], user].concat());
        let next = self.paths.len();
        let at = *self.seen.entry(key).or_insert(next);
        if at == next {
            let stack = self.stacks.named(record);
            let path = self.path(&stack);
            self.paths.push((path, 0));
        }
        if let Some((_, count)) = self.paths.get_mut(at) {
            *count = count.saturating_add(weight);
        }
        self.events += 1;
        let complete = record.event().and_then(|event| event.payload().get(COMPLETE)?.integer());
        if let Some(complete) = complete {
            *self.complete.get_or_insert(0) += u64::from(complete != 0);
        }
    }

    fn finish(self) -> Hotspots {
        let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let mut tree = Branches::default();
        let mut samples = 0;
        for (path, count) in &self.paths {
            samples += count;
            if let Some(last) = path.last() {
                sums.entry(*last).or_default().0 += count;
            }
            // A function that calls itself has its samples once.
            let each: HashSet<usize> = path.iter().copied().collect();
            each.into_iter().for_each(|function| sums.entry(function).or_default().1 += count);
            tree.add(path.get(..DEPTH_MAX).unwrap_or(path), *count);
        }
        let name = |function: usize| self.names.get(function).cloned().unwrap_or_default();
        let hotspot = |(function, (own, total))| {
            let (name, module) = name(function);
            Hotspot { name, module, own, total }
        };
        let mut functions: Vec<Hotspot> = sums.into_iter().map(hotspot).collect();
        functions.sort_by(|a, b| (b.own, b.total, &a.name).cmp(&(a.own, a.total, &b.name)));
        let (complete, events) = (self.complete, self.events);
        let unit = if self.is_off_cpu { NANOSECONDS } else { SAMPLES };
        Hotspots { samples, unit, events, complete, functions, tree: tree.named(&name) }
    }
}

/// Functions that were called at one place.
#[derive(Debug, Default)]
struct Branches(BTreeMap<usize, (u64, Branches)>);

impl Branches {
    fn add(&mut self, mut path: &[usize], count: u64) {
        let mut at = self;
        while let [function, rest @ ..] = path {
            let (total, calls) = at.0.entry(*function).or_default();
            *total += count;
            (at, path) = (calls, rest);
        }
    }

    fn named(self, name: &impl Fn(usize) -> (String, String)) -> Vec<Branch> {
        let branch = |(function, (total, calls)): (usize, (u64, Branches))| {
            let (name_of, module) = name(function);
            Branch { name: name_of, module, total, calls: calls.named(name) }
        };
        let mut branches: Vec<Branch> = self.0.into_iter().map(branch).collect();
        branches.sort_by(|a, b| (b.total, &a.name).cmp(&(a.total, &b.name)));
        branches
    }
}

const SAMPLES: &str = "samples";
const NANOSECONDS: &str = "ns";

/// Least share of all samples that a line of a tree has, in thousandths.
const SHARE_MIN: u64 = 5;

impl Hotspots {
    /// The functions as a table of at most `rows` lines of `width` columns.
    #[must_use]
    pub fn table(&self, rows: usize, width: usize) -> String {
        let mut out = self.head();
        if self.functions.is_empty() {
            return out;
        }
        let _ = writeln!(out, "   self          total         function");
        for function in self.functions.iter().take(rows) {
            let (own, total) = (self.share(function.own), self.share(function.total));
            let line = format!(
                "{own} {:>7} {total} {:>7}  {}{}",
                self.number(function.own),
                self.number(function.total),
                safe(&function.name),
                place(&function.module)
            );
            let _ = writeln!(out, "{}", cut(&line, width));
        }
        let more = self.functions.len().saturating_sub(rows);
        if more > 0 {
            let _ = writeln!(out, "and {}", counted_grouped(more as u64, "more function", "more functions"));
        }
        out
    }

    /// Calls as a tree, from the outermost functions on: of those with at least half a percent of all samples.
    #[must_use]
    pub fn tree(&self, depth: usize, width: usize) -> String {
        let mut out = self.head();
        let _ = writeln!(out, "   total        function");
        let mut left: Vec<(&Branch, usize)> = self.tree.iter().rev().map(|branch| (branch, 0)).collect();
        while let Some((branch, level)) = left.pop() {
            if level >= depth || branch.total < self.samples / 1000 * SHARE_MIN {
                continue;
            }
            let line = format!(
                "{} {:>7}  {:indent$}{}{}",
                self.share(branch.total),
                self.number(branch.total),
                "",
                safe(&branch.name),
                place(&branch.module),
                indent = 2 * level
            );
            let _ = writeln!(out, "{}", cut(&line, width));
            left.extend(branch.calls.iter().rev().map(|call| (call, level + 1)));
        }
        out
    }

    fn head(&self) -> String {
        let events = if self.unit == NANOSECONDS {
            let times = counted_grouped(self.events, "time", "times");
            format!("{times} without a CPU, {} in all threads together", duration(self.samples))
        } else {
            counted_grouped(self.events, "sample", "samples")
        };
        let whole = match self.complete {
            Some(complete) if self.events > 0 => {
                let share = 100.0 * complete as f64 / self.events as f64;
                format!(", {share:.1} % with their whole stack")
            }
            _ => String::new(),
        };
        format!("{events}{whole}\n")
    }

    fn number(&self, count: u64) -> String {
        if self.unit == NANOSECONDS { duration(count) } else { grouped(count) }
    }

    fn share(&self, count: u64) -> String {
        format!("{:>5.1} %", 100.0 * count as f64 / self.samples.max(1) as f64)
    }
}

/// Where a function is from, behind its name.
fn place(module: &str) -> String {
    if module.is_empty() { String::new() } else { format!(" [{}]", safe(module)) }
}
