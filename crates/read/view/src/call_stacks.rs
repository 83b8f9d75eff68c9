//! Stacks made of calls: which functions were called through which, and the time that was their own.
//!
//! ```text
//! worker;main;checkout;price 12345
//! ```
//! # Cost
//! Memory: some 100 bytes for each stack that differs, of each thread, and as `mote_analysis::Pending` says.

use crate::json::thread;
use mote_analysis::{Call, CallClasses, Merge, PENDING_MAX, Pending, Returns, thread_of};
use mote_timeline::{Record, Trace};
use std::collections::{BTreeMap, HashMap};

/// Functions of a stack that are told apart; the time of what is deeper counts for the last one.
const DEPTH_MAX: usize = 512;

/// What was called at one place, by function.
#[derive(Debug, Default)]
struct Places {
    functions: BTreeMap<usize, Place>,
    /// Levels, with this one.
    depth: usize,
}

/// Calls of a function through the same callers.
#[derive(Debug, Default)]
struct Place {
    own_ns: u64,
    inner: Places,
}

impl Merge for Places {
    fn merge(&mut self, next: Places) {
        self.depth = self.depth.max(next.depth);
        for (function, place) in next.functions {
            let known = self.functions.entry(function).or_default();
            known.own_ns = known.own_ns.saturating_add(place.own_ns);
            known.inner.merge(place.inner);
        }
    }
}

/// A call with what was in it.
fn around(call: &Call, inner: Places, inside_ns: u64) -> Places {
    let all = call.duration();
    let place = if inner.depth < DEPTH_MAX {
        Place { own_ns: all.saturating_sub(inside_ns), inner }
    } else {
        Place { own_ns: all, inner: Places::default() }
    };
    Places { depth: place.inner.depth + 1, functions: BTreeMap::from([(call.function, place)]) }
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    last: Returns,
    pending: Pending<Places>,
}

impl Thread {
    fn settle(&mut self, now: Option<i64>) {
        for call in self.last.settled(now) {
            self.pending.put(&call, PENDING_MAX, |inner, inside| around(&call, inner, inside.ns));
        }
    }
}

/// Sums up the own time of calls by their stacks.
#[derive(Debug)]
pub(crate) struct CallStacks {
    classes: CallClasses,
    /// By session and thread.
    threads: HashMap<(usize, u32), Thread>,
}

impl CallStacks {
    pub(crate) fn new(trace: &Trace) -> CallStacks {
        CallStacks { classes: CallClasses::new(trace), threads: HashMap::new() }
    }

    /// Adds a call; other events are nothing.
    pub(crate) fn add(&mut self, record: &Record<'_>) {
        let Some(call) = self.classes.call(record) else { return };
        let thread = self
            .threads
            .entry(thread_of(record))
            .or_insert_with(|| Thread { name: name(record), ..Thread::default() });
        thread.settle(Some(call.end));
        thread.last.push(call);
    }

    /// Lines, each with its time in nanoseconds.
    pub(crate) fn lines(&mut self) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        for (_, mut thread) in self.threads.drain() {
            thread.settle(None);
            let mut waiting = vec![(thread.name, thread.pending.finish())];
            while let Some((before, places)) = waiting.pop() {
                for (function, place) in places.functions {
                    let line = format!("{before};{}", mote_symbol::folded(self.classes.name(function)));
                    if place.own_ns > 0 {
                        lines.push((line.clone(), place.own_ns));
                    }
                    waiting.push((line, place.inner));
                }
            }
        }
        lines
    }
}

fn name(record: &Record<'_>) -> String {
    let name = mote_symbol::folded(&String::from_utf8_lossy(thread(record).unwrap_or_default()));
    if name.is_empty() { "[thread]".to_owned() } else { name }
}
