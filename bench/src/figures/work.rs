//! The workloads: what runs under the recorder, in a process of its own (`mote-bench work KIND NUMBER... RESULT`).
//!
//! A workload writes lines of `CASE VALUE` to the file RESULT. Its cases take turns, so that what disturbs the machine
//! disturbs all of them, and each has its floor in the same process.

use super::bodies::{empty, nine_strings, none, rdtsc_alone, rdtsc_stores, two_ints};
use super::session::{Lab, workload};
use super::stopwatch::{thread_ns, wall_ns};
use super::turns::{Body, Case, in_turns, line, per_event, pin};
use super::{
    cooperate, disabled, filter_work, floor, jit_work, kernel_work, rcu_hash_work, rcu_work, spans, startup,
};
use anyhow::Context;
use nix::sched::sched_getcpu;
use std::sync::Barrier;

/// Runs the workload that the arguments name.
///
/// # Errors
/// Unknown workloads, missing numbers, a result that cannot be written.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [kind, numbers @ .., result] = args else {
        anyhow::bail!("usage: mote-bench work KIND NUMBER... RESULT");
    };
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    let text = match (kind.as_str(), numbers.as_slice()) {
        ("cost", [events, rounds]) => cost(*events, *rounds)?,
        ("pair", [events, rounds]) => pair(*events, *rounds)?,
        ("recorded_pair", [events, rounds]) => Lab::new()?.fly(workload("pair", &[*events, *rounds])?)?,
        ("threads", [events, rounds]) => threads(*events, *rounds)?,
        ("filtered", [events, rounds]) => filter_work::run(*events, *rounds)?,
        ("interpreted", numbers) => filter_work::interpreted(numbers, result)?,
        ("emit", [events]) => emit(*events),
        ("disabled", [turns]) => disabled::both(*turns),
        ("rcu_cost", [reads, syncs]) => rcu_work::cost(*reads, *syncs),
        ("rcu_run", &[readers, spins, pause, ms, batch]) => {
            rcu_work::run(rcu_work::Setting::from([readers, spins, pause, ms, batch]))
        }
        ("rcu_hash", &[threads, keys, ms]) => rcu_hash_work::run(rcu_hash_work::Load { threads, keys, ms }),
        ("getppid", [count]) => crate::calls::run("getppid", *count)?,
        ("server", [requests]) => kernel_work::server(*requests)?,
        ("cooperate", [turns, rounds]) => cooperate::work(*turns, *rounds)?,
        ("spans", &[subscriber, turns, rounds]) => spans::work(subscriber, turns, rounds)?,
        ("starts", [count]) => startup::starts(*count)?,
        ("jit_pages", [turns]) => jit_work::pages(*turns)?,
        ("jit_sites", [count]) => jit_work::sites(*count)?,
        _ => anyhow::bail!("there is no workload '{kind}' with {} numbers", numbers.len()),
    };
    std::fs::write(result, text).with_context(|| format!("cannot write {result}"))
}

/// Time of one turn of each body, in `rounds` rounds; the first round only warms up. The thread stays on one CPU,
/// because each CPU's ring is new memory, whose first use costs more.
fn cost(events: u64, rounds: u64) -> anyhow::Result<String> {
    let cpu = sched_getcpu()?;
    pin(cpu)?;
    let mut cases: Vec<Case> = vec![
        ("empty", empty),
        ("rdtsc", rdtsc_alone),
        ("rdtsc_stores", rdtsc_stores),
        ("two_ints", two_ints),
        ("none", none),
        ("nine_strings", nine_strings),
    ];
    // Without restartable sequences there is no floor.
    cases.extend(floor::bodies(cpu).into_iter().flatten());
    in_turns(&cases, events, rounds)
}

/// The event that two sessions record, which share the process: for a recording in a recording.
fn pair(events: u64, rounds: u64) -> anyhow::Result<String> {
    pin(sched_getcpu()?)?;
    in_turns(&[("two_sessions", two_ints)], events, rounds)
}

/// The same event from one thread and from two, each on a CPU of its own.
fn threads(events: u64, rounds: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    for round in 0..=rounds {
        for (case, body) in [("rdtsc", rdtsc_alone as Body), ("two_ints", two_ints)] {
            let one = on_cpus(1, body, events)?;
            let two = on_cpus(2, body, events)?;
            if round > 0 {
                line(&mut text, &format!("{case}/1thread"), one);
                line(&mut text, &format!("{case}/2threads"), two);
            }
        }
    }
    Ok(text)
}

/// Mean cost of an event in `count` threads that start together.
fn on_cpus(count: usize, body: Body, events: u64) -> anyhow::Result<f64> {
    let barrier = Barrier::new(count);
    let costs = std::thread::scope(|scope| {
        let start = |cpu| {
            let barrier = &barrier;
            scope.spawn(move || {
                let pinned = pin(cpu);
                barrier.wait();
                pinned.map(|()| per_event(body, events))
            })
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().ok().context("a thread has failed")?
        };
        threads.into_iter().map(join).collect::<anyhow::Result<Vec<f64>>>()
    })?;
    Ok(costs.iter().sum::<f64>() / count as f64)
}

/// Emits, and tells the wall time of the loop and the time that it ran.
fn emit(events: u64) -> String {
    let begin = (wall_ns(), thread_ns());
    two_ints(events);
    format!("wall_ns {}\nthread_ns {}\n", wall_ns() - begin.0, thread_ns() - begin.1)
}
