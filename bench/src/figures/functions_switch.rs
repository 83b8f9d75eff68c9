//! How long it takes to switch ten thousand functions that eight busy threads call, and how long a thread is held up.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::functions_recorded::{Recorder, probes};
use super::native;
use anyhow::Context;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that watches its own code.
const SOURCE: &str = include_str!("programs/switch.c");
/// Figures, by what the program calls them.
const FIGURES: [(&str, &str, &str); 7] = [
    ("on", "switch/10000", "ms"),
    ("off", "switch/10000/off", "ms"),
    ("on_pause", "switch/pause", "us"),
    ("off_pause", "switch/pause/off", "us"),
    ("floor_pause", "switch/pause/floor", "us"),
    ("on_queue", "switch/queue", "us"),
    ("off_queue", "switch/queue/off", "us"),
];

/// Measures all of it; each round has a process of its own.
pub(super) fn run(recorder: &mut Recorder<'_>, folder: &Path, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let program = build(folder)?;
    let mut samples = Samples::default();
    for _ in 0..effort.choose(1, 7) {
        let mut child =
            Command::new(&program).stdout(Stdio::piped()).spawn().context("switch cannot be started")?;
        let done = round(recorder, &mut child, &mut samples);
        let _ = child.kill();
        let _ = child.wait();
        done?;
    }
    Ok(FIGURES.iter().map(|(name, figure, unit)| Figure::new(figure, unit, samples.of(name))).collect())
}

fn build(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, program) = (folder.join("switch.c"), folder.join("switch"));
    std::fs::write(&source, SOURCE).context("cannot write the C program")?;
    native::compile(Command::new("cc").arg("-o").arg(&program).arg(&source))?;
    Ok(program)
}

fn round(recorder: &mut Recorder<'_>, child: &mut Child, samples: &mut Samples) -> anyhow::Result<()> {
    let mut lines = BufReader::new(child.stdout.take().context("a program without output")?).lines();
    let mut next = |count: usize| -> anyhow::Result<String> {
        let text: Result<Vec<String>, _> = lines.by_ref().take(count).collect();
        Ok(text?.join("\n"))
    };
    // Three lines of each: it is ready when it has said what is so anyway.
    let mut said = next(3)?;
    let trace = recorder.fresh("trace");
    let mut command = recorder.mote();
    command.args(["functions", "--count", "switch:f*", "-o"]).arg(&trace);
    command.arg("-p").arg(child.id().to_string()).args(["--duration", "2s"]);
    let output = command.stdin(Stdio::null()).output().context("mote cannot be started")?;
    let _ = std::fs::remove_dir_all(&trace);
    let told = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(probes(&told).is_some_and(|probes| probes >= 10_000), "NO PROBES: {told}");
    said = said + "\n" + &next(6)?;
    samples.read(&said, |case| Some(case.to_owned()))
}
