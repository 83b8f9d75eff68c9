//! Spans: how many, how long, how long threads were in them, and how much of that was their own.
//!
//! A span lasts from when it is made until it is closed. It is busy while a thread is in it, else idle: that of a task
//! which waits. Its own time is what threads were in it and in no span inside it. Threads are seen as they go in and
//! out, so a span may be made by one thread, worked on by others, and closed by yet another one.
//!
//! # Cost
//! Memory: some 100 bytes for each open span, of which [`OPEN_MAX`] are followed at most, and 15 KiB for each kind.

mod classes;

pub use classes::{SpanClasses, SpanRole};

use crate::Histogram;
use crate::analysis::Analysis;
use crate::report::{Interval, SpanCount};
use mote_timeline::{Record, Trace};
use rustc_hash::FxHashMap;

/// Most spans that are followed at a time.
pub const OPEN_MAX: usize = 1 << 20;
/// Most spans that a thread is in at a time.
const DEPTH_MAX: usize = 4096;

/// A span that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: usize,
    /// When it was made; `None`: before the recording.
    since: Option<i64>,
    /// Threads in it, and since when there is one.
    inside: u32,
    entered: i64,
    busy: u64,
    own: u64,
}

/// What the spans of a kind came to.
#[derive(Debug, Default)]
struct Kind {
    durations: Histogram,
    busy: Histogram,
    busy_ns: u64,
    own_ns: u64,
    total_ns: u64,
    began_before: u64,
    open: u64,
}

/// A thread's stack of spans that it is in: which, and since when it is the innermost one.
type Stack = Vec<(u64, i64)>;

/// Sums up the spans of a trace.
#[derive(Debug)]
pub struct Spans {
    classes: SpanClasses,
    kinds: Vec<Kind>,
    /// By session and id.
    open: FxHashMap<(usize, u64), Open>,
    /// By session and thread.
    stacks: FxHashMap<(usize, u32), Stack>,
    /// Spans that were not followed, because too many were open.
    more: u64,
    limit: usize,
}

/// What the spans of a trace came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanSums {
    /// By kind, those first that were busiest themselves.
    pub kinds: Vec<SpanCount>,
    /// Spans that were not followed, because more than [`OPEN_MAX`] were open.
    pub not_followed: u64,
}

impl Spans {
    /// No span so far of `trace`.
    #[must_use]
    pub fn new(trace: &Trace) -> Spans {
        let classes = SpanClasses::new(trace);
        let kinds = (0..classes.kinds()).map(|_| Kind::default()).collect();
        let (open, stacks) = (FxHashMap::default(), FxHashMap::default());
        Spans { classes, kinds, open, stacks, more: 0, limit: OPEN_MAX }
    }

    /// The same with another number of spans that are followed at a time.
    #[must_use]
    pub fn with_limit(self, limit: usize) -> Spans {
        Spans { limit, ..self }
    }

    /// The open span; one that is not known was made before the recording, or the event that says so was lost.
    fn at(&mut self, key: (usize, u64), kind: usize, since: Option<i64>) -> Option<&mut Open> {
        if self.open.len() >= self.limit && !self.open.contains_key(&key) {
            self.more += u64::from(since.is_some());
            return None;
        }
        let new = Open { kind, since, inside: 0, entered: 0, busy: 0, own: 0 };
        Some(self.open.entry(key).or_insert(new))
    }

    fn enter(&mut self, record: &Record<'_>, key: (usize, u64), kind: usize) {
        let now = record.time();
        let Some(open) = self.at(key, kind, None) else { return };
        if open.inside == 0 {
            open.entered = now;
        }
        open.inside += 1;
        let Some(tid) = record.tid() else { return };
        let stack = self.stacks.entry((key.0, tid)).or_default();
        if let Some((outer, since)) = stack.last() {
            own(&mut self.open, (key.0, *outer), *since, now);
        }
        if stack.len() < DEPTH_MAX {
            stack.push((key.1, now));
        }
    }

