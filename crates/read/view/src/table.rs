//! A report as a page of text that fits the terminal.

mod columns;
mod costs;
mod functions;
mod numbers;

use crate::escape::safe;
use columns::{Columns, Number, Wanted, number};
pub use costs::CostTable;
pub use functions::{CallCount, CallCountTable, FunctionTable};
use mote_analysis::{Interval, Report};
use mote_words::{counted, counted_grouped, cut, grouped, middle, wrapped};
pub(crate) use numbers::{duration, short};
use numbers::{moment, moment_of_day, tight, tight_or_none};
use std::fmt::{Result, Write};

/// Most rows of threads, CPUs and processes.
const ROWS: usize = 10;
/// Most system calls.
const CALLS: usize = 20;
/// Most of them of a thread.
const THREAD_CALLS: usize = 5;
/// Most gaps.
const GAPS: usize = 10;
/// Most kinds of events.
const KINDS: usize = 40;

/// Prints `report` of the recording called `name` in lines of at most `width` columns, where
/// [`mote_words::COLUMNS_MIN`] are enough.
#[must_use]
pub fn table(name: &str, report: &Report, width: usize) -> String {
    let mut page = Page { out: String::new(), width: width.max(mote_words::COLUMNS_MIN) };
    // Writing to a string does not fail.
    let _ = page.all(name, report);
    page.out
}

/// What `write` writes, in lines of at most `width` columns.
fn lines(width: usize, write: impl FnOnce(&mut String, usize) -> Result) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, width.max(mote_words::COLUMNS_MIN));
    out
}

/// The text so far.
struct Page {
    out: String,
    width: usize,
}

impl Page {
    fn all(&mut self, name: &str, report: &Report) -> Result {
        self.head(name, report)?;
        self.losses(report)?;
        self.syscalls(report)?;
        self.thread_syscalls(report)?;
        self.scheduling(report)?;
        self.spans(report)?;
        self.functions(report)?;
        self.kinds(report)?;
        self.counts(report)?;
        self.processes(report)?;
        self.open_calls(report)?;
        self.problems(report)
    }

    /// A line of words; what is too long goes on below, behind `indent` spaces.
    fn say(&mut self, text: &str, indent: usize) -> Result {
        say(&mut self.out, self.width, text, indent)
    }

    fn head(&mut self, name: &str, report: &Report) -> Result {
        let command = safe(&report.command.join(" "));
        // Both have to be known again.
        let room = if command.is_empty() { self.width } else { self.width - self.width / 4 };
        let mut line = middle(&safe(name), room);
        if !command.is_empty() {
            let left = self.width.saturating_sub(line.chars().count() + 2);
            write!(line, ": {}", cut(&command, left))?;
        }
        writeln!(self.out, "{line}")?;
        if let Some(start) = report.start_ns {
            writeln!(self.out, "  {} UTC, {}", moment(start), duration(report.duration_ns))?;
        }
        let Report { events, rate, threads, processes, traces, streams, .. } = report;
        let traces = if *traces > 1 { format!(" of {traces} traces") } else { String::new() };
        let line = format!(
            "  {}, {}/s; {}, {}, {}{traces}",
            counted_grouped(*events, "event", "events"),
            short(*rate),
            counted(threads.len() as u64, "thread", "threads"),
            counted(processes.len() as u64, "process", "processes"),
            counted(*streams as u64, "stream", "streams"),
        );
        self.say(&line, 4)
    }

