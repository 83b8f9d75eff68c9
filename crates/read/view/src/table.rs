//! A report as a page of text, at most 100 columns wide.

use crate::civil::{DAY, Date, SECOND};
use crate::escape::safe;
use mote_analysis::{Interval, Report};
use std::fmt::Write;

/// Most columns of a line.
const WIDTH: usize = 100;
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

/// Prints `report` of the recording called `name`.
#[must_use]
pub fn table(name: &str, report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = head(&mut out, name, report);
    let _ = syscalls(&mut out, report);
    let _ = thread_syscalls(&mut out, report);
    let _ = scheduling(&mut out, report);
    let _ = spans(&mut out, report);
    let _ = kinds(&mut out, report);
    let _ = counts(&mut out, report);
    let _ = processes(&mut out, report);
    let _ = open_calls(&mut out, report);
    let _ = problems(&mut out, report);
    out
}

fn head(out: &mut String, name: &str, report: &Report) -> std::fmt::Result {
    let command =
        if report.command.is_empty() { String::new() } else { format!(": {}", report.command.join(" ")) };
    writeln!(out, "{}", cut(&safe(&format!("{name}{command}")), WIDTH))?;
    if let Some(start) = report.start_ns {
        writeln!(out, "  {} UTC, {}", moment(start), duration(report.duration_ns))?;
    }
    let Report { events, rate, threads, processes, traces, streams, .. } = report;
    write!(out, "  {} event{}, {}/s", grouped(*events), if *events == 1 { "" } else { "s" }, short(*rate))?;
    let (threads, processes) =
        (several(threads.len(), "thread", "s"), several(processes.len(), "process", "es"));
    write!(out, "; {threads}, {processes}, {}", several(*streams, "stream", "s"))?;
    writeln!(out, "{}", if *traces > 1 { format!(" of {traces} traces") } else { String::new() })?;
    match (&report.incomplete, report.lost.events) {
        (Some(why), _) => writeln!(
            out,
            "  the recording was cut short: {}\n  what it lost at its end is not known",
            cut(&safe(why), WIDTH - 31)
        )?,
        (_, Some(0)) => writeln!(out, "  no event was lost")?,
        _ => {}
    }
    for cause in &report.lost.causes {
        let events = cause.events.map_or("an unknown number of".to_owned(), grouped);
        writeln!(out, "  LOST {events} events, {}", cause.cause)?;
        if !cause.advice.is_empty() {
            writeln!(out, "       {}", cause.advice)?;
        }
    }
    gaps(out, report)?;
    if report.lost.texts > 0 {
        writeln!(out, "  EMPTY {} {}", grouped(report.lost.texts), mote_journal::EMPTY_TEXTS)?;
    }
    if report.lost.packets > 0 {
        let why = if report.lost.flight_recorder {
            "the flight recorder overwrote them"
        } else {
            "the tracer did not write them, or their files are not complete"
        };
        writeln!(out, "  {} packets are missing: {why}", grouped(report.lost.packets))?;
    }
    Ok(())
}

/// Where events were lost, a line each.
fn gaps(out: &mut String, report: &Report) -> std::fmt::Result {
    for gap in report.lost.gaps.iter().take(GAPS) {
        let events = gap.events.map_or("unknown".to_owned(), grouped);
        let since = gap.since_ns.map_or("the start".to_owned(), moment_of_day);
        let causes: Vec<&str> = gap.causes.keys().map(String::as_str).collect();
        let causes = if causes.is_empty() { String::new() } else { format!(", {}", causes.join(", ")) };
        let place = if gap.exact { "" } else { ", not exact" };
        let line = format!(
            "    {events:>12} between {since} and {} in {}{causes}{place}",
            moment_of_day(gap.until_ns),
            gap.stream
        );
        writeln!(out, "{}", cut(&safe(&line), WIDTH))?;
    }
    let more = report.lost.gaps.len().saturating_sub(GAPS) as u64 + report.lost.more_gaps;
    if more > 0 {
        writeln!(out, "    and at {more} other places; `mote view` shows all of them")?;
    }
    Ok(())
}

