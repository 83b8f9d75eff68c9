//! How a recording ends: what is waited for, one after the other, and for how long. Nothing of it blocks: in each round
//! of the event loop it is looked what is left ([`Left`]).
//!
//! ```text
//! Records ─Ending─▶ Leaving ───▶ Reading ───▶ Waiting ───▶ Ended
//!          goodbye   processes    the rings    the command
//! ```

use crate::ending::Command;
use std::time::{Duration, Instant};

/// How long processes have to switch off; and how many rounds: when the whole machine stood still, they have had no
/// more time than we.
const GOODBYE: (Duration, u32) = (Duration::from_millis(500), 500);

/// How long threads of the recorder are waited for that are at work in a process.
const HELPERS: Duration = Duration::from_secs(2);

/// How far the end is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Not begun: the recording goes on.
    #[default]
    Records,
    /// Processes are to switch off: since when, and how many rounds.
    Leaving(Instant, u32),
    /// What they have written is being read.
    Reading,
    /// All has been read, since then. The command still runs, or threads of the recorder do.
    Waiting(Instant),
    /// Nothing is left to wait for.
    Ended,
}

/// What is left, as the event loop finds it in a round.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// Processes that can still switch off.
    pub processes: bool,
    /// Everything was read from the rings.
    pub is_read: bool,
    /// Threads of the recorder that are at work in a process.
    pub helpers: bool,
    /// The command.
    pub command: Command,
}

impl Stage {
    /// Whether the recording goes on.
    pub fn is_recording(self) -> bool {
        self == Stage::Records
    }

    /// A round in which this is left. Returns true when the next stage begins.
    #[must_use]
    pub(crate) fn step(&mut self, left: Left, now: Instant) -> bool {
        let waited = |since| now.saturating_duration_since(since);
        match *self {
            Stage::Leaving(since, rounds) => {
                let rounds = rounds.saturating_add(1);
                let is_late = waited(since) >= GOODBYE.0 && rounds >= GOODBYE.1;
                let goes_on = !left.processes || is_late;
                *self = if goes_on { Stage::Reading } else { Stage::Leaving(since, rounds) };
                goes_on
            }
            Stage::Reading if left.is_read => {
                *self = Stage::Waiting(now);
                true
            }
            Stage::Waiting(since)
                if left.command != Command::Runs && (!left.helpers || waited(since) >= HELPERS) =>
            {
                *self = Stage::Ended;
                true
            }
            Stage::Records | Stage::Reading | Stage::Waiting(_) | Stage::Ended => false,
        }
    }
}
