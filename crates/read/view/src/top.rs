//! The most frequent stacks of each kind of event, as a table.

use crate::stack::{Stack, Stacks};
use mote_timeline::{Entry, Events, Record, Trace};
use std::collections::HashMap;
use std::fmt::Write;

/// Stacks that are shown of one kind of event.
const STACKS: usize = 5;
/// Functions that are shown of one stack.
const LINES: usize = 24;

/// Counts of stacks by kind of event.
#[derive(Default)]
struct Counts {
    /// Kind of event, process, addresses.
    seen: HashMap<(u32, u32, Vec<u64>), usize>,
    stacks: Vec<(u32, Vec<String>, u64)>,
}

/// The stacks of `events` that came most often; empty when no event has one.
#[must_use]
pub fn top_stacks(trace: &Trace, events: &mut Events<'_>, stacks: &mut Stacks) -> String {
    let mut counts = Counts::default();
    while let Some(entry) = events.next() {
        if let Entry::Event(record) = entry {
            counts.add(&record, stacks);
        }
    }
    counts.table(trace)
}

impl Counts {
    fn add(&mut self, record: &Record<'_>, stacks: &mut Stacks) {
        let Some((kernel, user)) = stacks.addresses(record) else { return };
        let addresses = [kernel, &[0], user].concat();
        let key = (record.class().0, record.pid().or(record.tid()).unwrap_or(0), addresses);
        let next = self.stacks.len();
        let at = *self.seen.entry(key).or_insert(next);
        if at == next {
            self.stacks.push((record.class().0, lines(&stacks.named(record)), 0));
        }
        if let Some((.., count)) = self.stacks.get_mut(at) {
            *count += 1;
        }
    }

    fn table(&self, trace: &Trace) -> String {
        let mut by_class: HashMap<u32, HashMap<&[String], u64>> = HashMap::new();
        for (class, lines, count) in &self.stacks {
            *by_class.entry(*class).or_default().entry(lines).or_default() += count;
        }
        let mut classes: Vec<_> = by_class.into_iter().collect();
        let total = |stacks: &HashMap<&[String], u64>| stacks.values().sum::<u64>();
        classes.sort_by_key(|(class, stacks)| (u64::MAX - total(stacks), *class));
        let mut out = String::new();
        for (class, stacks) in classes {
            let name =
                trace.class(mote_timeline::ClassId(class)).map_or("", |(_, class)| class.name.as_str());
            let _ = of_class(&mut out, name, total(&stacks), stacks);
        }
        out
    }
}

fn of_class(out: &mut String, name: &str, total: u64, stacks: HashMap<&[String], u64>) -> std::fmt::Result {
    let mut stacks: Vec<_> = stacks.into_iter().collect();
    stacks.sort_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
    let several = if stacks.len() == 1 { "one stack".to_owned() } else { format!("{} stacks", stacks.len()) };
    writeln!(out, "{}: {total} events, {several}", crate::escape::safe(name))?;
    for (lines, count) in stacks.iter().take(STACKS) {
        writeln!(out, "\n{count:>12} {:>5.1}%", 100.0 * *count as f64 / total.max(1) as f64)?;
        for line in lines.iter().take(LINES) {
            writeln!(out, "    {}", crate::escape::safe(line))?;
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
