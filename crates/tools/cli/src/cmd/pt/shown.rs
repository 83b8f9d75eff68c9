//! What the verbs that show captures share.

use crate::cmd;
use anyhow::Context;
use clap::ValueEnum;
use mote_capture::{Capture, Code, Given, IN_RECORDING, SIDEBAND, Stream, perf};
use mote_pt::errata::Cpu;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What lines are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// What is to be shown.
#[derive(Debug, clap::Args)]
pub(super) struct Input {
    /// Directory of the capture, or of a recording that has one; or a file or directory of perf with Intel PT, or a
    /// file with nothing but packets
    #[arg(value_name = "DIR|FILE")]
    pub(super) capture: PathBuf,

    /// Only these threads
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(super) tid: Vec<i32>,

    /// Only these processors
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    pub(super) cpu: Vec<u32>,

    /// Of a file with nothing but packets: code as it lies in memory (ELF: so far above its addresses); repeat for more
    #[arg(long, value_name = "[ADDRESS:]FILE", value_parser = given)]
    pub(super) image: Vec<Given>,

    /// The processor, as in 6/158/9, for its errata, where the capture does not say it
    #[arg(long, value_name = "FAMILY/MODEL")]
    pub(super) processor: Option<Cpu>,
}

/// `[ADDRESS:]FILE`
fn given(text: &str) -> Result<Given, String> {
    let at = |address: &str| match address.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => address.parse().ok(),
    };
    let (address, path) = match text.split_once(':') {
        Some((address, path)) if at(address).is_some() => (at(address).unwrap_or(0), path),
        _ => (0, text),
    };
    if path.is_empty() {
        Err("a file is missing".to_owned())
    } else {
        Ok(Given { path: path.into(), address })
    }
}

/// A recording with events that has a capture in it, if it is one.
pub(super) fn recording_with_capture(path: &Path) -> Option<&Path> {
    path.join(IN_RECORDING).join(SIDEBAND).is_file().then_some(path)
}

/// The packets before events that a recording has kept (`do pt snapshot`), in the order in which they were taken.
pub(super) fn snapshots(recording: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(recording.join(IN_RECORDING)).into_iter().flatten().flatten();
    let numbered = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix(SNAPSHOT)?.parse::<u64>().ok()?;
        Some((number, entry.path())).filter(|(_, path)| path.join(SIDEBAND).is_file())
    };
    let mut all: Vec<(u64, PathBuf)> = entries.filter_map(numbered).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, path)| path).collect()
}

/// The recording that a capture is in: it is the capture's directory itself, or one with a snapshot of its packets.
pub(super) fn recording_of(capture: &Path) -> Option<&Path> {
    let of_snapshot = || {
        let is_one = capture.file_name()?.to_str()?.starts_with(SNAPSHOT);
        recording_with_capture(capture.parent()?.parent()?).filter(|_| is_one)
    };
    recording_with_capture(capture).or_else(of_snapshot)
}

/// How the names of directories with packets before events begin.
const SNAPSHOT: &str = "snapshot-";

impl Input {
    /// All of a capture.
    pub(super) fn whole(capture: &Path) -> Input {
        let capture = capture.to_owned();
        Input { capture, tid: Vec::new(), cpu: Vec::new(), image: Vec::new(), processor: None }
    }

    /// The recording that the capture is in.
    pub(super) fn within(&self) -> Option<&Path> {
        recording_of(&self.capture)
    }

    /// Opens it.
    ///
    /// # Errors
    /// It is no capture.
    pub(super) fn open(&self) -> anyhow::Result<Capture> {
        let is_raw = self.capture.is_file() && !perf::is_one(&self.capture);
        if !is_raw && !self.image.is_empty() {
            anyhow::bail!(
                "--image is for files with nothing but packets: {} says itself where its code is",
                self.capture.display()
            );
        }
        let capture = if is_raw {
            Capture::of_packets(&self.capture, &self.image)?
        } else {
            Capture::open(&self.capture)?
        };
        Ok(self.processor.into_iter().fold(capture, Capture::with_cpu))
    }

    /// Opens it, and gives each of the streams of these threads, or each stream, with its code to `each`. What is wrong
    /// with it is said. Returns the capture.
    ///
    /// # Errors
    /// It is no capture, a thread is not there, or `each` says so.
    pub(super) fn with_streams(
        &self,
        mut each: impl FnMut(&Capture, &Stream, &Code) -> anyhow::Result<()>,
    ) -> anyhow::Result<Capture> {
        let capture = self.open()?;
        capture.problems().iter().for_each(|problem| say!("{problem}"));
        self.streams_of(&capture, |stream, code| {
            code.problems().iter().for_each(|problem| say!("{problem}"));
            each(&capture, stream, code)
        })?;
        Ok(capture)
    }

    /// The same of a capture that is open, whatever is wrong with it.
    ///
    /// # Errors
    /// A thread is not there, or `each` says so.
    pub(super) fn streams_of(
        &self,
        capture: &Capture,
        mut each: impl FnMut(&Stream, &Code) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for stream in capture.chosen(&self.tid, &self.cpu)? {
            each(stream, &capture.code(stream)).with_context(|| stream.of.to_string())?;
        }
        Ok(())
    }
}

/// The exit status of a verb that has shown so much, of which some could not be followed.
pub(super) fn status(shown: u64, gaps: u64) -> ExitCode {
    match (shown, gaps) {
        (_, 1..) => cmd::FAILED.into(),
        (0, 0) => cmd::NOTHING.into(),
        _ => ExitCode::SUCCESS,
    }
}
