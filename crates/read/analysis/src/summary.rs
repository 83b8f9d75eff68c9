//! Everything that `mote report` tells of a recording, in one pass.

use crate::analysis::Analysis;
use crate::calls::Calls;
use crate::counts::{Counts, providers};
use crate::losses::Losses;
use crate::report::{ClockOffset, ProcessSeen, Report, ThreadCount};
use crate::scheduling::Scheduling;
use crate::spans::Spans;
use crate::syscalls::Syscalls;
use mote_timeline::{Facts, LossRecord, Problems, Record, Trace};
use mote_words::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Collects a [`Report`] out of the other analyses.
#[derive(Debug)]
pub struct Summary<'t> {
    trace: &'t Trace,
    parts: (Counts, Syscalls, Scheduling, Losses<'t>, (Spans, Calls)),
}

impl<'t> Summary<'t> {
    /// No event so far of `trace`.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Summary<'t> {
        let (counts, syscalls) = (Counts::new(trace), Syscalls::new(trace));
        let own = (Spans::new(trace), Calls::new(trace));
        let parts = (counts, syscalls, Scheduling::new(trace), Losses::new(trace), own);
        Summary { trace, parts }
    }
}

impl Analysis for Summary<'_> {
    /// Without the problems that reading met with: the source has them, see [`Report::add_problems`].
    type Output = Report;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        self.parts.event(record);
    }

    fn loss(&mut self, loss: &LossRecord<'_>) {
        self.parts.loss(loss);
    }

    fn finish(self) -> Report {
        let (counts, syscalls, scheduling, lost, (spans, calls)) = self.parts.finish();
        let facts = || self.trace.origins().iter().filter_map(|origin| origin.facts.as_ref());
        let (kinds, threads) = (counts.kinds(), counts.threads());
        let mut report = Report {
            start_ns: counts.start(),
            end_ns: counts.end(),
            duration_ns: counts.duration_ns(),
            command: command(facts()),
            complete: facts().map(|facts| facts.incomplete().is_none()).reduce(|a, b| a && b),
            incomplete: facts().find_map(Facts::incomplete),
            traces: self.trace.origins().len(),
            streams: self.trace.streams().len(),
            events: counts.events(),
            rate: counts.rate(counts.events()),
            state: counts.state(),
            lost,
            providers: providers(&kinds),
            kinds,
            cpus: counts.cpus(),
            processes: processes(facts(), &threads),
            threads,
            thread_syscalls: syscalls.of_threads(|session, tid| counts.identity(session, tid)),
            open_syscalls: syscalls.open(counts.end().unwrap_or(0)),
            syscalls: syscalls.by_name(),
            scheduling,
            spans: spans.kinds,
            spans_not_followed: spans.not_followed,
            functions: calls.functions.into_iter().map(|(function, _)| function).collect(),
            function_estimates: calls.estimates,
            clock_offset: facts()
                .find_map(|facts| facts.offset)
                .map(|offset| ClockOffset { offset_ns: offset.offset_ns, error_ns: offset.error_ns }),
            problems: facts().flat_map(|facts| facts.problems.clone()).collect(),
        };
        report.add_problems(self.trace.problems());
        report
    }
}

impl Report {
    /// Adds problems in words, as those that reading met with ([`mote_timeline::Source::problems`]).
    pub fn add_problems(&mut self, problems: &Problems) {
        self.problems.extend(problems.list().iter().map(ToString::to_string));
        if problems.more() > 0 {
            self.problems.push(format!("and {}", counted(problems.more(), "more problem", "more problems")));
        }
    }
}

/// The recorded command: both traces of a recording have the same.
fn command<'a>(facts: impl Iterator<Item = &'a Facts>) -> Vec<String> {
    let mut commands: Vec<&Vec<String>> = facts.filter_map(|f| Some(&f.session.as_ref()?.command)).collect();
    commands.dedup();
    commands.into_iter().flatten().cloned().collect()
}

/// The processes that journals tell of; without a journal, those that events name.
fn processes<'a>(facts: impl Iterator<Item = &'a Facts>, threads: &[ThreadCount]) -> Vec<ProcessSeen> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut seen = BTreeSet::new();
    let noted: Vec<ProcessSeen> = facts
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
    if !noted.is_empty() {
        return noted;
    }
    let mut seen: BTreeMap<u32, ProcessSeen> = BTreeMap::new();
    for thread in threads {
        let Some(pid) = thread.pid else { continue };
        let process =
            seen.entry(pid).or_insert(ProcessSeen { pid: pid.into(), parent: None, name: None, exe: None });
        // The first thread has the process's name.
        if thread.tid == Some(pid) {
            process.name.clone_from(&thread.name);
        }
    }
    seen.into_values().collect()
}
