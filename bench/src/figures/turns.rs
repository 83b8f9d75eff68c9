//! Cases that take turns, so that what disturbs the machine disturbs all of them.

use super::stopwatch::thread_ns;
use anyhow::Context;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fmt::Write;
use std::hint::black_box;

/// What is measured: a loop of so many turns.
pub(super) type Body = fn(u64);
/// A body and the name that its figures have.
pub(super) type Case = (&'static str, Body);

/// Runs each case in each of `rounds` rounds, for `events` turns; returns a line of the nanoseconds of one turn for
/// each. The first round only warms up.
pub(super) fn in_turns(cases: &[Case], events: u64, rounds: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    for round in 0..=rounds {
        for (case, body) in cases {
            let ns = per_event(*body, events);
            if round > 0 {
                line(&mut text, case, ns);
            }
        }
    }
    Ok(text)
}

/// Nanoseconds of the thread's CPU time that one turn of `body` takes, out of `events`.
pub(super) fn per_event(body: Body, events: u64) -> f64 {
    let begin = thread_ns();
    body(black_box(events));
    (thread_ns() - begin) as f64 / events as f64
}

/// Appends `CASE VALUE` to a result.
pub(super) fn line(text: &mut String, case: &str, value: f64) {
    let done = writeln!(text, "{case} {value}");
    debug_assert!(done.is_ok(), "writing to a string");
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// There is no such CPU, or the process may not run on it.
pub(super) fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("cannot run on CPU {cpu}"))
}
