//! What becomes of calls of functions that have probes.

use crate::Sampling;

/// What becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CallsAre {
    /// Each is an event.
    #[default]
    Recorded,
    /// Some of them are events, within a budget.
    Sampled(Sampling),
    /// They are counted in the process, and none is an event.
    Counted(Counting),
}

/// How calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Returns are counted, too: how many calls are under way is known.
    pub returns: bool,
    /// CPUs that there can be.
    pub cpus: u32,
}

impl Counting {
    /// Words of a function in each row.
    #[must_use]
    pub fn words(self) -> usize {
        if self.returns { 2 } else { 1 }
    }
}