    fn losses(&mut self, report: &Report) -> Result {
        match (&report.incomplete, report.lost.events) {
            (Some(why), _) => {
                self.say(&format!("  the recording was cut short: {}", safe(why)), 4)?;
                self.say("  the number of events lost at its end is not known", 4)?;
            }
            (_, Some(0)) => self.say("  no event was lost", 4)?,
            _ => {}
        }
        for cause in &report.lost.causes {
            let events = match cause.events {
                Some(events) => counted_grouped(events, "event", "events"),
                None => "an unknown number of events".to_owned(),
            };
            let of = if cause.events.is_some() { format!(", {}", cause.cause) } else { String::new() };
            self.say(&format!("  LOST {events}{of}"), 7)?;
            if !cause.advice.is_empty() {
                self.say(&format!("       {}", cause.advice), 7)?;
            }
        }
        self.gaps(report)?;
        if report.lost.texts > 0 {
            let texts = counted_grouped(report.lost.texts, "text", "texts");
            self.say(&format!("  EMPTY {texts} {}", mote_journal::EMPTY_TEXTS), 8)?;
        }
        if report.lost.packets > 0 {
            let packets = counted_grouped(report.lost.packets, "packet is", "packets are");
            let why = crate::missing_packets(report.lost.flight_recorder);
            self.say(&format!("  {packets} missing: {why}"), 4)?;
        }
        Ok(())
    }

    /// Where events were lost, a line each.
    fn gaps(&mut self, report: &Report) -> Result {
        for gap in report.lost.gaps.iter().take(GAPS) {
            let events = gap.events.map_or("unknown".to_owned(), grouped);
            let since = gap.since_ns.map_or("the start".to_owned(), moment_of_day);
            let causes: Vec<String> = gap.causes.keys().map(|cause| safe(cause)).collect();
            let causes = if causes.is_empty() { String::new() } else { format!(", {}", causes.join(", ")) };
            let place = if gap.exact { "" } else { ", not exact" };
            let line = format!("    {events:>12} between {since} and {} in ", moment_of_day(gap.until_ns));
            let left = self.width.saturating_sub(line.chars().count() + causes.len() + place.len());
            let stream = middle(&safe(&gap.stream), left.max(STREAM_MIN));
            self.say(&format!("{line}{stream}{causes}{place}"), 17)?;
        }
        let more = report.lost.gaps.len().saturating_sub(GAPS) as u64 + report.lost.more_gaps;
        if more > 0 {
            let places = counted(more, "other place", "other places");
            self.say(&format!("    and at {places}; `mote view` shows all of them"), 4)?;
        }
        Ok(())
    }

    fn spans(&mut self, report: &Report) -> Result {
        const SPANS: [Number<'static>; 8] = [
            number("count", 10, 0),
            number("mean", 7, 2).of("how long"),
            number("p50", 7, 4).of("how long"),
            number("p99", 7, 1).of("how long"),
            number("max", 7, 0).of("how long"),
            number("busy", 7, 3).of("all together"),
            number("idle", 7, 5).of("all together"),
            number("self", 7, 1).of("all together"),
        ];
        if report.spans.is_empty() {
            return Ok(());
        }
        let names = report.spans.iter().take(KINDS).map(|span| safe(&span.name)).collect();
        let wanted = Wanted { title: "span", names, name: NAMES, numbers: &SPANS, rest: NO_REST };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?.with_whole_names();
        for (span, name) in report.spans.iter().zip(&wanted.names) {
            let mut numbers = vec![tight(span.count, 10)];
            if let Some(Interval { mean, p50, p99, max, .. }) = span.duration_ns {
                let sums = [span.total_busy_ns, span.total_idle_ns, span.total_self_ns];
                numbers.extend([mean, p50, p99, max].into_iter().chain(sums).map(duration));
            }
            table.row(&mut self.out, name, &numbers, "")?;
            let apart = [(span.began_before, "began before the recording"), (span.open, "open at its end")];
            let apart = apart.into_iter().filter(|(count, _)| *count > 0);
            let apart: Vec<String> =
                apart.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
            if !apart.is_empty() {
                self.say(&format!("  besides: {}", apart.join(", ")), 4)?;
            }
        }
        self.more(report.spans.len(), KINDS, "more kind of span", "more kinds of spans")?;
        if report.spans_not_followed > 0 {
            let count = counted_grouped(report.spans_not_followed, "span is", "spans are");
            self.say(&format!("{count} not counted: too many spans were open at a time"), 2)?;
        }
        Ok(())
    }

