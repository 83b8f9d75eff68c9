//! Counts the entries of a timeline.

use crate::Histogram;
use crate::calls::{Calls, Who};
use crate::open::OpenCalls;
use crate::report::{
    ClockOffset, CpuCount, EventCount, GAPS_MAX, Gap, Interval, Lost, LostCause, ProcessSeen, ProviderCount,
    Report, ThreadCount,
};
use crate::sched::Sched;
use mote_layout::Cause;
use mote_timeline::{ClassId, Entry, Facts, LossRecord, Place, Problems, Record, Trace};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Collects a [`Report`].
#[derive(Debug)]
pub struct Counter<'t> {
    trace: &'t Trace,
    /// The kind of each event class: classes with the same name, of several streams or traces, are one kind.
    kind_of: Vec<usize>,
    kinds: Vec<Kind>,
    threads: Vec<Thread>,
    /// Index in `threads` by trace and thread id.
    thread_of: FxHashMap<(usize, Option<u32>), usize>,
    /// Time of the last event by thread and kind.
    last: FxHashMap<(usize, usize), i64>,
    cpus: FxHashMap<Option<u32>, u64>,
    events: u64,
    start: Option<i64>,
    end: Option<i64>,
    lost: [u64; Cause::ALL.len()],
    lost_events: u64,
    lost_unknown: bool,
    gaps: Vec<Gap>,
    more_gaps: u64,
    lost_packets: u64,
    open: OpenCalls,
    calls: Calls,
    sched: Sched,
}

#[derive(Debug, Default)]
struct Kind {
    name: String,
    provider: String,
    events: u64,
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

impl<'t> Counter<'t> {
    /// Counts events of `trace`, from none.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Counter<'t> {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut by_name: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut kind_of = Vec::with_capacity(trace.classes());
        for id in 0..trace.classes() {
            let id = ClassId(u32::try_from(id).unwrap_or(u32::MAX));
            let name = trace.class(id).map_or("", |(_, class)| class.name.as_str());
            let provider = trace.provider(id);
            kind_of.push(*by_name.entry((provider, name)).or_insert_with(|| {
                let (name, provider) = (name.to_owned(), provider.to_owned());
                kinds.push(Kind { name, provider, ..Kind::default() });
                kinds.len() - 1
            }));
        }
        Counter {
            trace,
            kind_of,
            kinds,
            threads: Vec::new(),
            thread_of: FxHashMap::default(),
            last: FxHashMap::default(),
            cpus: FxHashMap::default(),
            events: 0,
            start: None,
            end: None,
            lost: [0; Cause::ALL.len()],
            lost_events: 0,
            lost_unknown: false,
            gaps: Vec::new(),
            more_gaps: 0,
            lost_packets: 0,
            open: OpenCalls::new(trace),
            calls: Calls::new(trace),
            sched: Sched::new(trace),
        }
    }

