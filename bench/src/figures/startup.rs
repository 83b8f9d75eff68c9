//! `startup`: the time that mote adds before `main`.
//!
//! Programs say when their `main` begins: one that carries an event, one that is the same without mote, and both once
//! more in C, where the first is linked with `libmote.so`. A workload inside a session starts them in turns, those with
//! an event with and without the session in their environment. What is measured is from just before the start (spawn)
//! to the first line of `main`, by one clock; the figures are differences to the program without mote.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::native;
use super::session::{Lab, built, workload};
use super::stopwatch::wall_ns;
use anyhow::Context;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts under one session.
const STARTS: u64 = 30;

/// Measures starts of all three kinds in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let mut samples = Samples::default();
    for _ in 0..effort.choose(5, 10) {
        let text = lab.fly(workload("starts", &[STARTS])?)?;
        samples.read(&text, |case| Some(case.to_owned()))?;
    }
    let added = |case: &str, floor: &str| {
        // Of the same turn, so that what the machine does otherwise is in both.
        let turns = samples.of(case).iter().zip(samples.of(floor));
        let values: Vec<f64> = turns.map(|(ms, floor)| ms - floor).collect();
        Figure::new(case, "ms", &values)
    };
    Ok(vec![
        Figure::new("floor", "ms", samples.of("floor")),
        added("untraced", "floor"),
        added("traced", "floor"),
        Figure::new("floor-c", "ms", samples.of("floor-c")),
        added("untraced-c", "floor-c"),
        added("traced-c", "floor-c"),
    ])
}

/// The workload: starts the programs `count` times each.
pub(super) fn starts(count: u64) -> anyhow::Result<String> {
    let built = built()?;
    let (plain, event) = (built.join("mote-bench-plain"), built.join("mote-bench-event"));
    let lab = Lab::new()?;
    let (plain_c, event_c) = (native::build_started(&lab, false)?, native::build_started(&lab, true)?);
    let mut text = String::new();
    for turn in 0..=count {
        for (case, program, traced) in [
            ("floor", &plain, true),
            ("untraced", &event, false),
            ("traced", &event, true),
            ("floor-c", &plain_c, true),
            ("untraced-c", &event_c, false),
            ("traced-c", &event_c, true),
        ] {
            let ms = start(program, traced)?;
            if turn > 0 {
                writeln!(text, "{case} {ms}")?;
            }
        }
    }
    Ok(text)
}

/// Milliseconds from before the start of `program` to its `main`.
fn start(program: &Path, traced: bool) -> anyhow::Result<f64> {
    let mut command = Command::new(program);
    if !traced {
        command.env_remove(mote_wire::ENVIRONMENT);
    }
    let begin = wall_ns();
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.with_context(|| format!("cannot start {}; build all of mote-bench", program.display()))?;
    let began: u64 =
        String::from_utf8_lossy(&output.stdout).trim().parse().context("a program told no time")?;
    Ok(began.saturating_sub(begin) as f64 / 1e6)
}
