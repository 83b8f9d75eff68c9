//! Code that programs make at run time, as it was when it became executable (`mote_jitcode`).

use crate::open::Open;
use crate::recorder::{Error, Targets};
use mote_clock::Sample;
use mote_jitcode::{Collector, What};
use mote_perfdata::intel_pt::Clock;
use std::convert::Infallible;
use std::fs;

/// Rounds after which whatever happened before is known from the other sources: records are held back for two.
const ROUNDS: u32 = 3;

/// The copies.
#[derive(Debug)]
pub(crate) struct Generated {
    collector: Collector,
    /// Those that are not in the capture yet, in the order in which they were made.
    waiting: Vec<Copied>,
    /// Faults of pages that are tracked, with process, address and time.
    writes: Vec<(i32, u64, u64)>,
    /// Counts rounds.
    round: u32,
}

/// Faults that may wait; more are not noted.
const WRITES_MAX: usize = 1 << 16;

/// What has become of memory that may be executed.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The time stamp counter then.
    pub(crate) time: Option<u64>,
    pub(crate) pid: i32,
    pub(crate) start: u64,
    pub(crate) how: How,
    round: u32,
}

/// What has happened to it.
#[derive(Debug)]
pub(crate) enum How {
    /// A page became executable, with these bytes.
    Page { page: Vec<u8>, is_writable: bool },
    /// So many bytes became executable.
    Executable(u64),
    /// So many bytes lay elsewhere before.
    Moved { from: u64, bytes: u64 },
}

impl Generated {
    /// Begins to copy code of those that are recorded.
    ///
    /// # Errors
    /// [`Error::Generated`].
    pub(crate) fn attach(targets: &Targets) -> Result<Generated, Error> {
        let collector = Collector::attach()?;
        match targets {
            Targets::Command(pid) => collector.watch(*pid)?,
            Targets::Threads(threads) | Targets::EachThread(threads) => {
                threads.iter().filter_map(|tid| process(*tid)).try_for_each(|pid| collector.watch(pid))?;
            }
            Targets::All => collector.watch_all(),
        }
        Ok(Generated { collector, waiting: Vec::new(), writes: Vec::new(), round: 0 })
    }

    /// Takes what was copied since the last round; the time stamp counter runs as the clock says, and was at `now`
    /// together with the kernel's clock.
    pub(crate) fn read(&mut self, now: Option<(Sample, Clock)>) {
        self.round = self.round.wrapping_add(1);
        self.take(now);
    }

    fn take(&mut self, now: Option<(Sample, Clock)>) {
        let Generated { waiting, writes, round, .. } = self;
        let round = *round;
        let done = self.collector.read(|change| {
            let time = now.map(|(sample, clock)| {
                let ago = sample.monotonic_ns.saturating_sub(change.time_ns);
                sample.ticks.saturating_sub(Clock { zero: 0, ..clock }.tsc(ago))
            });
            let bytes = change.end.saturating_sub(change.start);
            let how = match change.what {
                What::Copied { page, is_writable } => How::Page { page: page.to_owned(), is_writable },
                What::Executable => How::Executable(bytes),
                What::Moved { from } => How::Moved { from, bytes },
                What::Written => {
                    let has_room = writes.len() < WRITES_MAX;
                    writes.extend(time.filter(|_| has_room).map(|time| (change.pid, change.start, time)));
                    return Ok::<(), Infallible>(());
                }
            };
            waiting.push(Copied { time, pid: change.pid, start: change.start, how, round });
            Ok(())
        });
        let Ok(()) = done;
    }

    /// Notes from now on when pages of this memory are written to, as far as the kernel tells that.
    pub(crate) fn track(&mut self, pid: i32, open: Open) {
        self.collector.track(pid, open.start, open.end);
    }

    /// Notes that no longer.
    pub(crate) fn leave(&self, pid: i32, open: Open) {
        self.collector.leave(pid, open.start, open.end);
    }

    /// Gives the writes to pages that were noted up to now: process, address, and the time stamp counter then.
    pub(crate) fn take_writes(&mut self, now: Option<(Sample, Clock)>) -> Vec<(i32, u64, u64)> {
        self.take(now);
        std::mem::take(&mut self.writes)
    }

    /// Gives what was copied before the time stamp counter was at `time`.
    pub(crate) fn before(&mut self, time: u64) -> impl Iterator<Item = Copied> {
        let later = self.waiting.iter().position(|copied| copied.time.is_some_and(|at| at > time));
        self.waiting.drain(..later.unwrap_or(self.waiting.len()))
    }

    /// Gives what was copied so long ago that all is known from before.
    pub(crate) fn old(&mut self) -> impl Iterator<Item = Copied> {
        let is_new = |copied: &Copied| self.round.wrapping_sub(copied.round) < ROUNDS;
        let new = self.waiting.iter().position(is_new);
        self.waiting.drain(..new.unwrap_or(self.waiting.len()))
    }

    /// A process has ended.
    pub(crate) fn gone(&self, pid: i32) {
        self.collector.forget(pid);
    }

    /// What was not copied, as counts of changes and of processes.
    pub(crate) fn lost(&self) -> [u64; 2] {
        self.collector.lost()
    }
}

/// The process of a thread; none, where it has ended.
fn process(tid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}
