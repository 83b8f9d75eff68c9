//! What a recording tells while it runs, and what it came to.

use crate::kernel::KernelRecorded;
use mote_journal::Summary;
use std::path::{Path, PathBuf};

/// What a recording tells while it runs.
pub trait Watch {
    /// From now on nothing is missed: the command has been started with its events on, and the running processes that
    /// were asked for have switched theirs on. Called once.
    fn begun(&mut self, _directory: &Path) {}
    /// How far it is; called about ten times a second.
    fn progress(&mut self, progress: &Progress);
    /// Counts and histograms so far, as text; called as often as was asked for.
    fn aggregates(&mut self, text: &str);
    /// What is known of system calls so far; called as often as was asked for.
    fn latency(&mut self, _now: &crate::Latencies) {}
    /// Something that was asked for is not done.
    fn problem(&mut self, text: &str) {
        self.say(text);
    }
    /// Something that a person should know now.
    fn say(&mut self, text: &str);
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events in the trace so far; packets written in a hurry are counted a little later.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Lost events, as far as their number is known.
    pub lost: u64,
    /// How many times more were lost, of which the number is not known.
    pub lost_unknown: u64,
    /// Processes in the session now.
    pub processes: usize,
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The directory of the recording.
    pub directory: PathBuf,
    /// What it came to.
    pub summary: Summary,
    /// What the kernel's side came to, if its events were asked for.
    pub kernel: Option<KernelRecorded>,
    /// What the samples came to, if threads were sampled.
    pub profile: Option<Summary>,
    /// What the hardware trace came to, if it was asked for.
    pub hardware: Option<mote_pmu::Recorded>,
    /// What went wrong, in words.
    pub problems: Vec<String>,
    /// Counts and histograms, as text; empty when no rule asked for any.
    pub aggregates: String,
}
