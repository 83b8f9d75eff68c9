//! What is shown of latencies: the table, the report, JSON.

use super::worst::{Found, kernel_functions};
use mote_analysis::latency::{SlowCall, time};
use mote_daemon::{CallFigures, Latencies, OpenCall, Recorded};
use mote_view::Stack;
use serde_json::{Value, json};
use std::fmt::Write;

/// Rows of the live table, at most.
pub(super) const LIVE: usize = 15;
/// Frames of a stack that are shown.
const FRAMES: usize = 20;
/// Open calls that are shown.
const OPEN: usize = 10;

/// The table of system calls.
pub(super) fn table(now: &Latencies, most: usize) -> String {
    let mut text = format!(
        "{:<18} {:>11} {:>9} {:>9} {:>9} {:>9} {:>8}\n",
        "SYSTEM CALL", "CALLS", "p50", "p99", "MAX", "OVER", "SLOW"
    );
    for call in now.calls.iter().take(most) {
        let (p50, p99) =
            call.percentiles.map_or((String::new(), String::new()), |(p50, p99)| (time(p50), time(p99)));
        let over = if call.threshold_ns == u64::MAX { "never".to_owned() } else { time(call.threshold_ns) };
        // Without a timed one nothing is known.
        let max = if call.max_ns == 0 { String::new() } else { time(call.max_ns) };
        let CallFigures { name, count, slow, .. } = call;
        let _ = writeln!(text, "{name:<18} {count:>11} {p50:>9} {p99:>9} {max:>9} {over:>9} {slow:>8}");
    }
    let more = now.calls.len().saturating_sub(most);
    if more > 0 {
        let _ = writeln!(text, "and {more} more{}", if most > LIVE { " without a slow one" } else { "" });
    }
    text
}

/// All of it, at the end.
pub(super) fn report(now: &Latencies, found: &Found, recorded: &Recorded) -> String {
    let slow = now.calls.iter().filter(|call| call.slow > 0).count();
    let mut text = table(now, slow.max(LIVE));
    for (number, (call, stack)) in found.calls.iter().enumerate() {
        let _ = write!(text, "\n#{} {}", number + 1, headline(call));
        let _ = writeln!(text, "   {}", call.words(&kernel_functions(stack)));
        frames(&mut text, stack);
    }
    if !now.open.is_empty() {
        let _ = writeln!(text, "\nin a system call at the end:");
        for OpenCall { name, tid, age_ns, .. } in now.open.iter().take(OPEN) {
            let _ = writeln!(text, "   {name} of thread {tid}, for {}", time(*age_ns));
        }
        if now.open.len() > OPEN {
            let _ = writeln!(text, "   and {} more", now.open.len() - OPEN);
        }
    }
    text.push('\n');
    let calls: u64 = now.calls.iter().map(|call| call.count).sum();
    let seconds = now.elapsed.as_secs_f64();
    let _ = writeln!(
        text,
        "{calls} system calls in {seconds:.1} s, {} slow one{} recorded in {}",
        found.slow,
        if found.slow == 1 { "" } else { "s" },
        recorded.directory.display()
    );
    if let Some(cost) = now.cost_ns {
        let part = calls as f64 * cost / 1e7 / seconds.max(1e-3);
        let _ = writeln!(
            text,
            "mote's overhead: {cost:.0} ns per fast system call (measured just now), {part:.2} % of one CPU"
        );
    }
    notes(now, found).into_iter().for_each(|note| {
        let _ = writeln!(text, "{note}");
    });
    text
}

/// `fsync of postgres 12 (thread 13): 212 ms, over 20.0 ms; /var/lib/x = 0`
fn headline(call: &SlowCall) -> String {
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
    let file = if call.file.is_empty() { String::new() } else { format!(", on {}", call.file) };
    format!(
        "{syscall} of {comm} ({pid}{of}): {took}, over {}{whose}{file}, = {}\n",
        time(call.threshold_ns),
        call.result()
    )
}

fn frames(text: &mut String, stack: &Stack) {
    let lines = stack.kernel.iter().chain(&stack.user).flat_map(|location| location.lines());
    for line in lines.take(FRAMES) {
        let _ = writeln!(text, "     {line}");
    }
}

/// What a person should know.
fn notes(now: &Latencies, found: &Found) -> Vec<String> {
    let mut notes = Vec::new();
    if now.counters.lost > 0 {
        notes.push(format!(
            "LOST {} slow calls: they came faster than they could be written; raise the thresholds",
            now.counters.lost
        ));
    }
    if now.waited > 0 {
        notes.push(format!(
            "{} reads only waited for data to arrive and are not shown; --threshold read=TIME shows them",
            now.waited
        ));
    }
    if now.counters.foreign > 0 {
        notes.push(format!("{} system calls of 32-bit programs were not measured", now.counters.foreign));
    }
    if now.counters.unpublished > 0 {
        notes.push(format!(
            "{} threads did not fit into the memory that their process shares with the kernel",
            now.counters.unpublished
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
