//! One run of a program in an emulator, bare or under a tracer.

use anyhow::{Context, bail};
use mote_daemon::command::Signals;
use mote_synth::find_program;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(5);
/// How long a run that is asked to end has for that.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines at the end of what a run has said that are shown where it has failed.
const SAID_LINES: usize = 4;

/// A program, and where its runs leave what they write.
#[derive(Debug)]
pub(super) struct Lab {
    folder: PathBuf,
    /// This command.
    mote: PathBuf,
    /// What the emulator is asked for.
    engine: Vec<OsString>,
    /// The program's path, and its arguments.
    command: Vec<OsString>,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The program's exit status, or what the tracer has made of it.
    pub(super) status: i32,
    /// What it has written to standard output; from a guest, to both outputs.
    pub(super) output: PathBuf,
}

/// A signal has asked this command to end.
#[derive(Debug)]
pub(super) struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was ended before its time: nothing is left behind")
    }
}

impl std::error::Error for Stopped {}

impl Lab {
    /// For a command, by the words of a person.
    ///
    /// # Errors
    /// There is no such program.
    pub(super) fn new(folder: &Path, engine: Vec<OsString>, command: &[OsString]) -> anyhow::Result<Lab> {
        let (first, arguments) = command.split_first().context("there is no program to run")?;
        let found = find_program(first)
            .with_context(|| format!("there is no program {} that can be executed", first.display()))?;
        let program = std::path::absolute(found)?;
        let command = [program.into_os_string()].into_iter().chain(arguments.iter().cloned()).collect();
        let mote = std::env::current_exe().context("cannot find out which program this is")?;
        Ok(Lab { folder: folder.to_owned(), mote, engine, command })
    }

    /// The program's path.
    pub(super) fn program(&self) -> &Path {
        self.command.first().map_or(Path::new(""), Path::new)
    }

    /// The program and its arguments.
    pub(super) fn command(&self) -> &[OsString] {
        &self.command
    }

    /// This command.
    pub(super) fn mote(&self) -> &Path {
        &self.mote
    }

    /// A place for something that is called so.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The words that run words in the emulator, with the capture at the place of this name.
    pub(super) fn emulated(&self, name: &str, words: &[OsString]) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec![self.mote.clone().into(), "pt".into(), "synth".into()];
        all.extend_from_slice(&self.engine);
        all.extend(["-o".into(), self.place(name).into(), "--".into()]);
        all.extend_from_slice(words);
        all
    }

    /// Runs words to their end; there must be a capture at the place of this name then.
    ///
    /// # Errors
    /// They cannot be run, or leave no capture; a signal asks this command to end ([`Stopped`]).
    pub(super) fn run(
        &self,
        name: &str,
        words: &[OsString],
        environment: &[(&str, OsString)],
    ) -> anyhow::Result<Ended> {
        let (first, rest) = words.split_first().context("there is nothing to run")?;
        let [output, said] = ["out", "err"].map(|end| self.place(&format!("{name}.{end}")));
        let file =
            |path: &Path| File::create(path).with_context(|| format!("cannot write {}", path.display()));
        let child = Command::new(first)
            .args(rest)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file(&output)?)
            .stderr(file(&said)?)
            // All of them are asked to end, where one is.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", first.display()))?;
        let status = wait(child)?;
        if !self.place(name).join(mote_capture::SIDEBAND).is_file() {
            bail!("it did not run: {}", last_lines(&said));
        }
        let status = status.code().unwrap_or_else(|| -status.signal().unwrap_or(0));
        Ok(Ended { status, output })
    }
}

/// What a command has said at its end, in one line.
fn last_lines(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(SAID_LINES)..).unwrap_or_default();
    if last.is_empty() { "it has said nothing".to_owned() } else { last.join("; ") }
}

/// Waits until it has ended.
fn wait(mut child: Child) -> anyhow::Result<ExitStatus> {
    let signals = Signals::catch()?;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a run")? {
            return Ok(status);
        }
        while let Some(arrived) = signals.next() {
            if arrived.asks_to_end() {
                end(&mut child);
                return Err(Stopped.into());
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a process and all of its group: first they are asked.
pub(super) fn end(child: &mut Child) {
    let group = Pid::from_raw(child.id() as i32);
    let began = Instant::now();
    let _ = killpg(group, Signal::SIGTERM);
    while matches!(child.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}
