//! `functions`: what probes cost in functions of programs that know nothing of mote, and which functions can have one.
//!
//! Everything is measured from outside, of the program `mote` as users have it: a small C program times its own calls;
//! real programs run by themselves and with all functions recorded, in turns. What they print and how they end has to
//! be the same: a program that a probe changes has no figure, but a line that says so.

use super::effort::Effort;
use super::figure::Figure;
use super::functions_counted as counted;
use super::functions_coverage as coverage;
use super::functions_off as off;
use super::functions_recorded::Recorder;
use super::functions_switch as switch;
use super::functions_whole as whole;
use super::native;
use super::session::Lab;
use super::{figure::Samples, functions_recorded::run_bare};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that times its own calls.
const SOURCE: &str = include_str!("programs/calls.c");
/// The function that it calls.
const EMPTY: &str = "empty";
/// Calls of a run for the cost of one.
const CALLS: u64 = 2_000_000;

/// Measures all of it.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let program = build(&lab)?;
    let folder = lab.path().to_owned();
    let mut recorder = Recorder::new(&mut lab)?;
    let mut figures = one_call(&mut recorder, &program, effort)?;
    figures.extend(many_calls(&mut recorder, &program, effort)?);
    figures.extend(counted::run(&mut recorder, &program, effort)?);
    figures.extend(switch::run(&mut recorder, &folder, effort)?);
    figures.extend(off::run(&mut recorder, &program, effort)?);
    figures.extend(coverage::run(&mut recorder, effort)?);
    figures.extend(whole::run(&mut recorder, effort)?);
    Ok(figures)
}

/// Compiles the program that times its own calls.
pub(super) fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("calls.c"), lab.path().join("calls"));
    std::fs::write(&source, SOURCE).context("cannot write the C program")?;
    native::compile(Command::new("cc").arg("-o").arg(&program).arg(&source))?;
    Ok(program)
}

/// The program's own figures, added to `samples` under `name`.
fn timed(samples: &mut Samples, name: &str, said: &[u8]) -> anyhow::Result<()> {
    samples.read(&String::from_utf8_lossy(said), |case| Some(format!("{name}/{case}")))
}

/// Nanoseconds that a probe adds to a call of a function that does nothing.
fn one_call(recorder: &mut Recorder<'_>, program: &Path, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let command = [program.into(), CALLS.to_string().into()];
    let mut samples = Samples::default();
    let has_peer = Command::new("uftrace").arg("--version").output().is_ok();
    for _ in 0..effort.choose(5, 15) {
        timed(&mut samples, "bare", &run_bare(&command)?.stdout)?;
        timed(&mut samples, "mote", &recorder.run(&[EMPTY], &command)?.stdout)?;
        if has_peer {
            let data = recorder.fresh("uftrace");
            let mut peer = Command::new("uftrace");
            let output = peer.args(["record", "-P", EMPTY, "-d"]).arg(&data).args(&command).output()?;
            timed(&mut samples, "uftrace", &output.stdout)?;
        }
    }
    let added = |name: &str| -> Vec<f64> {
        let turns = samples.of(&format!("{name}/call")).iter().zip(samples.of("bare/call"));
        turns.map(|(ns, bare)| ns - bare).collect()
    };
    let floors = samples.of("mote/floor");
    let ratios: Vec<f64> = added("mote").iter().zip(floors).map(|(ns, floor)| ns / floor).collect();
    let peer = if has_peer {
        Figure::new("record/return", "ns", &added("uftrace"))
    } else {
        Figure::absent("record/return", "ns", "not installed; apt-get install uftrace")
    };
    Ok(vec![
        Figure::new("record/floor", "ns", floors),
        Figure::new("record/bare", "ns", samples.of("bare/call")),
        Figure::new("record/return", "ns", &added("mote")),
        Figure::new("record/ratio", "x", &ratios),
        peer.of_peer("uftrace"),
    ])
}

/// Wall time of a call, by how many there are (Arora et al. 2013, figure 7).
fn many_calls(recorder: &mut Recorder<'_>, program: &Path, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for power in 3..=effort.choose(6, 8) {
        let command = [program.into(), 10_u64.pow(power).to_string().into()];
        let mut samples = Samples::default();
        for _ in 0..effort.choose(1, 5) {
            timed(&mut samples, "mote", &recorder.run(&[EMPTY], &command)?.stdout)?;
        }
        figures.push(Figure::new(&format!("calls/1e{power}"), "ns", samples.of("mote/wall")));
    }
    Ok(figures)
}