    fn exit(&mut self, record: &Record<'_>, key: (usize, u64)) {
        let now = record.time();
        if let Some(open) = self.open.get_mut(&key)
            && open.inside > 0
        {
            open.inside -= 1;
            if open.inside == 0 {
                open.busy += now.abs_diff(open.entered);
            }
        }
        let stack = record.tid().and_then(|tid| self.stacks.get_mut(&(key.0, tid)));
        let Some(stack) = stack else { return };
        let Some(place) = stack.iter().rposition(|(id, _)| *id == key.1) else { return };
        let (_, since) = stack.remove(place);
        // Spans need not be left in the order in which they were entered.
        if place == stack.len() {
            own(&mut self.open, key, since, now);
            if let Some((_, since)) = stack.last_mut() {
                *since = now;
            }
        }
    }

    fn close(&mut self, now: i64, key: (usize, u64), kind: usize) {
        let open = self.open.remove(&key);
        let Some(sums) = self.kinds.get_mut(kind) else { return };
        let Some((open, since)) = open.and_then(|open| Some((open, open.since?))) else {
            sums.began_before += 1;
            return;
        };
        // That a thread left it was lost.
        let rest = if open.inside > 0 { now.abs_diff(open.entered) } else { 0 };
        let (total, busy) = (now.abs_diff(since), open.busy + rest);
        sums.durations.add(total);
        sums.busy.add(busy);
        sums.total_ns = sums.total_ns.saturating_add(total);
        sums.busy_ns = sums.busy_ns.saturating_add(busy);
        sums.own_ns = sums.own_ns.saturating_add(open.own);
    }
}

/// Adds the time from `since` to what a span was busy itself.
fn own(open: &mut FxHashMap<(usize, u64), Open>, key: (usize, u64), since: i64, now: i64) {
    if let Some(open) = open.get_mut(&key) {
        open.own += now.abs_diff(since);
    }
}

impl Analysis for Spans {
    type Output = SpanSums;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        let role = self.classes.role(record);
        if matches!(role, SpanRole::None | SpanRole::Inside) {
            return;
        }
        let Some(id) = SpanClasses::span(record) else { return };
        let key = (record.origin().session(), id);
        match role {
            SpanRole::New(kind) => drop(self.at(key, kind, Some(record.time()))),
            SpanRole::Enter(kind) => self.enter(record, key, kind),
            SpanRole::Exit(kind) => {
                self.at(key, kind, None);
                self.exit(record, key);
            }
            SpanRole::Close(kind) => self.close(record.time(), key, kind),
            SpanRole::More(kind) => drop(self.at(key, kind, None)),
            SpanRole::None | SpanRole::Inside => {}
        }
    }

    fn finish(mut self) -> SpanSums {
        for open in self.open.values() {
            if let Some(sums) = self.kinds.get_mut(open.kind) {
                sums.open += 1;
                sums.began_before += u64::from(open.since.is_none());
            }
        }
        let classes = &self.classes;
        let count = |(number, kind): (usize, Kind)| SpanCount {
            name: classes.name(number).to_owned(),
            count: kind.durations.count(),
            duration_ns: Interval::of(&kind.durations),
            busy_ns: Interval::of(&kind.busy),
            total_ns: kind.total_ns,
            total_busy_ns: kind.busy_ns,
            total_idle_ns: kind.total_ns.saturating_sub(kind.busy_ns),
            total_self_ns: kind.own_ns,
            open: kind.open,
            began_before: kind.began_before,
        };
        let seen = |span: &SpanCount| span.count + span.open + span.began_before > 0;
        let mut kinds: Vec<SpanCount> = self.kinds.into_iter().enumerate().map(count).filter(seen).collect();
        kinds.sort_by(|a, b| b.total_self_ns.cmp(&a.total_self_ns).then_with(|| a.name.cmp(&b.name)));
        SpanSums { kinds, not_followed: self.more }
    }
}