    /// Counts an entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Event(record) => self.event(record),
            Entry::Loss(loss) => self.loss(loss),
        }
    }

    fn event(&mut self, record: &Record<'_>) {
        let time = record.time();
        self.events += 1;
        self.start = Some(self.start.unwrap_or(time));
        self.end = Some(self.end.map_or(time, |end| end.max(time)));
        *self.cpus.entry(record.cpu()).or_insert(0) += 1;
        self.open.add(record);
        self.calls.add(record);
        self.sched.add(record);
        let thread = self.thread(record);
        let kind = self.kind_of.get(record.class().0 as usize).copied().unwrap_or(usize::MAX);
        let before = self.last.insert((thread, kind), time);
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.events += 1;
            if let Some(before) = before {
                kind.interval.add(u64::try_from(time.saturating_sub(before)).unwrap_or(0));
            }
        }
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

    fn loss(&mut self, loss: &LossRecord<'_>) {
        self.lost_events += loss.loss.events;
        self.lost_packets += loss.loss.packets;
        self.lost_unknown |= loss.loss.unknown > 0;
        for (sum, count) in self.lost.iter_mut().zip(loss.loss.causes) {
            *sum += count;
        }
        match self.gaps.len() {
            _ if loss.loss.events == 0 && loss.loss.unknown == 0 => {}
            GAPS_MAX.. => self.more_gaps += 1,
            _ => self.gaps.push(gap(loss)),
        }
    }

    /// The report; `problems` are those that reading the events met with.
    #[must_use]
    pub fn finish(self, problems: &Problems) -> Report {
        let duration_ns = match (self.start, self.end) {
            (Some(start), Some(end)) => end.abs_diff(start),
            _ => 0,
        };
        let rate = |events: u64| if duration_ns > 0 { events as f64 * 1e9 / duration_ns as f64 } else { 0.0 };
        let facts = || self.trace.origins().iter().filter_map(|origin| origin.facts.as_ref());
        let mut kinds: Vec<EventCount> = self
            .kinds
            .iter()
            .filter(|kind| kind.events > 0)
            .map(|kind| EventCount {
                name: kind.name.clone(),
                provider: kind.provider.clone(),
                events: kind.events,
                rate: rate(kind.events),
                interval_ns: Interval::of(&kind.interval),
            })
            .collect();
        kinds.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.name.cmp(&b.name)));
        Report {
            start_ns: self.start,
            end_ns: self.end,
            duration_ns,
            command: command(facts()),
            complete: facts().map(|facts| facts.incomplete().is_none()).reduce(|a, b| a && b),
            incomplete: facts().find_map(Facts::incomplete),
            traces: self.trace.origins().len(),
            streams: self.trace.streams().len(),
            events: self.events,
            rate: rate(self.events),
            lost: self.lost(),
            providers: providers(&kinds),
            kinds,
            threads: threads(&self.threads),
            cpus: cpus(&self.cpus),
            processes: processes(facts(), &self.threads),
            thread_syscalls: self.calls.of_threads(|session, tid| self.who(session, tid)),
            syscalls: self.calls.finish(),
            scheduling: self.sched.finish(),
            open_syscalls: self.open.finish(self.trace, self.end.unwrap_or(0)),
            clock_offset: facts()
                .find_map(|facts| facts.offset)
                .map(|offset| ClockOffset { offset_ns: offset.offset_ns, error_ns: offset.error_ns }),
            problems: words(self.trace, problems),
        }
    }

    /// Name and process of a thread.
    fn who(&self, session: usize, tid: u32) -> Who {
        let index = self.thread_of.get(&(session, Some(tid)));
        index
            .and_then(|index| self.threads.get(*index))
            .map_or((None, None), |thread| (name_of(thread), thread.pid))
    }

    /// Loss as the packets tell it, or the journal where it knows of more: what was lost behind the last packet.
    fn lost(&self) -> Lost {
        let mut journal: BTreeMap<&str, u64> = BTreeMap::new();
        let summaries = || self.trace.origins().iter().filter_map(|s| s.facts.as_ref()?.summary.as_ref());
        let texts = summaries().map(|summary| summary.empty_texts).sum();
        for (cause, events) in summaries().flat_map(|summary| &summary.lost) {
            *journal.entry(cause).or_insert(0) += events;
        }
        let mut causes = Vec::new();
        let mut add = |cause: &str, events: u64, advice: &str| {
            if events > 0 {
                let (cause, advice) = (cause.to_owned(), advice.to_owned());
                causes.push(LostCause { cause, events: Some(events), advice });
            }
        };
        for (cause, packets) in Cause::ALL.iter().zip(self.lost) {
            add(cause.name(), packets.max(journal.remove(cause.name()).unwrap_or(0)), cause.advice());
        }
        for (cause, events) in journal {
            add(cause, events, mote_journal::kernel_loss_advice(cause).unwrap_or_default());
        }
        let unspecified = self.lost_events.saturating_sub(self.lost.iter().sum());
        add("unspecified", unspecified, "the tracer's buffers were full: give it larger or more sub-buffers");
        if self.lost_unknown || self.trace.lost_unknown() {
            let (cause, advice) = (mote_journal::UNKNOWN_LOSS, mote_journal::UNKNOWN_LOSS_ADVICE);
            causes.push(LostCause { cause: cause.to_owned(), events: None, advice: advice.to_owned() });
        }
        // Unknown if one of them is.
        let events = causes.iter().map(|cause| cause.events).sum();
        let (gaps, more_gaps) = (self.gaps.clone(), self.more_gaps);
        Lost { events, packets: self.lost_packets, texts, causes, gaps, more_gaps }
    }
}