fn spans(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.spans.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:41} {:<32}  {:<}", "", "how long", "all together")?;
    writeln!(
        out,
        "{:30} {:>10} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "span", "count", "mean", "p50", "p99", "max", "busy", "idle", "self"
    )?;
    for span in report.spans.iter().take(KINDS) {
        let name = safe(&span.name);
        // A long name has a line of its own.
        let name = if name.chars().count() > 30 {
            format!("{}\n{:30}", cut(&name, WIDTH), "")
        } else {
            format!("{name:30}")
        };
        write!(out, "{name} {:>10}", tight(span.count))?;
        if let Some(Interval { mean, p50, p99, max, .. }) = span.duration_ns {
            let sums = [span.total_busy_ns, span.total_idle_ns, span.total_self_ns];
            for time in [mean, p50, p99, max].into_iter().chain(sums) {
                write!(out, " {:>7}", duration(time))?;
            }
        }
        writeln!(out)?;
        let apart = [(span.began_before, "began before the recording"), (span.open, "open at its end")];
        let apart = apart.into_iter().filter(|(count, _)| *count > 0);
        let apart: Vec<String> = apart.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
        if !apart.is_empty() {
            writeln!(out, "  besides: {}", apart.join(", "))?;
        }
    }
    more(out, report.spans.len(), KINDS, "kinds of spans")?;
    if report.spans_not_followed > 0 {
        let count = grouped(report.spans_not_followed);
        writeln!(out, "{count} spans are not counted: too many were open at a time")?;
    }
    Ok(())
}

fn kinds(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.kinds.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:48} {:<}", "", "time between two of a kind in a thread")?;
    writeln!(
        out,
        "{:30} {:>10} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "event", "count", "/s", "min", "mean", "p50", "p90", "p99", "max"
    )?;
    for kind in report.kinds.iter().take(KINDS) {
        let name = safe(&kind.name);
        // A long name has a line of its own.
        let name = if name.chars().count() > 30 {
            format!("{}\n{:30}", cut(&name, WIDTH), "")
        } else {
            format!("{name:30}")
        };
        write!(out, "{name} {:>10} {:>6}", tight(kind.events), short(kind.rate))?;
        if let Some(Interval { min, mean, p50, p90, p99, max, .. }) = kind.interval_ns {
            for time in [min, mean, p50, p90, p99, max] {
                write!(out, " {:>7}", duration(time))?;
            }
        }
        writeln!(out)?;
    }
    more(out, report.kinds.len(), KINDS, "kinds of events")
}

/// System calls by name.
fn syscalls(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.syscalls.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:22} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}  errors",
        "system call", "calls", "failed", "total", "mean", "p50", "p99", "max"
    )?;
    for call in report.syscalls.iter().take(CALLS) {
        let failed = if call.failed > 0 { tight(call.failed) } else { String::new() };
        write!(out, "{:22} {:>9} {failed:>7}", cut(&safe(&call.name), 22), tight(call.calls))?;
        match call.duration_ns {
            Some(Interval { mean, p50, p99, max, .. }) => {
                [call.total_ns.unwrap_or(0), mean, p50, p99, max]
                    .into_iter()
                    .try_for_each(|ns| write!(out, " {:>7}", duration(ns)))?;
            }
            None => write!(out, "{:40}", "")?,
        }
        let errors = call.errors.iter().take(2).map(|one| match one.count {
            _ if call.errors.len() == 1 => one.error.clone(),
            count => format!("{} {}", count, one.error),
        });
        let errors: Vec<String> = errors.collect();
        let errors = cut(&errors.join(", "), 18);
        writeln!(out, "{}{errors}", if errors.is_empty() { "" } else { "  " })?;
    }
    more(out, report.syscalls.len(), CALLS, "system calls")
}

/// System calls of each thread; of one thread they are those of all.
fn thread_syscalls(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.thread_syscalls.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:30} {:>8} {:>9} {:>7} {:>7} {:>7} {:>7}",
        "system calls of thread", "tid", "calls", "failed", "total", "mean", "max"
    )?;
    for thread in report.thread_syscalls.iter().take(ROWS) {
        let name = cut(&safe(thread.name.as_deref().unwrap_or("-")), 30);
        let (tid, total) = (thread.tid.to_string(), thread.total_ns.map_or_else(String::new, duration));
        writeln!(out, "{name:30} {tid:>8} {} {total:>7}", called(thread.calls, thread.failed))?;
        for call in thread.syscalls.iter().take(THREAD_CALLS) {
            let name = cut(&safe(&call.name), 26);
            write!(out, "  {name:37} {}", called(call.calls, call.failed))?;
            if let (Some(total), Some(max)) = (call.total_ns, call.max_ns) {
                [total, total.checked_div(call.timed).unwrap_or(0), max]
                    .into_iter()
                    .try_for_each(|ns| write!(out, " {:>7}", duration(ns)))?;
            }
            writeln!(out)?;
        }
        let rest = thread.syscalls.iter().skip(THREAD_CALLS);
        let (names, calls) = rest.fold((0, 0), |(names, calls), call| (names + 1, calls + call.calls));
        if names > 0 {
            let failed = thread.syscalls.iter().skip(THREAD_CALLS).map(|call| call.failed).sum();
            writeln!(out, "  {:37} {}", format!("{names} more"), called(calls, failed))?;
        }
    }
    more(out, report.thread_syscalls.len(), ROWS, "threads")
}

