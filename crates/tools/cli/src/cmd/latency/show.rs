//! What is shown of latencies: the table, the report, JSON.

use super::worst::{Found, kernel_functions};
use mote_analysis::latency::{SlowCall, time};
use mote_daemon::{CallFigures, Latencies, OpenCall, Recorded};
use mote_view::Stack;
use mote_words::{counted, fitted, middle, wrapped};
use serde_json::{Value, json};
use std::fmt::Write;

/// Rows of the live table, at most.
pub(super) const LIVE: usize = 15;
/// Frames of a stack that are shown.
const FRAMES: usize = 20;
/// Open calls that are shown.
const OPEN: usize = 10;
/// Fewest columns of a file's name.
const FILE_MIN: usize = 24;

/// Columns of the table, and of one with less in it.
const WIDE: usize = 79;
const NARROW: usize = 69;

/// The table of system calls, in lines of `width` columns.
pub(super) fn table(now: &Latencies, most: usize, width: usize) -> String {
    let mut text = String::new();
    let mut row = |name: &str, cells: [&str; 6]| {
        let [count, p50, p99, max, over, slow] = cells;
        let _ = write!(text, "{:<18} {count:>11}", fitted(name, 18));
        for (cell, least) in [(p50, WIDE), (p99, NARROW), (max, 0), (over, 0)] {
            if width >= least {
                let _ = write!(text, " {cell:>9}");
            }
        }
        let _ = writeln!(text, " {slow:>8}");
    };
    row("SYSTEM CALL", ["CALLS", "p50", "p99", "MAX", "OVER", "SLOW"]);
    for call in now.calls.iter().take(most) {
        let (p50, p99) =
            call.percentiles.map_or((String::new(), String::new()), |(p50, p99)| (time(p50), time(p99)));
        let over = if call.threshold_ns == u64::MAX { "never".to_owned() } else { time(call.threshold_ns) };
        // Without a timed one nothing is known.
        let max = if call.max_ns == 0 { String::new() } else { time(call.max_ns) };
        let (count, slow) = (call.count.to_string(), call.slow.to_string());
        row(&call.name, [&count, &p50, &p99, &max, &over, &slow]);
    }
    let more = now.calls.len().saturating_sub(most);
    if more > 0 {
        let calls = counted(more, "more system call", "more system calls");
        let _ = writeln!(text, "and {calls}{}", if most > LIVE { " without a slow one" } else { "" });
    }
    text
}

/// All of it, at the end, in lines of `width` columns.
pub(super) fn report(now: &Latencies, found: &Found, recorded: &Recorded, width: usize) -> String {
    let slow = now.calls.iter().filter(|call| call.slow > 0).count();
    let mut text = table(now, slow.max(LIVE), width);
    for (number, (call, stack)) in found.calls.iter().enumerate() {
        let _ = writeln!(text, "\n{}", headline(number + 1, call, width));
        let words = format!("   {}", call.words(&kernel_functions(stack)));
        let _ = writeln!(text, "{}", wrapped(&words, width, 3));
        frames(&mut text, stack, width);
    }
    open_calls(&mut text, now);
    if !recorded.aggregates.is_empty() {
        let _ = write!(text, "\n{}", recorded.aggregates);
    }
    text.push('\n');
    ending(now, found, recorded).iter().for_each(|line| {
        let _ = writeln!(text, "{}", wrapped(line, width, 2));
    });
    text
}

/// Calls that had not returned.
fn open_calls(text: &mut String, now: &Latencies) {
    if now.open.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nin a system call at the end:");
    for OpenCall { name, tid, age_ns, .. } in now.open.iter().take(OPEN) {
        let _ = writeln!(text, "   {name} of thread {tid}, for {}", time(*age_ns));
    }
    if now.open.len() > OPEN {
        let _ = writeln!(text, "   and {} more", now.open.len() - OPEN);
    }
}

/// What it came to, and what a person should know.
fn ending(now: &Latencies, found: &Found, recorded: &Recorded) -> Vec<String> {
    let calls: u64 = now.calls.iter().map(|call| call.count).sum();
    let seconds = now.elapsed.as_secs_f64();
    let mut lines = vec![format!(
        "{} in {seconds:.1} s, {} recorded in {}",
        counted(calls, "system call", "system calls"),
        counted(found.slow, "slow one", "slow ones"),
        recorded.directory.display()
    )];
    if let Some(cost) = now.cost_ns {
        let part = calls as f64 * cost / 1e7 / seconds.max(1e-3);
        lines.push(format!(
            "mote's overhead: {cost:.0} ns per fast system call (measured just now), {part:.2} % of one CPU"
        ));
    }
    lines.extend(notes(now, found));
    lines
}

