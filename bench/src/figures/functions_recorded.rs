//! Runs a command by itself, or under `mote record -f`, and looks whether both do the same.

use super::kernel::mote;
use super::session::Lab;
use super::stopwatch::wall_ns;
use anyhow::Context;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

/// What a run has done.
pub(super) struct Ran {
    pub(super) stdout: Vec<u8>,
    pub(super) status: ExitStatus,
    /// What mote has said of it.
    pub(super) said: String,
    pub(super) seconds: f64,
}

/// Records commands, with functions only, as a flight recorder.
pub(super) struct Recorder<'l> {
    lab: &'l mut Lab,
    mote: PathBuf,
}

/// Runs a command by itself.
///
/// # Errors
/// It cannot be started.
pub(super) fn run_bare(command: &[OsString]) -> anyhow::Result<Ran> {
    let (program, words) = command.split_first().context("which command?")?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
    let begin = wall_ns();
    let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
    let seconds = (wall_ns() - begin) as f64 / 1e9;
    Ok(Ran { stdout: output.stdout, status: output.status, said: String::new(), seconds })
}

impl<'l> Recorder<'l> {
    /// One that puts its recordings there.
    ///
    /// # Errors
    /// mote or its library is not built.
    pub(super) fn new(lab: &'l mut Lab) -> anyhow::Result<Recorder<'l>> {
        super::native::library("libmote.so")?;
        Ok(Recorder { lab, mote: mote()? })
    }

    /// A path that nobody uses.
    pub(super) fn fresh(&mut self, kind: &str) -> PathBuf {
        self.lab.fresh(kind)
    }

    /// The program `mote`.
    pub(super) fn mote(&self) -> Command {
        Command::new(&self.mote)
    }

    /// The beginning of `mote record`, and where it records to.
    pub(super) fn record(&mut self, functions: &[&str]) -> (Command, PathBuf) {
        let trace = self.fresh("trace");
        let mut command = self.mote();
        command.args(["record", "--mode", "overwrite", "-o"]).arg(&trace);
        command.args(functions.iter().flat_map(|pattern| ["-f", pattern]));
        (command, trace)
    }

    /// Records a command; its exit status is the command's, or 3 when something was not recorded.
    ///
    /// # Errors
    /// mote cannot be started, or has put no probes there.
    pub(super) fn run(&mut self, functions: &[&str], command: &[OsString]) -> anyhow::Result<Ran> {
        let (mut recorded, trace) = self.record(functions);
        let log = self.fresh("log");
        recorded.arg("--").args(command).stdin(Stdio::null()).stderr(File::create(&log)?);
        let begin = wall_ns();
        let output = recorded.output().context("mote cannot be started")?;
        let seconds = (wall_ns() - begin) as f64 / 1e9;
        let said = std::fs::read(&log).context("mote has left no word")?;
        let said = String::from_utf8_lossy(&said).into_owned();
        // There is none when mote has refused at once.
        let _ = std::fs::remove_dir_all(&trace);
        let not = said.lines().find(|line| line.contains("not recorded") || line.contains("error"));
        anyhow::ensure!(probes(&said).is_some(), "NO PROBES: {}", not.unwrap_or("mote does not say why"));
        Ok(Ran { stdout: output.stdout, status: output.status, said, seconds })
    }

    /// Counts the calls of a function in a command; returns how many there were.
    ///
    /// # Errors
    /// mote cannot be started, or has counted nothing.
    pub(super) fn count(
        &mut self,
        words: &[&str],
        function: &str,
        command: &[OsString],
    ) -> anyhow::Result<(Ran, u64)> {
        let trace = self.fresh("trace");
        let mut counted = self.mote();
        counted.arg("functions").args(words).arg(function).arg("-o").arg(&trace);
        let begin = wall_ns();
        let output = counted.arg("--").args(command).stdin(Stdio::null()).output();
        let output = output.context("mote cannot be started")?;
        let seconds = (wall_ns() - begin) as f64 / 1e9;
        let shown = self.mote().args(["functions", "--format", "json", "-i"]).arg(&trace).output()?;
        let _ = std::fs::remove_dir_all(&trace);
        let all: serde_json::Value = serde_json::from_slice(&shown.stdout).context("nothing was counted")?;
        let calls = all["functions"][0]["calls"].as_u64().context("nothing was counted")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((Ran { stdout: output.stdout, status: output.status, said, seconds }, calls))
    }
}

impl Ran {
    /// Whether this run did what the other one has done.
    ///
    /// # Errors
    /// What differs.
    pub(super) fn is_like(&self, bare: &Ran) -> anyhow::Result<()> {
        let (was, is) = (bare.status, self.status);
        anyhow::ensure!(was.code() == is.code(), "CRASHES OR DIFFERS: {is} in place of {was}");
        anyhow::ensure!(bare.stdout == self.stdout, "DIFFERS: it prints something else");
        Ok(())
    }
}

/// How many functions mote says that it has put probes into.
pub(super) fn probes(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("mote: probes in "))?;
    line.split(' ').next()?.replace(',', "").parse().ok()
}
