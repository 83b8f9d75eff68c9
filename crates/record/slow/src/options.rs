//! Which system calls are slow, and which never are.

use crate::adaptive::Percentile;
use crate::call_name;
use crate::latency::Settings;
use crate::waits::waits_by_request;
use mote_layout::cooperation::SYSCALLS;
use std::time::Duration;

/// Which system calls are recorded because they took long.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyOptions {
    /// From how many nanoseconds on, by number.
    pub thresholds: Vec<(u32, u64)>,
    /// From how many the others, but those that wait by request.
    pub others: u64,
    /// The others' thresholds follow this percentile of their durations.
    pub adaptive: Option<Percentile>,
    /// How often figures are shown, and thresholds move.
    pub interval: Duration,
    /// How often, at most, a slow call has the flight recorder write down what it holds.
    pub snapshots: u32,
}

impl LatencyOptions {
    /// Whether the call has a threshold by its name.
    pub fn names(&self, number: u32) -> bool {
        self.thresholds.iter().any(|(named, _)| *named == number)
    }

    /// Whether the call's threshold may move.
    pub fn learns(&self, number: u32) -> bool {
        self.adaptive.is_some() && !self.names(number) && !waits_by_request(&call_name(number))
    }

    /// What the kernel's programs are told at the start. Thresholds that learn are those of `others` until something is
    /// learned.
    pub fn settings(&self) -> Settings {
        let waiting = (0..SYSCALLS as u32).filter(|number| waits_by_request(&call_name(*number)));
        let mut thresholds: Vec<(u32, u64)> = waiting.map(|number| (number, u64::MAX)).collect();
        thresholds.extend(&self.thresholds);
        Settings { thresholds, others: self.others }
    }
}
