//! What samples cost a server: time on CPUs, its own and the recorder's, for each request.
//!
//! Requests a second differ more from one load to the next than samples cost. What the scheduler has given to threads
//! does not: an interrupt counts for the thread that it has interrupted. The server has the first CPU and its load the
//! last one, for else the server's time depends on when both happen to be on the same; the recorder goes where it
//! likes. Each load of a server that is watched is compared with one just before, by itself.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::server_tracers::Tracer;
use super::servers::stage::{Load, Server};
use super::session::Lab;
use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;

/// Stacks of a profile that were followed to their begin.
const WHOLE: &str = "whole-stacks";
/// Ticks of proc_pid_stat(5) in a second (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Measures mote's samples and perf's, of a server that has nothing else to do: seconds on CPUs for a million requests,
/// more than without, and mote's through perf's.
pub(super) fn of_samples(
    server: &Server,
    lab: &mut Lab,
    requests: u64,
    effort: Effort,
) -> anyhow::Result<Vec<Figure>> {
    let name = server.home().kind().name();
    let all = sched_getaffinity(Pid::from_raw(0)).context("no CPUs")?;
    let here = |cpu: &usize| all.is_set(*cpu).unwrap_or(false);
    let first = (0..CpuSet::count()).find(here).context("no CPU")?;
    let last = (0..CpuSet::count()).rev().find(here).context("no CPU")?;
    for pid in server.pids() {
        sched_setaffinity(Pid::from_raw(pid as i32), &only(first)?)?;
    }
    let load = |recorder: Option<u32>| -> anyhow::Result<f64> {
        let used = || -> f64 {
            server.pids().into_iter().chain(recorder).map(used).sum::<f64>() + of_ended(server.pid())
        };
        let before = used();
        sched_setaffinity(Pid::from_raw(0), &only(last)?)?;
        let rate = server.home().rate(Load::Reads, requests);
        sched_setaffinity(Pid::from_raw(0), &all)?;
        rate.context("no load")?;
        Ok((used() - before) * 1e6 / requests as f64)
    };
    load(None)?;
    let mut samples = Samples::default();
    let mut missing = BTreeMap::new();
    for _ in 0..effort.choose(1, 10) {
        for tracer in Tracer::SAMPLING {
            let bare = load(None)?;
            let watched = tracer.attach(server, lab).and_then(|attached| {
                let watched = load(attached.pid())?;
                Ok((watched, attached.end()?))
            });
            match watched {
                Ok((watched, whole)) => {
                    samples.add("bare", bare);
                    samples.add(tracer.name(), watched - bare);
                    whole.into_iter().for_each(|share| samples.add(WHOLE, share));
                }
                Err(why) => drop(missing.insert(tracer.name(), format!("{why:#}"))),
            }
        }
    }
    let case = |what: &str| format!("{name}/{what}");
    let mut figures = vec![Figure::new(&case("profile/bare"), "s/M", samples.of("bare"))];
    for tracer in Tracer::SAMPLING {
        let figure = match missing.get(tracer.name()) {
            Some(why) => Figure::absent(&case("profile/overhead"), "s/M", why),
            None => Figure::new(&case("profile/overhead"), "s/M", samples.of(tracer.name())),
        };
        figures.push(figure.of_peer(tracer.name()));
    }
    let [ours, peers] = Tracer::SAMPLING.map(|tracer| samples.median(tracer.name()));
    let through: Option<f64> = ours.zip(peers).map(|(ours, peers)| ours / peers);
    figures.push(Figure::new(&case("profile/through-perf"), "x", through.as_slice()));
    figures.push(Figure::new(&case(WHOLE), "%", samples.of(WHOLE)));
    Ok(figures)
}

/// One CPU.
fn only(cpu: usize) -> anyhow::Result<CpuSet> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu)?;
    Ok(cpus)
}

/// Seconds that the threads of a process have had a CPU (`schedstat`); 0 of one that is gone.
fn used(pid: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| -> Option<f64> {
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    });
    nanos.sum::<f64>() / 1e9
}

/// The same of the children of a process that have ended (`cutime`, `cstime`).
fn of_ended(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}
