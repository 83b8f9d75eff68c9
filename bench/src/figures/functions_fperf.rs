//! `fperf`: what sampling calls within a budget slows a program down that calls functions all the time, and which
//! functions it sees.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::functions::build;
use super::functions_off::Running;
use super::functions_recorded::{Recorder, probes, run_bare};
use super::session::Lab;
use anyhow::Context;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

/// Rates of the program by itself, before and behind. Ten are a second.
const LINES: usize = 20;
const SECOND: usize = 10;
/// A function that is called less often is seldom called.
const SELDOM: u64 = 10;
/// What each call of the program does: as much as makes some 10^8 calls a second.
const WORK: u32 = 20;

/// What a program with many functions does, with so many rows.
fn script(rows: u32) -> String {
    format!(
        "create table t(a, b); \
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) \
         insert into t select i, hex(i * 7919) from n; create index b on t(b); \
         select count(*), min(b) from t where b like '%3A%'; delete from t where a % 3 = 0; vacuum;"
    )
}

/// Measures all of it.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let program = build(&lab)?;
    let mut recorder = Recorder::new(&mut lab)?;
    let mut samples = Samples::default();
    for _ in 0..effort.choose(1, 3) {
        let mut running = Running::start(&program, WORK)?;
        let outcome = slowdown(&mut recorder, &mut running, effort, &mut samples);
        running.end();
        outcome?;
    }
    for _ in 0..effort.choose(1, 3) {
        seen(&mut recorder, &mut samples, effort.choose(1_000, 30_000))?;
    }
    let figure = |name: &str, unit: &'static str| Figure::new(name, unit, samples.of(name));
    Ok(vec![
        figure("fperf/slowdown", "x"),
        figure("fperf/slowdown/worst_second", "x"),
        figure("fperf/rate", "million calls a second"),
        figure("fperf/seen", "%"),
        figure("fperf/seen/seldom", "%"),
    ])
}

/// Attaches to a program that runs, with a budget of 5 %; compares its rates with those before and behind.
fn slowdown(
    recorder: &mut Recorder<'_>,
    running: &mut Running,
    effort: Effort,
    samples: &mut Samples,
) -> anyhow::Result<()> {
    let seconds = effort.choose(4, 30);
    let mut before = running.lines(LINES)?;
    let trace = recorder.fresh("trace");
    let mut command = recorder.mote();
    command.args(["fperf", "--budget", "5%", "-F", "calls:*", "-o"]).arg(&trace);
    command.arg("-p").arg(running.pid().to_string()).args(["--duration", &format!("{seconds}s")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().context("mote cannot be started")?;
    let during = running.lines(seconds * SECOND)?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(probes(&said).is_some(), "NO PROBES: {said}");
    let _ = std::fs::remove_dir_all(&trace);
    before.extend(running.lines(LINES)?);
    let bare = median(&mut before);
    // Of a rate less than half as high, the time is more than twice as long.
    let mean = |rates: &[f64]| rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
    let worst = during.windows(SECOND).map(mean).fold(f64::MAX, f64::min);
    samples.add("fperf/slowdown", bare / mean(&during));
    samples.add("fperf/slowdown/worst_second", bare / worst);
    samples.add("fperf/rate", bare);
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Of the functions that a program calls, the part of which there are samples; the truth is a run without a budget.
fn seen(recorder: &mut Recorder<'_>, samples: &mut Samples, rows: u32) -> anyhow::Result<()> {
    let command: Vec<OsString> = ["sqlite3", ":memory:", &script(rows)].map(OsString::from).into();
    let bare = run_bare(&command)?;
    let truth = sampled(recorder, "none", &command, &bare.stdout)?;
    let found = sampled(recorder, "5%", &command, &bare.stdout)?;
    let part = |is_meant: &dyn Fn(u64) -> bool| {
        let meant: Vec<&String> =
            truth.iter().filter(|(_, calls)| is_meant(**calls)).map(|(name, _)| name).collect();
        let with = meant.iter().filter(|name| found.contains_key(**name)).count();
        100.0 * with as f64 / meant.len().max(1) as f64
    };
    samples.add("fperf/seen", part(&|_| true));
    samples.add("fperf/seen/seldom", part(&|calls| calls < SELDOM));
    Ok(())
}

/// Functions that were sampled, and how often they were called.
fn sampled(
    recorder: &mut Recorder<'_>,
    budget: &str,
    command: &[OsString],
    expected: &[u8],
) -> anyhow::Result<BTreeMap<String, u64>> {
    let trace = recorder.fresh("trace");
    let mut run = recorder.mote();
    run.args(["fperf", "--budget", budget, "-o"]).arg(&trace).arg("--").args(command);
    let output = run.stdin(Stdio::null()).output().context("mote cannot be started")?;
    anyhow::ensure!(output.stdout == expected, "DIFFERS: sqlite3 prints something else");
    let calls = shown(recorder, &trace);
    let _ = std::fs::remove_dir_all(&trace);
    calls
}

fn shown(recorder: &Recorder<'_>, trace: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let output = recorder.mote().args(["fperf", "--format", "json", "-i"]).arg(trace).output()?;
    let all: Value = serde_json::from_slice(&output.stdout).context("mote fperf -i says no JSON")?;
    let functions = all["functions"].as_array().context("no functions")?;
    let one = |function: &Value| Some((function["name"].as_str()?.to_owned(), function["calls"].as_u64()?));
    Ok(functions.iter().filter_map(one).collect())
}