    fn functions(&mut self, report: &Report) -> Result {
        let (functions, estimates) = (&report.functions, report.function_estimates);
        let table = FunctionTable { functions, estimates, rows: KINDS, counts_only: false };
        table.write(&mut self.out, self.width)
    }

    fn kinds(&mut self, report: &Report) -> Result {
        const TIMES: &str = "time between two of a kind in a thread";
        const EVENTS: [Number<'static>; 8] = [
            number("count", 10, 0),
            number("/s", 6, 3),
            number("min", 7, 5).of(TIMES),
            number("mean", 7, 1).of(TIMES),
            number("p50", 7, 2).of(TIMES),
            number("p90", 7, 4).of(TIMES),
            number("p99", 7, 1).of(TIMES),
            number("max", 7, 0).of(TIMES),
        ];
        if report.kinds.is_empty() {
            return Ok(());
        }
        let names = report.kinds.iter().take(KINDS).map(|kind| safe(&kind.name)).collect();
        let wanted = Wanted { title: "event", names, name: NAMES, numbers: &EVENTS, rest: NO_REST };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?.with_whole_names();
        for (kind, name) in report.kinds.iter().zip(&wanted.names) {
            let mut numbers = vec![tight(kind.events, 10), short(kind.rate)];
            if let Some(Interval { min, mean, p50, p90, p99, max, .. }) = kind.interval_ns {
                numbers.extend([min, mean, p50, p90, p99, max].map(duration));
            }
            table.row(&mut self.out, name, &numbers, "")?;
        }
        self.more(report.kinds.len(), KINDS, "more kind of event", "more kinds of events")
    }

    /// System calls by name.
    fn syscalls(&mut self, report: &Report) -> Result {
        const CALLS_OF_ALL: [Number<'static>; 7] = [
            number("calls", 9, 0),
            number("failed", 7, 0),
            number("total", 7, 0),
            number("mean", 7, 2),
            number("p50", 7, 3),
            number("p99", 7, 1),
            number("max", 7, 0),
        ];
        if report.syscalls.is_empty() {
            return Ok(());
        }
        let names = report.syscalls.iter().take(CALLS).map(|call| safe(&call.name)).collect();
        let rest = ("errors", 10);
        let wanted = Wanted { title: "system call", names, name: (22, 12), numbers: &CALLS_OF_ALL, rest };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?.with_whole_names();
        for (call, name) in report.syscalls.iter().zip(&wanted.names) {
            let mut numbers = vec![tight(call.calls, 9), tight_or_none(call.failed, 7)];
            if let Some(Interval { mean, p50, p99, max, .. }) = call.duration_ns {
                numbers.extend([call.total_ns.unwrap_or(0), mean, p50, p99, max].map(duration));
            }
            let errors = call.errors.iter().take(2).map(|one| match one.count {
                _ if call.errors.len() == 1 => one.error.clone(),
                count => format!("{} {}", count, one.error),
            });
            let errors: Vec<String> = errors.collect();
            table.row(&mut self.out, name, &numbers, &errors.join(", "))?;
        }
        self.more(report.syscalls.len(), CALLS, "more system call", "more system calls")
    }

