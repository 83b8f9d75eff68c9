//! What system calls came to, for people.

use crate::latency::Counters;
use std::time::Duration;

/// What is known of a system call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallFigures {
    /// Its name.
    pub name: String,
    /// How many returned.
    pub count: u64,
    /// How many of them reached their threshold.
    pub slow: u64,
    /// Durations in nanoseconds that 50 and 99 of a hundred do not exceed, as far as was timed.
    pub percentiles: Option<(u64, u64)>,
    /// The longest one.
    pub max_ns: u64,
    /// From which duration on it is recorded; `u64::MAX` for never.
    pub threshold_ns: u64,
}

/// What is known of the system calls so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Each call that happened, the one with the most slow ones first.
    pub calls: Vec<CallFigures>,
    /// Since the recording began.
    pub elapsed: Duration,
    /// Reads that waited for another side, which no threshold was given for by name.
    pub waited: u64,
    /// Slow calls that were lost, and the like.
    pub counters: Counters,
    /// Threads in a call at the end, the one that is in it longest first.
    pub open: Vec<OpenCall>,
    /// What the programs add to a fast call, in nanoseconds: measured at the end, on this machine.
    pub cost_ns: Option<f64>,
}

/// A system call that had not returned at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The thread that is in it.
    pub tid: u32,
    /// For how many nanoseconds, or up to a tick longer.
    pub age_ns: u64,
}
