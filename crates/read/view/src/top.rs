//! The most frequent stacks of each kind of event, as a table.

use crate::stack::{Stack, Stacks};
use mote_analysis::Analysis;
use mote_timeline::{ClassId, Record, Trace};
use mote_words::{counted, middle};
use std::collections::HashMap;
use std::fmt::Write;

/// Stacks that are shown of one kind of event.
const STACKS: usize = 5;
/// Functions that are shown of one stack.
const LINES: usize = 24;

/// Counts stacks by kind of event; ends as a table of those that came most often, empty when no event has one.
pub struct TopStacks<'a> {
    trace: &'a Trace,
    stacks: &'a mut Stacks,
    /// Index in `counts` by kind of event, process, addresses.
    seen: HashMap<(u32, u32, Vec<u64>), usize>,
    /// Kind of event, functions, how often.
    counts: Vec<(u32, Vec<String>, u64)>,
    /// Columns of a line.
    width: usize,
}

impl<'a> TopStacks<'a> {
    /// No stack so far of `trace`; `stacks` reads and names them. The table has lines of `width` columns.
    #[must_use]
    pub fn new(trace: &'a Trace, stacks: &'a mut Stacks, width: usize) -> TopStacks<'a> {
        TopStacks { trace, stacks, seen: HashMap::new(), counts: Vec::new(), width }
    }
}

impl Analysis for TopStacks<'_> {
    type Output = String;

    fn event(&mut self, record: &Record<'_>) {
        let Some((kernel, user)) = self.stacks.addresses(record) else { return };
        let addresses = [kernel, &[0], user].concat();
        let key = (record.class().0, record.pid().or(record.tid()).unwrap_or(0), addresses);
        let next = self.counts.len();
        let at = *self.seen.entry(key).or_insert(next);
        if at == next {
            self.counts.push((record.class().0, lines(&self.stacks.named(record)), 0));
        }
        if let Some((.., count)) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    fn finish(self) -> String {
        let mut by_class: HashMap<u32, HashMap<&[String], u64>> = HashMap::new();
        for (class, lines, count) in &self.counts {
            *by_class.entry(*class).or_default().entry(lines).or_default() += count;
        }
        let mut classes: Vec<_> = by_class.into_iter().collect();
        let total = |stacks: &HashMap<&[String], u64>| stacks.values().sum::<u64>();
        classes.sort_by_key(|(class, stacks)| (u64::MAX - total(stacks), *class));
        let mut out = String::new();
        for (class, stacks) in classes {
            let name = self.trace.class(ClassId(class)).map_or("", |(_, class)| class.name.as_str());
            let _ = of_class(&mut out, name, total(&stacks), stacks, self.width);
        }
        out
    }
}

fn of_class(
    out: &mut String,
    name: &str,
    total: u64,
    stacks: HashMap<&[String], u64>,
    width: usize,
) -> std::fmt::Result {
    let mut stacks: Vec<_> = stacks.into_iter().collect();
    stacks.sort_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
    let numbers = [counted(total, "event", "events"), counted(stacks.len(), "stack", "stacks")];
    writeln!(out, "{}: {}", crate::escape::safe(name), numbers.join(", "))?;
    for (lines, count) in stacks.iter().take(STACKS) {
        writeln!(out, "\n{count:>12} {:>5.1}%", 100.0 * *count as f64 / total.max(1) as f64)?;
        for line in lines.iter().take(LINES) {
            writeln!(out, "    {}", middle(&crate::escape::safe(line), width.saturating_sub(4)))?;
        }
        if lines.len() > LINES {
            writeln!(out, "    ... {} more", lines.len() - LINES)?;
        }
    }
    out.push('\n');
    Ok(())
}

/// A line for each function, the innermost first.
fn lines(stack: &Stack) -> Vec<String> {
    let frames = stack.kernel.iter().chain(&stack.user);
    let lines: Vec<String> = frames.flat_map(|frame| frame.lines()).collect();
    if lines.is_empty() { vec!["(no stack)".to_owned()] } else { lines }
}