/// `#1 fsync of postgres (12, thread 13): 212 ms, over 20.0 ms, on /var/lib/x, = 0`; the file gives way where the line
/// is too long.
fn headline(number: usize, call: &SlowCall, width: usize) -> String {
    let SlowCall { syscall, comm, pid, tid, .. } = call;
    let took = if call.uncertain_ns * 20 > call.duration_ns {
        format!("{} to {}", time(call.duration_ns - call.uncertain_ns), time(call.duration_ns))
    } else {
        time(call.duration_ns)
    };
    let of = if pid == tid { String::new() } else { format!(", thread {tid}") };
    let whose = if call.threshold_of == "session" {
        String::new()
    } else {
        format!(" (set by the {})", call.threshold_of)
    };
    let before =
        format!("#{number} {syscall} of {comm} ({pid}{of}): {took}, over {}{whose}", time(call.threshold_ns));
    let after = format!(", = {}", call.result());
    let room = width.saturating_sub(before.chars().count() + after.chars().count() + 5).max(FILE_MIN);
    let file =
        if call.file.is_empty() { String::new() } else { format!(", on {}", middle(&call.file, room)) };
    wrapped(&format!("{before}{file}{after}"), width, 3)
}

fn frames(text: &mut String, stack: &Stack, width: usize) {
    let lines = stack.kernel.iter().chain(&stack.user).flat_map(|location| location.lines());
    for line in lines.take(FRAMES) {
        let _ = writeln!(text, "     {}", middle(&line, width.saturating_sub(5)));
    }
}

/// What a person should know.
fn notes(now: &Latencies, found: &Found) -> Vec<String> {
    let mut notes = Vec::new();
    if now.counters.lost > 0 {
        let calls = counted(now.counters.lost, "slow call", "slow calls");
        notes.push(format!("LOST {calls}: they came faster than they can be written; raise the thresholds"));
    }
    if now.waited > 0 {
        let reads = counted(now.waited, "slow read was", "slow reads were");
        notes.push(format!(
            "{reads} not recorded, because they waited for data to arrive; --threshold read=TIME records them"
        ));
    }
    if now.counters.foreign > 0 {
        let calls = counted(now.counters.foreign, "system call", "system calls");
        notes.push(format!("{calls} of 32-bit programs: mote does not measure these"));
    }
    if now.counters.unpublished > 0 {
        let threads = counted(now.counters.unpublished, "thread", "threads");
        notes.push(format!(
            "{threads} found no room in the memory that their process shares with the kernel: the thresholds of the \
             process apply"
        ));
    }
    notes.extend(found.doubts.iter().cloned());
    notes
}

/// A line of JSON.
///
/// # Errors
/// None that a person could do anything about.
pub(super) fn json(
    kind: &str,
    now: &Latencies,
    end: Option<(&Found, &Recorded)>,
) -> serde_json::Result<String> {
    let calls: Vec<Value> = now.calls.iter().map(figures).collect();
    let counters = json!({
        "lost": now.counters.lost,
        "unpublished_threads": now.counters.unpublished,
        "foreign_abi": now.counters.foreign,
        "waited_by_request": now.waited,
    });
    let mut all =
        json!({ "type": kind, "elapsed_s": now.elapsed.as_secs_f64(), "calls": calls, "counters": counters });
    if let Some((found, recorded)) = end {
        let worst = found
            .calls
            .iter()
            .map(|(call, stack)| one(call, stack))
            .collect::<serde_json::Result<Vec<Value>>>()?;
        all["worst"] = Value::Array(worst);
        let open = now.open.iter().map(
            |OpenCall { name, tid, age_ns, .. }| json!({ "syscall": name, "tid": tid, "age_ns": age_ns }),
        );
        all["open"] = Value::Array(open.collect());
        all["cost_ns"] = json!(now.cost_ns);
        all["slow"] = found.slow.into();
        all["aggregates"] = super::super::aggregates(&recorded.directory);
        all["directory"] = recorded.directory.display().to_string().into();
        all["problems"] = json!(recorded.problems);
    }
    let mut line = serde_json::to_string(&all)?;
    line.push('\n');
    Ok(line)
}

fn figures(call: &CallFigures) -> Value {
    let percentile = |which: fn((u64, u64)) -> u64| call.percentiles.map(which);
    let threshold = (call.threshold_ns != u64::MAX).then_some(call.threshold_ns);
    json!({
        "syscall": call.name,
        "count": call.count,
        "p50_ns": percentile(|both| both.0),
        "p99_ns": percentile(|both| both.1),
        "max_ns": (call.max_ns > 0).then_some(call.max_ns),
        "threshold_ns": threshold,
        "slow": call.slow,
    })
}

fn one(call: &SlowCall, stack: &Stack) -> serde_json::Result<Value> {
    let mut all = serde_json::to_value(call)?;
    let lines = |locations: &[std::sync::Arc<mote_symbol::Location>]| -> Vec<String> {
        locations.iter().flat_map(|location| location.lines()).collect()
    };
    all["words"] = call.words(&kernel_functions(stack)).into();
    all["callstack_kernel"] = json!(lines(&stack.kernel));
    all["callstack_user"] = json!(lines(&stack.user));
    Ok(all)
}