/// How many, and how many failed if any, in their columns.
fn called(calls: u64, failed: u64) -> String {
    let failed = if failed > 0 { tight(failed) } else { String::new() };
    format!("{:>9} {failed:>7}", tight(calls))
}

/// Threads on the CPUs.
fn scheduling(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.scheduling.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:58} without a CPU", "")?;
    writeln!(
        out,
        "{:22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "thread", "tid", "ran", "switches", "preempt.", "mean", "p99", "max"
    )?;
    for thread in report.scheduling.iter().take(ROWS) {
        let (name, ran) = (cut(&safe(&thread.name), 22), duration(thread.running_ns));
        let (switches, preemptions) = (tight(thread.switches), tight(thread.preemptions));
        write!(out, "{name:22} {:>8} {ran:>8} {switches:>8} {preemptions:>8}", thread.tid)?;
        if let Some(Interval { mean, p99, max, .. }) = thread.queued_ns {
            [mean, p99, max].into_iter().try_for_each(|ns| write!(out, " {:>8}", duration(ns)))?;
        }
        writeln!(out)?;
    }
    more(out, report.scheduling.len(), ROWS, "threads")
}

/// System calls that had not returned.
fn open_calls(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.open_syscalls.is_empty() {
        return Ok(());
    }
    let count = several(report.open_syscalls.len(), "system call", "s");
    writeln!(out, "\n{:30} {:>10} {:>7}", format!("{count} still open"), "tid", "since")?;
    for call in report.open_syscalls.iter().take(ROWS) {
        writeln!(out, "{:30} {:>10} {:>7}", cut(&safe(&call.name), 30), call.tid, duration(call.open_ns))?;
    }
    more(out, report.open_syscalls.len(), ROWS, "system calls")
}

fn counts(out: &mut String, report: &Report) -> std::fmt::Result {
    let share = |events: u64| 100.0 * events as f64 / report.events.max(1) as f64;
    if report.providers.len() > 1 {
        writeln!(out, "\n{:30} {:>10} {:>6}", "provider", "count", "%")?;
        for provider in report.providers.iter().take(ROWS) {
            let name =
                if provider.name.is_empty() { "(none)".to_owned() } else { cut(&safe(&provider.name), 30) };
            writeln!(out, "{name:30} {:>10} {:>6.1}", tight(provider.events), share(provider.events))?;
        }
        more(out, report.providers.len(), ROWS, "providers")?;
    }
    if !report.threads.is_empty() {
        writeln!(out, "\n{:30} {:>10} {:>6} {:>7} {:>7}", "thread", "count", "%", "tid", "pid")?;
        for thread in report.threads.iter().take(ROWS) {
            let id = |id: Option<u32>| id.map_or("-".to_owned(), |id| id.to_string());
            let name = cut(&safe(thread.name.as_deref().unwrap_or("-")), 30);
            let (tid, pid) = (id(thread.tid), id(thread.pid));
            writeln!(
                out,
                "{name:30} {:>10} {:>6.1} {tid:>7} {pid:>7}",
                tight(thread.events),
                share(thread.events)
            )?;
        }
        more(out, report.threads.len(), ROWS, "threads")?;
    }
    if report.cpus.iter().any(|cpu| cpu.cpu.is_some()) {
        writeln!(out, "\n{:30} {:>10} {:>6}", "cpu", "count", "%")?;
        for cpu in report.cpus.iter().take(4 * ROWS) {
            let name = cpu.cpu.map_or("(not known)".to_owned(), |cpu| cpu.to_string());
            writeln!(out, "{name:30} {:>10} {:>6.1}", tight(cpu.events), share(cpu.events))?;
        }
        more(out, report.cpus.len(), 4 * ROWS, "CPUs")?;
    }
    Ok(())
}

fn processes(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.processes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:30} {:>7} {:>7}  executable", "process", "pid", "parent")?;
    for process in report.processes.iter().take(ROWS) {
        let name = cut(&safe(process.name.as_deref().unwrap_or("-")), 30);
        let parent = process.parent.map_or("-".to_owned(), |parent| parent.to_string());
        let exe = middle(&safe(process.exe.as_deref().unwrap_or("-")), WIDTH - 48);
        writeln!(out, "{name:30} {:>7} {parent:>7}  {exe}", process.pid)?;
    }
    more(out, report.processes.len(), ROWS, "processes")
}

fn problems(out: &mut String, report: &Report) -> std::fmt::Result {
    if report.problems.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nproblems")?;
    report.problems.iter().try_for_each(|problem| writeln!(out, "  {}", safe(problem)))
}

/// Says how many rows are not shown.
fn more(out: &mut String, rows: usize, shown: usize, what: &str) -> std::fmt::Result {
    if rows > shown { writeln!(out, "and {} {what} more", rows - shown) } else { Ok(()) }
}

