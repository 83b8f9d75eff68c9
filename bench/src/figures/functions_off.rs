//! What is left of probes when a recording of a running program has ended: its speed, and its code.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::functions_recorded::{Recorder, probes};
use anyhow::Context;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Rates of the program before, and behind, of which the best counts; and what is left out while things change.
const LINES: usize = 10;
const SETTLE: usize = 3;

/// Records a program that calls functions without end, in each round another process of it.
pub(super) fn run(
    recorder: &mut Recorder<'_>,
    program: &Path,
    effort: Effort,
) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Samples::default();
    for _ in 0..effort.choose(1, 5) {
        let mut running = Running::start(program, 1)?;
        let outcome = round(recorder, &mut running, &mut samples);
        running.end();
        if let Err(why) = outcome {
            return Ok(vec![Figure::absent("off_again/calls", "x", &format!("{why:#}"))]);
        }
    }
    Ok(vec![
        Figure::new("off_again/calls", "x", samples.of("ratio")),
        Figure::new("off_again/calls/recorded", "x", samples.of("recorded")),
        Figure::new("off_again/calls/text", "bytes that differ", samples.of("text")),
    ])
}

fn round(recorder: &mut Recorder<'_>, running: &mut Running, samples: &mut Samples) -> anyhow::Result<()> {
    let before = running.best(LINES)?;
    let (mut command, trace) = recorder.record(&["calls:*"]);
    command.arg("-p").arg(running.child.id().to_string()).args(["--duration", "2s"]);
    // What it prints meanwhile waits in the pipe.
    let output = command.stdin(Stdio::null()).output().context("mote cannot be started")?;
    let _ = std::fs::remove_dir_all(&trace);
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(probes(&said).is_some(), "NO PROBES: {}", said.lines().next().unwrap_or_default());
    anyhow::ensure!(running.child.try_wait()?.is_none(), "CRASHES: the program has ended");
    // All lines of the recording; the worst is one of it.
    let slowest = running.lines(SETTLE + 2 * LINES)?.into_iter().fold(f64::MAX, f64::min);
    let after = running.best(LINES)?;
    samples.add("ratio", after / before);
    samples.add("recorded", slowest / before);
    samples.add("text", differing(running.child.id())? as f64);
    Ok(())
}

/// A program that calls functions without end, and says how many.
pub(super) struct Running {
    child: Child,
    rates: BufReader<ChildStdout>,
}

impl Running {
    /// `work` is how much each call does: 1 for next to nothing.
    pub(super) fn start(program: &Path, work: u32) -> anyhow::Result<Running> {
        let mut command = Command::new(program);
        let mut child = command.arg("rate").arg(work.to_string()).stdout(Stdio::piped()).spawn()?;
        let rates = BufReader::new(child.stdout.take().context("a program without output")?);
        Ok(Running { child, rates })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next rates, in million calls a second.
    pub(super) fn lines(&mut self, count: usize) -> anyhow::Result<Vec<f64>> {
        let mut line = String::new();
        let mut next = || {
            line.clear();
            self.rates.read_line(&mut line)?;
            line.split(' ').next().and_then(|rate| rate.parse().ok()).context("CRASHES: it prints no rate")
        };
        (0..count).map(|_| next()).collect()
    }

    fn best(&mut self, count: usize) -> anyhow::Result<f64> {
        Ok(self.lines(count)?.into_iter().fold(0.0, f64::max))
    }

    pub(super) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of a process's code that are not those of the files.
fn differing(pid: u32) -> anyhow::Result<usize> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut count = 0;
    for line in maps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, rights, offset, _, _, path] = words.as_slice() else { continue };
        if !rights.contains('x') || !path.starts_with('/') || path.starts_with("/memfd:") {
            continue;
        }
        let (start, end) = range.split_once('-').context("a mapping without a range")?;
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        let (mut is, mut was) = (vec![0; (end - start) as usize], vec![0; (end - start) as usize]);
        memory.read_exact_at(&mut is, start)?;
        // The rest of the last page is zeros, as it is in memory.
        File::open(path)?.read_at(&mut was, u64::from_str_radix(offset, 16)?)?;
        count += is.iter().zip(&was).filter(|(is, was)| is != was).count();
    }
    Ok(count)
}
