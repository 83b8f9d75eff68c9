//! `rcu`, cases `hash/...`: the hash table beside liburcu's rculfhash and dashmap.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::native;
use super::rcu::run_alone;
use super::session::{Lab, workload};
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = include_str!("programs/urcu_hash.c");
const CASES: [&str; 2] = ["lookup", "mixed"];
const LIBURCU: &str = "liburcu";
const DASHMAP: &str = "dashmap";
const THREADS: u64 = 2;
const KEYS: u64 = 1_000_000;

/// Measures the sides in turns.
pub(super) fn run(lab: &mut Lab, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let peer = build(lab);
    let (rounds, ms) = effort.choose((2, 60), (5, 500));
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let text = run_alone(lab, workload("rcu_hash", &[THREADS, KEYS, ms])?)?;
        samples.read(&text, |case| Some(case.to_owned()))?;
        if let Ok(program) = &peer {
            let numbers = [THREADS, KEYS, ms].map(|number| OsString::from(number.to_string()));
            let text = run_alone(lab, [&[program.into()], numbers.as_slice()].concat())?;
            samples.read(&text, |case| Some(format!("{LIBURCU}/{case}")))?;
        }
    }
    let mut figures = Vec::new();
    for case in CASES {
        let name = format!("hash/{case}");
        let of = |side: &str| Figure::new(&name, "1/s", samples.of(&format!("{side}/{case}")));
        figures.push(of("mote"));
        figures.push(match &peer {
            Ok(_) => of(LIBURCU).of_peer(LIBURCU),
            Err(why) => Figure::absent(&name, "1/s", &format!("{why:#}")).of_peer(LIBURCU),
        });
        figures.push(of(DASHMAP).of_peer(DASHMAP));
    }
    Ok(figures)
}

fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("urcu_hash.c"), lab.path().join("urcu-hash"));
    std::fs::write(&source, SOURCE).context("cannot write the program for rculfhash")?;
    let libraries = ["-lurcu-cds", "-lurcu-memb", "-lurcu-common"];
    native::compile(Command::new("cc").arg("-o").arg(&program).arg(&source).args(libraries))
        .context("liburcu 0.13 is not installed")?;
    Ok(program)
}