fn gap(record: &LossRecord<'_>) -> Gap {
    let loss = record.loss;
    let causes = Cause::ALL.iter().zip(loss.causes).filter(|(_, count)| *count > 0);
    Gap {
        stream: record.stream.label.clone(),
        since_ns: loss.since,
        until_ns: loss.until,
        exact: loss.place == Place::Gap,
        events: loss.known(),
        causes: causes.map(|(cause, count)| (cause.name().to_owned(), count)).collect(),
    }
}

fn providers(kinds: &[EventCount]) -> Vec<ProviderCount> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for kind in kinds {
        *counts.entry(&kind.provider).or_insert(0) += kind.events;
    }
    let mut counts: Vec<ProviderCount> =
        counts.into_iter().map(|(name, events)| ProviderCount { name: name.to_owned(), events }).collect();
    counts.sort_by_key(|provider| std::cmp::Reverse(provider.events));
    counts
}

/// The recorded command: both traces of a recording have the same.
fn command<'a>(facts: impl Iterator<Item = &'a Facts>) -> Vec<String> {
    let mut commands: Vec<&Vec<String>> = facts.filter_map(|f| Some(&f.session.as_ref()?.command)).collect();
    commands.dedup();
    commands.into_iter().flatten().cloned().collect()
}

fn name_of(thread: &Thread) -> Option<String> {
    thread.name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned())
}

fn threads(threads: &[Thread]) -> Vec<ThreadCount> {
    let count = |thread: &Thread| ThreadCount {
        name: name_of(thread),
        tid: thread.tid,
        pid: thread.pid,
        events: thread.events,
    };
    let mut counts: Vec<ThreadCount> = threads.iter().map(count).collect();
    counts.sort_by(|a, b| b.events.cmp(&a.events).then_with(|| a.tid.cmp(&b.tid)));
    counts
}

fn cpus(cpus: &FxHashMap<Option<u32>, u64>) -> Vec<CpuCount> {
    let mut counts: Vec<CpuCount> =
        cpus.iter().map(|(cpu, events)| CpuCount { cpu: *cpu, events: *events }).collect();
    counts.sort_by_key(|count| (count.cpu.is_none(), count.cpu));
    counts
}

/// The processes that journals tell of; without a journal, those that events name.
fn processes<'a>(facts: impl Iterator<Item = &'a Facts>, threads: &[Thread]) -> Vec<ProcessSeen> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut seen = BTreeSet::new();
    let told: Vec<ProcessSeen> = facts
        .flat_map(|facts| &facts.processes)
        // Both traces of a recording may tell of a process, and more than once.
        .filter(|process| seen.insert((process.pid, &process.exe)))
        .map(|process| ProcessSeen {
            pid: process.pid.into(),
            parent: Some(process.parent.into()),
            name: text(&process.comm),
            exe: text(&process.exe),
        })
        .collect();
    if !told.is_empty() {
        return told;
    }
    let mut seen: BTreeMap<u32, ProcessSeen> = BTreeMap::new();
    for thread in threads {
        let Some(pid) = thread.pid else { continue };
        let process =
            seen.entry(pid).or_insert(ProcessSeen { pid: pid.into(), parent: None, name: None, exe: None });
        // The first thread has the process's name.
        if thread.tid == Some(pid) {
            process.name = name_of(thread);
        }
    }
    seen.into_values().collect()
}

/// All problems in words: of the recorder, of opening, of reading.
fn words(trace: &Trace, problems: &Problems) -> Vec<String> {
    let recorded = trace
        .origins()
        .iter()
        .filter_map(|origin| origin.facts.as_ref())
        .flat_map(|facts| facts.problems.clone());
    let mut words: Vec<String> = recorded.collect();
    for problems in [trace.problems(), problems] {
        words.extend(problems.list().iter().map(ToString::to_string));
        if problems.more() > 0 {
            words.push(format!("and {} problems more", problems.more()));
        }
    }
    words
}
