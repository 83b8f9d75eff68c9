//! `torture functions`: functions of a program that knows nothing of mote are switched on and off under its threads.

use super::finding::{Finding, add};
use crate::figures::built;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use switched::{FLAGS, PROGRAM, Places};

#[path = "../../../tests/support/switched.rs"]
mod switched;

/// The program.
const SOURCE: &str = include_str!("../../../tests/programs/c/switched.cpp");
/// How long one process lives, in seconds.
const LIFE: f64 = 5.0;

/// Runs one process after the other within `length`, and reports by what is counted of each.
///
/// # Errors
/// There is no compiler, or mote is not built.
pub(super) fn run(length: Duration, report: impl Fn(&Finding)) -> anyhow::Result<Finding> {
    let mote = built()?.join("mote");
    anyhow::ensure!(mote.is_file(), "mote is not built; cargo build --release -p mote-cli");
    let folder = tempfile::tempdir()?;
    let program = build(folder.path())?;
    let places = Places { mote: &mote, program: &program, folder: folder.path(), is_static: false };
    let mut all = [false, true].map(|returns| (returns, Finding::default(), 0));
    let end = Instant::now() + length;
    let mut is_first = true;
    while Instant::now() < end || is_first {
        is_first = false;
        for (returns, finding, switched) in &mut all {
            let life = LIFE.min(length.as_secs_f64() / 2.0);
            let verdict = switched::run(places, life, *returns).context("something cannot be started")?;
            finding.violations += verdict.violations;
            finding.events += verdict.calls;
            *switched += verdict.switched;
            finding.messages.extend(verdict.messages);
        }
    }
    let mut sum = Finding::default();
    for (returns, mut finding, switched) in all {
        finding.case = if returns { "returns" } else { "entries" }.to_owned();
        finding.details = format!("{switched} recordings have switched functions");
        report(&finding);
        add(&mut sum, &finding);
    }
    Ok(sum)
}

fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, program) = (folder.join(PROGRAM), folder.join("switched"));
    std::fs::write(&source, SOURCE).context("cannot write the C++ program")?;
    let output =
        Command::new("c++").args(FLAGS).arg("-o").arg(&program).arg(&source).arg("-pthread").output();
    let output = output.context("c++ is not installed")?;
    anyhow::ensure!(output.status.success(), "c++ has failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}
