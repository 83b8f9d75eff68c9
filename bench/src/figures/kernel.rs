//! `kernel`: what events of the kernel cost, beside ftrace, perf, bpftrace and strace; reading memory shared with the
//! kernel; steering it.
//!
//! What a tracer adds to a system call: `kernel_calls`. The whole program is a server on loopback under load, with all
//! system calls and all of the scheduler recorded. `table2` is that of Sharma & Dagenais 2016: 1,000 reads of a value
//! shared with the kernel.

use super::cooperate;
use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::kernel_peers::{Events, Tracer, leave_tracefs};
use super::session::{Lab, built, workload};
use super::{kernel_calls, kernel_shared};
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What is recorded of the server.
const WHOLE: Events<'static> = &["syscalls/*", "sched/*"];

/// Measures all cases in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut figures = kernel_shared::run(effort)?;
    let measured = kernel_calls::run(&mut lab, effort).and_then(|mut calls| {
        calls.extend(cooperate::run(effort)?);
        calls.extend(whole(&mut lab, effort)?);
        Ok(calls)
    });
    leave_tracefs(lab.path());
    figures.extend(measured?);
    Ok(figures)
}

/// A server under load: by how much each tracer makes it slower. All run in turns, and the best round of each counts:
/// what else the machine does makes a round slower, never quicker.
fn whole(lab: &mut Lab, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let peers = [Tracer::Ftrace, Tracer::PerfRecord, Tracer::PerfTrace, Tracer::Strace];
    let (rounds, requests) = effort.choose((3, 4_000), (9, 40_000));
    let mut samples = Samples::default();
    let mut missing = Missing::default();
    let work = || workload("server", &[requests]);
    for _ in 0..rounds {
        run_peer(lab, Tracer::Bare, WHOLE, work()?, &mut samples)?;
        match run_mote(lab, &["record", "-q", "-k", "syscalls,sched"], work()?) {
            Ok(ns) => samples.add("mote", ns),
            Err(why) => missing.note("mote", &why),
        }
        for peer in peers {
            if let Err(why) = run_peer(lab, peer, WHOLE, work()?, &mut samples) {
                missing.note(peer.name(), &why);
            }
        }
    }
    let best = |case: &str| samples.of(case).iter().copied().reduce(f64::min);
    let floor = best(Tracer::Bare.name()).context("the server was not measured by itself")?;
    let ratio = |case: &str| best(case).map(|ns| ns / floor);
    let figure = |case| present("server", "x", ratio(case).as_slice(), missing.why(case));
    let mut figures = vec![Figure::new("server/bare", "ns", samples.of(Tracer::Bare.name())), figure("mote")];
    figures.extend(peers.map(|peer| figure(peer.name()).of_peer(peer.name())));
    Ok(figures)
}

/// What could not be measured, and why.
#[derive(Default)]
pub(super) struct Missing(Vec<(&'static str, String)>);

impl Missing {
    pub(super) fn note(&mut self, name: &'static str, why: &anyhow::Error) {
        self.0.push((name, format!("{why:#}")));
    }

    pub(super) fn why(&self, name: &str) -> &str {
        let told = self.0.iter().find(|(missing, _)| *missing == name);
        told.map_or("not measured", |(_, why)| why)
    }
}

pub(super) fn present(case: &str, unit: &'static str, values: &[f64], why: &str) -> Figure {
    if values.is_empty() { Figure::absent(case, unit, why) } else { Figure::new(case, unit, values) }
}

/// Runs a workload under a peer and adds what it measured under the peer's name.
pub(super) fn run_peer(
    lab: &mut Lab,
    tracer: Tracer,
    events: Events<'_>,
    mut command: Vec<OsString>,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let result = lab.fresh("result");
    command.push(result.clone().into());
    tracer.run(&command, events, lab.path())?;
    let text = std::fs::read_to_string(&result).context("the workload has left no figures")?;
    samples.read(&text, |_| Some(tracer.name().to_owned()))
}

/// Runs a workload under `mote` and returns the median of what it measured.
pub(super) fn run_mote(lab: &mut Lab, arguments: &[&str], command: Vec<OsString>) -> anyhow::Result<f64> {
    let text = mote_text(lab, arguments, command)?;
    let mut samples = Samples::default();
    samples.read(&text, |_| Some("all".to_owned()))?;
    samples.median("all").context("the workload has measured nothing")
}

/// Runs a workload under `mote` and returns what it has written.
fn mote_text(lab: &mut Lab, arguments: &[&str], command: Vec<OsString>) -> anyhow::Result<String> {
    let result = lab.fresh("result");
    let output = lab.fresh("trace");
    let mut mote = Command::new(mote()?);
    mote.args(arguments).arg("-o").arg(&output).arg("--").args(&command).arg(&result);
    let said = mote.stdin(Stdio::null()).output().context("mote cannot be started")?;
    let why = String::from_utf8_lossy(&said.stderr);
    anyhow::ensure!(said.status.success(), "mote {}: {}", arguments.join(" "), why.trim());
    std::fs::remove_dir_all(&output).context("cannot remove a recording")?;
    std::fs::read_to_string(&result).context("the workload has left no figures")
}

/// The program `mote` beside this one.
pub(super) fn mote() -> anyhow::Result<PathBuf> {
    let mote = built()?.join("mote");
    anyhow::ensure!(mote.is_file(), "mote is not built; cargo build --release -p mote-cli");
    Ok(mote)
}