    /// System calls of each thread; of one thread they are those of all.
    fn thread_syscalls(&mut self, report: &Report) -> Result {
        const CALLS_OF_ONE: [Number<'static>; 6] = [
            number("tid", 8, 0),
            number("calls", 9, 0),
            number("failed", 7, 0),
            number("total", 7, 0),
            number("mean", 7, 1),
            number("max", 7, 2),
        ];
        if report.thread_syscalls.len() < 2 {
            return Ok(());
        }
        let threads = report.thread_syscalls.iter().take(ROWS);
        let names = threads.clone().map(|thread| safe(thread.name.as_deref().unwrap_or("-"))).collect();
        let title = "system calls of thread";
        let wanted = Wanted { title, names, name: (30, 14), numbers: &CALLS_OF_ONE, rest: NO_REST };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?;
        for (thread, name) in threads.zip(&wanted.names) {
            let total = thread.total_ns.map_or_else(String::new, duration);
            let of_thread =
                [thread.tid.to_string(), tight(thread.calls, 9), tight_or_none(thread.failed, 7), total];
            table.row(&mut self.out, name, &of_thread, "")?;
            for call in thread.syscalls.iter().take(THREAD_CALLS) {
                let mut numbers = vec![String::new(), tight(call.calls, 9), tight_or_none(call.failed, 7)];
                if let (Some(total), Some(max)) = (call.total_ns, call.max_ns) {
                    let mean = total.checked_div(call.timed).unwrap_or(0);
                    numbers.extend([total, mean, max].map(duration));
                }
                table.row(&mut self.out, &format!("  {}", safe(&call.name)), &numbers, "")?;
            }
            let rest = || thread.syscalls.iter().skip(THREAD_CALLS);
            if rest().next().is_some() {
                let (calls, failed) =
                    (rest().map(|call| call.calls).sum(), rest().map(|call| call.failed).sum());
                let numbers = [String::new(), tight(calls, 9), tight_or_none(failed, 7)];
                table.row(&mut self.out, &format!("  {} more", rest().count()), &numbers, "")?;
            }
        }
        self.more(report.thread_syscalls.len(), ROWS, "more thread", "more threads")
    }

    /// Threads on the CPUs.
    fn scheduling(&mut self, report: &Report) -> Result {
        const TIMES: [Number<'static>; 7] = [
            number("tid", 8, 0),
            number("ran", 8, 0),
            number("switches", 8, 0),
            number("preempt.", 8, 1),
            number("mean", 8, 3).of("without a CPU"),
            number("p99", 8, 2).of("without a CPU"),
            number("max", 8, 0).of("without a CPU"),
        ];
        if report.scheduling.is_empty() {
            return Ok(());
        }
        let names = report.scheduling.iter().take(ROWS).map(|thread| safe(&thread.name)).collect();
        let wanted = Wanted { title: "thread", names, name: (22, 12), numbers: &TIMES, rest: NO_REST };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?;
        for (thread, name) in report.scheduling.iter().zip(&wanted.names) {
            let mut numbers = vec![
                thread.tid.to_string(),
                duration(thread.running_ns),
                tight(thread.switches, 8),
                tight(thread.preemptions, 8),
            ];
            if let Some(Interval { mean, p99, max, .. }) = thread.queued_ns {
                numbers.extend([mean, p99, max].map(duration));
            }
            table.row(&mut self.out, name, &numbers, "")?;
        }
        self.more(report.scheduling.len(), ROWS, "more thread", "more threads")
    }

