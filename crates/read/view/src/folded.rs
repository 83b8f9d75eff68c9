//! Stacks counted, one line each, as flame graphs are made from: `flamegraph.pl`, speedscope, inferno.
//!
//! ```text
//! worker;main;checkout;price 12
//! worker;main;checkout;write;entry_SYSCALL_64_[k];vfs_write_[k] 3
//! ```
//! Thread, functions from the outermost to the innermost, and how many events had this stack. Where no event has one,
//! calls of functions can make the lines: with the nanoseconds that were the last function's own.

use crate::Format;
use crate::call_stacks::CallStacks;
use crate::json::thread;
use crate::off_cpu::OffCpu;
use crate::stack::{Stack, Stacks};
use mote_timeline::{LossRecord, Record, Trace};
use std::collections::{BTreeMap, HashMap};

/// Counts stacks; the lines come at the end.
pub struct Folded<'s> {
    stacks: &'s mut Stacks,
    /// Process, name of the thread and addresses, which name the same functions; the number is that of the line.
    seen: HashMap<Key, usize>,
    lines: Vec<(String, u64)>,
    key: Key,
    calls: Option<CallStacks>,
    off_cpu: OffCpu,
    is_off_cpu: bool,
}

type Key = (usize, u32, Vec<u8>, Vec<u64>);

impl<'s> Folded<'s> {
    /// Counts the stacks that `stacks` reads.
    #[must_use]
    pub fn new(stacks: &'s mut Stacks) -> Folded<'s> {
        let (seen, lines, key) = (HashMap::new(), Vec::new(), Key::default());
        Folded { stacks, seen, lines, key, calls: None, off_cpu: OffCpu::default(), is_off_cpu: false }
    }

    /// Times without a CPU only, which are left out else; they count in nanoseconds.
    #[must_use]
    pub fn of_off_cpu(self) -> Folded<'s> {
        Folded { is_off_cpu: true, ..self }
    }

    /// The same, of the calls of `trace` where no event has a stack.
    #[must_use]
    pub fn or_calls(self, trace: &Trace) -> Folded<'s> {
        Folded { calls: Some(CallStacks::new(trace)), ..self }
    }

    /// Ends it. Returns whether its numbers are nanoseconds.
    pub(crate) fn finish(&mut self) -> bool {
        let calls = self.calls.take().filter(|_| self.lines.is_empty());
        self.lines.extend(calls.into_iter().flat_map(|mut calls| calls.lines()));
        (self.is_off_cpu || self.seen.is_empty()) && !self.lines.is_empty()
    }

    /// The stacks and how often each came, in the order of their names.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for (line, count) in &self.lines {
            *counts.entry(line.as_str()).or_default() += count;
        }
        counts
    }

    /// Counts the stack of an event.
    pub fn add(&mut self, record: &Record<'_>) {
        let weight = match (self.off_cpu.duration(record), self.is_off_cpu) {
            (None, false) => 1,
            (Some(duration), true) => duration,
            _ => return,
        };
        if let Some(calls) = &mut self.calls {
            calls.add(record);
        }
        let name = thread(record).unwrap_or_default();
        let pid = record.pid().or(record.tid()).unwrap_or(0);
        let Some((kernel, user)) = self.stacks.addresses(record) else { return };
        let (origin, process, thread, addresses) = &mut self.key;
        (*origin, *process) = (record.origin_index(), pid);
        thread.clear();
        thread.extend_from_slice(name);
        addresses.clear();
        addresses.extend_from_slice(kernel);
        addresses.push(0);
        addresses.extend_from_slice(user);
        let next = self.lines.len();
        let at = match self.seen.get(&self.key) {
            Some(at) => *at,
            None => {
                self.seen.insert(self.key.clone(), next);
                self.lines.push((folded(name, &self.stacks.named(record)), 0));
                next
            }
        };
        if let Some((_, count)) = self.lines.get_mut(at) {
            *count = count.saturating_add(weight);
        }
    }
}

/// `worker;main;price;vfs_write_[k]`
pub(crate) fn folded(thread: &[u8], stack: &Stack) -> String {
    let name = mote_symbol::folded(&String::from_utf8_lossy(thread));
    let mut line = if name.is_empty() { "[thread]".to_owned() } else { name };
    for frame in stack.user.iter().rev().chain(stack.kernel.iter().rev()) {
        for function in frame.folded() {
            line.push(';');
            line.push_str(&function);
        }
    }
    line
}

impl Format for Folded<'_> {
    fn event(&mut self, _out: &mut Vec<u8>, record: &Record<'_>) {
        self.add(record);
    }

    fn loss(&mut self, _out: &mut Vec<u8>, _loss: &LossRecord<'_>) {}

    fn end(&mut self, out: &mut Vec<u8>) {
        self.finish();
        for (line, count) in self.counts() {
            out.extend_from_slice(format!("{line} {count}\n").as_bytes());
        }
    }
}
