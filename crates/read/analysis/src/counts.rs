//! Events by kind, thread and CPU, with the times between events of a kind.

use crate::Histogram;
use crate::analysis::Analysis;
use crate::report::{CpuCount, EventCount, Interval, ProviderCount, ThreadCount};
use crate::syscalls::Identity;
use mote_timeline::{ClassId, Record, Trace};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Counts events.
///
/// # Cost
/// Three hash lookups and a histogram's increment per event; memory per kind of event (15 KiB) and per thread.
#[derive(Debug)]
pub struct Counts {
    /// The kind of each event class: classes with the same name, of several streams or traces, are one kind.
    kind_of: Vec<usize>,
    kinds: Vec<Kind>,
    threads: Vec<Thread>,
    /// Index in `threads` by session and thread id.
    thread_of: FxHashMap<(usize, Option<u32>), usize>,
    /// Time of the last event by thread and kind.
    last: FxHashMap<(usize, usize), i64>,
    cpus: FxHashMap<Option<u32>, u64>,
    events: u64,
    /// Records of the system's state at the start.
    state: u64,
    start: Option<i64>,
    end: Option<i64>,
}

#[derive(Debug, Default)]
struct Kind {
    name: String,
    provider: String,
    events: u64,
    /// Its records tell the system's state at the start.
    is_state: bool,
    interval: Histogram,
}

#[derive(Debug)]
struct Thread {
    tid: Option<u32>,
    pid: Option<u32>,
    name: Option<Vec<u8>>,
    /// Until when the journal's name for it holds.
    named_until: i64,
    events: u64,
}

impl Counts {
    /// No event so far of `trace`.
    #[must_use]
    pub fn new(trace: &Trace) -> Counts {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut by_name: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut kind_of = Vec::with_capacity(trace.classes());
        for id in 0..trace.classes() {
            let id = ClassId(u32::try_from(id).unwrap_or(u32::MAX));
            let name = trace.class(id).map_or("", |(_, class)| class.name.as_str());
            let provider = trace.provider(id);
            kind_of.push(*by_name.entry((provider, name)).or_insert_with(|| {
                let (name, provider) = (name.to_owned(), provider.to_owned());
                let is_state = provider == mote_journal::STATE;
                kinds.push(Kind { name, provider, is_state, ..Kind::default() });
                kinds.len() - 1
            }));
        }
        Counts {
            kind_of,
            kinds,
            threads: Vec::new(),
            thread_of: FxHashMap::default(),
            last: FxHashMap::default(),
            cpus: FxHashMap::default(),
            events: 0,
            state: 0,
            start: None,
            end: None,
        }
    }

    /// Records of the system's state when the recording began; they are in no other count.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// Counts the event for its thread; returns the thread's index.
    fn thread(&mut self, record: &Record<'_>) -> usize {
        let tid = record.tid();
        let next = self.threads.len();
        let index = *self.thread_of.entry((record.origin().session(), tid)).or_insert(next);
        if index == next {
            self.threads.push(Thread {
                tid,
                pid: record.pid(),
                name: None,
                named_until: i64::MIN,
                events: 0,
            });
        }
        if let Some(thread) = self.threads.get_mut(index) {
            thread.events += 1;
            if let Some(name) = record.procname() {
                if thread.name.as_deref() != Some(name) {
                    thread.name = Some(name.to_vec());
                }
            } else if record.time() >= thread.named_until {
                let named = record.named();
                thread.named_until = named.map_or(i64::MAX, |(_, until)| until);
                if let Some((named, _)) = named {
                    thread.name = Some(named.name.clone().into_bytes());
                }
            }
        }
        index
    }

    /// Number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Time of the first event, in nanoseconds since 1970; `None` without events.
    #[must_use]
    pub fn start(&self) -> Option<i64> {
        self.start
    }

    /// Latest time of an event.
    #[must_use]
    pub fn end(&self) -> Option<i64> {
        self.end
    }

    /// Nanoseconds from the first event to the last.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.start.zip(self.end).map_or(0, |(start, end)| end.abs_diff(start))
    }

    /// So many events in a second of the duration.
    pub(crate) fn rate(&self, events: u64) -> f64 {
        match self.duration_ns() {
            0 => 0.0,
            duration => events as f64 * 1e9 / duration as f64,
        }
    }

    /// Events by kind, the most frequent first.
    #[must_use]
    pub fn kinds(&self) -> Vec<EventCount> {
        let count = |kind: &Kind| EventCount {
            name: kind.name.clone(),
            provider: kind.provider.clone(),
            events: kind.events,
            rate: self.rate(kind.events),
            interval_ns: Interval::of(&kind.interval),
        };
        let mut kinds: Vec<EventCount> =
            self.kinds.iter().filter(|kind| kind.events > 0).map(count).collect();
        kinds.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.name.cmp(&b.name)));
        kinds
    }

    /// Events by thread, those with most first.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadCount> {
        let count = |thread: &Thread| ThreadCount {
            name: name_of(thread),
            tid: thread.tid,
            pid: thread.pid,
            events: thread.events,
        };
        let mut counts: Vec<ThreadCount> = self.threads.iter().map(count).collect();
        counts.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.tid.cmp(&b.tid)));
        counts
    }

    /// Events by CPU, by its number; those of no known CPU last.
    #[must_use]
    pub fn cpus(&self) -> Vec<CpuCount> {
        let mut counts: Vec<CpuCount> =
            self.cpus.iter().map(|(cpu, events)| CpuCount { cpu: *cpu, events: *events }).collect();
        counts.sort_by_key(|count| (count.cpu.is_none(), count.cpu));
        counts
    }

    /// Name and process of a thread, as its events or the journal told last.
    pub(crate) fn identity(&self, session: usize, tid: u32) -> Identity {
        let index = self.thread_of.get(&(session, Some(tid)));
        let thread = index.and_then(|index| self.threads.get(*index));
        thread.map_or((None, None), |thread| (name_of(thread), thread.pid))
    }
}

impl Analysis for Counts {
    type Output = Counts;

    fn event(&mut self, record: &Record<'_>) {
        let time = record.time();
        let kind = self.kind_of.get(record.class().0 as usize).copied().unwrap_or(usize::MAX);
        if self.kinds.get(kind).is_some_and(|kind| kind.is_state) {
            self.state += 1;
            return;
        }
        self.events += 1;
        self.start = Some(self.start.unwrap_or(time));
        self.end = Some(self.end.map_or(time, |end| end.max(time)));
        *self.cpus.entry(record.cpu()).or_insert(0) += 1;
        let thread = self.thread(record);
        let before = self.last.insert((thread, kind), time);
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.events += 1;
            if let Some(before) = before {
                kind.interval.add(u64::try_from(time.saturating_sub(before)).unwrap_or(0));
            }
        }
    }

    fn finish(self) -> Counts {
        self
    }
}

/// Events by provider, the most frequent first.
pub(crate) fn providers(kinds: &[EventCount]) -> Vec<ProviderCount> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for kind in kinds {
        *counts.entry(&kind.provider).or_insert(0) += kind.events;
    }
    let mut counts: Vec<ProviderCount> =
        counts.into_iter().map(|(name, events)| ProviderCount { name: name.to_owned(), events }).collect();
    counts.sort_by_key(|provider| std::cmp::Reverse(provider.events));
    counts
}

fn name_of(thread: &Thread) -> Option<String> {
    thread.name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned())
}