    /// System calls that had not returned.
    fn open_calls(&mut self, report: &Report) -> Result {
        const OPEN: [Number<'static>; 2] = [number("tid", 10, 0), number("since", 7, 0)];
        if report.open_syscalls.is_empty() {
            return Ok(());
        }
        let calls = counted(report.open_syscalls.len() as u64, "system call", "system calls");
        let names = report.open_syscalls.iter().take(ROWS).map(|call| safe(&call.name)).collect();
        let title = &format!("{calls} still open");
        let wanted = Wanted { title, names, name: (30, 30), numbers: &OPEN, rest: NO_REST };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?;
        for (call, name) in report.open_syscalls.iter().zip(&wanted.names) {
            table.row(&mut self.out, name, &[call.tid.to_string(), duration(call.open_ns)], "")?;
        }
        self.more(report.open_syscalls.len(), ROWS, "more system call", "more system calls")
    }

    fn counts(&mut self, report: &Report) -> Result {
        const SHARE: [Number<'static>; 2] = [number("count", 10, 0), number("%", 6, 0)];
        let share = |events: u64| format!("{:.1}", 100.0 * events as f64 / report.events.max(1) as f64);
        if report.providers.len() > 1 {
            let name = |name: &str| if name.is_empty() { "(none)".to_owned() } else { safe(name) };
            let names = report.providers.iter().take(ROWS).map(|provider| name(&provider.name)).collect();
            let wanted = Wanted { title: "provider", names, name: (30, 20), numbers: &SHARE, rest: NO_REST };
            let table = Columns::begin(&mut self.out, self.width, &wanted)?;
            for (provider, name) in report.providers.iter().zip(&wanted.names) {
                table.row(&mut self.out, name, &[tight(provider.events, 10), share(provider.events)], "")?;
            }
            self.more(report.providers.len(), ROWS, "more provider", "more providers")?;
        }
        self.threads(report, share)?;
        if report.cpus.iter().any(|cpu| cpu.cpu.is_some()) {
            let name = |cpu: Option<u32>| cpu.map_or("(not known)".to_owned(), |cpu| cpu.to_string());
            let names = report.cpus.iter().take(4 * ROWS).map(|cpu| name(cpu.cpu)).collect();
            let wanted = Wanted { title: "cpu", names, name: (30, 20), numbers: &SHARE, rest: NO_REST };
            let table = Columns::begin(&mut self.out, self.width, &wanted)?;
            for (cpu, name) in report.cpus.iter().zip(&wanted.names) {
                table.row(&mut self.out, name, &[tight(cpu.events, 10), share(cpu.events)], "")?;
            }
            self.more(report.cpus.len(), 4 * ROWS, "more CPU", "more CPUs")?;
        }
        Ok(())
    }

    fn threads(&mut self, report: &Report, share: impl Fn(u64) -> String) -> Result {
        const OF_THREAD: [Number<'static>; 4] =
            [number("count", 10, 0), number("%", 6, 1), number("tid", 7, 0), number("pid", 7, 0)];
        if report.threads.is_empty() {
            return Ok(());
        }
        let names = report.threads.iter().take(ROWS);
        let names = names.map(|thread| safe(thread.name.as_deref().unwrap_or("-"))).collect();
        let wanted = Wanted { title: "thread", names, name: (30, 20), numbers: &OF_THREAD, rest: NO_REST };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?;
        for (thread, name) in report.threads.iter().zip(&wanted.names) {
            let id = |id: Option<u32>| id.map_or("-".to_owned(), |id| id.to_string());
            let numbers = [tight(thread.events, 10), share(thread.events), id(thread.tid), id(thread.pid)];
            table.row(&mut self.out, name, &numbers, "")?;
        }
        self.more(report.threads.len(), ROWS, "more thread", "more threads")
    }

    fn processes(&mut self, report: &Report) -> Result {
        const IDS: [Number<'static>; 2] = [number("pid", 7, 0), number("parent", 7, 0)];
        if report.processes.is_empty() {
            return Ok(());
        }
        let names = report.processes.iter().take(ROWS);
        let names = names.map(|process| safe(process.name.as_deref().unwrap_or("-"))).collect();
        let rest = ("executable", 24);
        let wanted = Wanted { title: "process", names, name: (30, 16), numbers: &IDS, rest };
        let table = Columns::begin(&mut self.out, self.width, &wanted)?;
        for (process, name) in report.processes.iter().zip(&wanted.names) {
            let parent = process.parent.map_or("-".to_owned(), |parent| parent.to_string());
            let exe = safe(process.exe.as_deref().unwrap_or("-"));
            table.row(&mut self.out, name, &[process.pid.to_string(), parent], &exe)?;
        }
        self.more(report.processes.len(), ROWS, "more process", "more processes")
    }

    fn problems(&mut self, report: &Report) -> Result {
        if report.problems.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\nproblems")?;
        report.problems.iter().try_for_each(|problem| self.say(&format!("  {}", safe(problem)), 4))
    }

    /// Says how many rows are not shown.
    fn more(&mut self, rows: usize, shown: usize, one: &str, several: &str) -> Result {
        more(&mut self.out, self.width, rows.saturating_sub(shown), (one, several))
    }
}

/// Appends a line of words; what is too long goes on below, behind `indent` spaces.
fn say(out: &mut String, width: usize, text: &str, indent: usize) -> Result {
    writeln!(out, "{}", wrapped(text, width, indent))
}

/// Says how many rows are not shown, if there are any.
fn more(out: &mut String, width: usize, rows: usize, (one, several): (&str, &str)) -> Result {
    if rows > 0 { say(out, width, &format!("and {}", counted(rows as u64, one, several)), 2) } else { Ok(()) }
}

/// A table without a last column of texts.
const NO_REST: (&str, usize) = ("", 0);
/// Columns of names of events: usual ones, and the fewest.
const NAMES: (usize, usize) = (30, 24);
/// Fewest columns of a stream's name.
const STREAM_MIN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use mote_analysis::{
        Errors, EventCount, FunctionCount, Gap, Lost, SyscallCount, ThreadCall, ThreadCalls, ThreadCount,
        ThreadTime,
    };

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let all = u64::MAX;
        let interval =
            Interval { samples: all, min: all, mean: all, p50: 999_999_999, p90: all, p99: all, max: all };
        let kind = |name: &str| EventCount {
            name: name.to_owned(),
            provider: "p".repeat(200),
            events: all,
            rate: 1e20,
            interval_ns: Some(interval),
        };
        let thread =
            ThreadCount { name: Some("\x1b".repeat(50)), tid: Some(u32::MAX >> 10), pid: None, events: all };
        let call = SyscallCount {
            name: "c".repeat(60),
            calls: all,
            failed: all,
            errors: vec![Errors { error: "E".repeat(20), count: all }; 3],
            total_ns: Some(all),
            duration_ns: Some(interval),
        };
        let time = ThreadTime {
            name: "\x1b".repeat(16),
            tid: u32::MAX >> 10,
            running_ns: all,
            switches: all,
            preemptions: all,
            queued_ns: Some(interval),
        };
        let gap = Gap {
            stream: format!("{}/streams/last", "s".repeat(150)),
            since_ns: Some(0),
            until_ns: 0,
            exact: false,
            events: Some(all),
            causes: [("ring_full".to_owned(), all)].into(),
        };
        let of_name = ThreadCall {
            name: "c".repeat(60),
            calls: 7,
            failed: 7,
            total_ns: Some(all),
            timed: 7,
            max_ns: Some(all),
        };
        let of_thread = ThreadCalls {
            name: Some("\x1b".repeat(16)),
            tid: u32::MAX >> 10,
            pid: None,
            calls: all,
            failed: all,
            total_ns: Some(all),
            syscalls: vec![of_name; 9],
        };
        let function = FunctionCount {
            name: "f".repeat(200),
            calls: all,
            total_ns: all,
            total_self_ns: all,
            duration_ns: interval,
        };
        let report = Report {
            functions: vec![FunctionCount { name: "\x1b::f".to_owned(), ..function.clone() }, function],
            function_estimates: all,
            thread_syscalls: vec![of_thread; 30],
            syscalls: vec![call.clone(), SyscallCount { duration_ns: None, ..call }],
            scheduling: vec![time.clone(), ThreadTime { queued_ns: None, ..time }],
            start_ns: Some(0),
            duration_ns: 99_999_999_999,
            command: vec!["x".repeat(300)],
            events: all,
            kinds: vec![kind(&"n".repeat(200)), kind("a:b")],
            threads: vec![thread; 30],
            lost: Lost { gaps: vec![gap; 30], ..Lost::default() },
            ..Report::default()
        };
        for width in [0, 60, 80, 100, 133, 200] {
            let page = table(&format!("/a/{}/end", "d".repeat(150)), &report, width);
            for line in page.lines() {
                let columns = line.chars().count();
                assert!(columns <= width.max(60), "{columns} columns of {width}: {line}");
                assert!(!line.contains('\x1b'));
            }
            assert!(page.contains("and 20 more threads"), "{page}");
            assert!(page.contains("/end: x") && page.contains("/streams/last"), "{page}");
        }
    }
}