/// `1 thread` or `2 threads`.
fn several(count: usize, one: &str, ending: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { ending })
}

/// At most `width` characters of a path: its middle is left out, because its end says most.
fn middle(path: &str, width: usize) -> String {
    let count = path.chars().count();
    if count <= width {
        return path.to_owned();
    }
    let kept = width - 3;
    let (head, tail) = (kept / 3, kept - kept / 3);
    path.chars().take(head).chain("...".chars()).chain(path.chars().skip(count - tail)).collect()
}

/// At most `width` characters of `text`.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width - 3).chain("...".chars()).collect(),
        None => text.to_owned(),
    }
}

/// A date and time to the millisecond.
fn moment(ns: i64) -> String {
    let Date { year, month, day } = Date::from_days(ns.div_euclid(DAY));
    let of_day = ns.rem_euclid(DAY);
    let (seconds, millis) = (of_day / SECOND, of_day % SECOND / 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
}

/// `15:34:12.123456789`
fn moment_of_day(ns: i64) -> String {
    let of_day = ns.rem_euclid(DAY);
    let (seconds, nanos) = (of_day / SECOND, of_day % SECOND);
    format!("{:02}:{:02}:{:02}.{nanos:09}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A time with three digits and the unit that suits it: `17ns`, `1.23us`, `45.6ms`, `2.50s`, `3m20s`, `5h07m`, `9d`.
pub(crate) fn duration(ns: u64) -> String {
    let whole = ns / SECOND.unsigned_abs();
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => three(ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => three(ns as f64 / 1e6, "ms"),
        1_000_000_000..100_000_000_000 => three(ns as f64 / 1e9, "s"),
        _ if whole < 3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ if whole < 360_000 => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d", whole / 86_400),
    }
}

/// A number below a thousand with three digits, cut off rather than rounded up to a fourth.
fn three(number: f64, unit: &str) -> String {
    let decimals: usize = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    let scale = 10_f64.powi(decimals as i32);
    format!("{:.decimals$}{unit}", (number * scale).floor() / scale)
}

/// A rate with three digits and `k`, `M` or `G`.
fn short(number: f64) -> String {
    match number {
        n if n < 1e3 => three(n, ""),
        n if n < 1e6 => three(n / 1e3, "k"),
        n if n < 1e9 => three(n / 1e6, "M"),
        n if n < 1e12 => three(n / 1e9, "G"),
        n => format!("{n:.0e}"),
    }
}

/// A count in ten columns: all digits if they fit.
fn tight(number: u64) -> String {
    if number < 10_000_000_000 { number.to_string() } else { short(number as f64) }
}

/// A count with groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_analysis::{Errors, EventCount, SyscallCount, ThreadCall, ThreadCalls, ThreadCount, ThreadTime};

    #[test]
    fn numbers_for_people() {
        let times = [17, 1_234, 45_678_901, 999_999, 2_500_000_000, 200_000_000_000, 18_420_000_000_000];
        assert_eq!(times.map(duration), ["17ns", "1.23us", "45.6ms", "999us", "2.50s", "3m20s", "5h07m"]);
        assert_eq!([0.5, 999.9, 20_000_000.0].map(short), ["0.50", "999", "20.0M"]);
        assert_eq!([7, 1234, 1_234_567].map(grouped), ["7", "1,234", "1,234,567"]);
        assert_eq!(moment(1_795_188_852_123_456_789), "2026-11-20 15:34:12.123");
    }

    #[test]
    fn paths_lose_their_middle() {
        let path = "/opt/vendor/releases/2026-11-24/lib/server/bin/worker";
        assert_eq!(middle(path, 30).chars().count(), 30);
        assert!(middle(path, 30).starts_with("/opt/") && middle(path, 30).ends_with("/bin/worker"));
        assert_eq!(middle(path, 100), path);
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
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
            tid: u32::MAX,
            running_ns: all,
            switches: all,
            preemptions: all,
            queued_ns: Some(interval),
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
        let report = Report {
            thread_syscalls: vec![of_thread; 30],
            syscalls: vec![call.clone(), SyscallCount { duration_ns: None, ..call }],
            scheduling: vec![time.clone(), ThreadTime { queued_ns: None, ..time }],
            start_ns: Some(0),
            duration_ns: 99_999_999_999,
            command: vec!["x".repeat(300)],
            events: all,
            kinds: vec![kind(&"n".repeat(200)), kind("a:b")],
            threads: vec![thread; 30],
            ..Report::default()
        };
        let page = table("dir", &report);
        for line in page.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert!(!line.contains('\x1b'));
        }
        assert!(page.contains("and 20 threads more"));
    }
}
