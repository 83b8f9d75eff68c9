//! Thresholds that learn what is normal: each system call's is a percentile of its recent durations.

use crate::histogram::Histogram;
use std::collections::BTreeMap;

/// What is left of a duration's weight after an interval: half of it after some seven.
const FADE: f64 = 0.9;
/// So many calls must be expected above the percentile before it is believed.
const ABOVE: f64 = 10.0;
/// How much of the way to its new place a threshold goes in an interval.
const STEP: f64 = 0.25;
/// No threshold is below this: a call that takes less has not waited for anything.
const LEAST_NS: u64 = 1_000;

/// Which percentile thresholds are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile(f64);

impl std::str::FromStr for Percentile {
    type Err = String;

    fn from_str(text: &str) -> Result<Percentile, String> {
        let number = text.strip_prefix(['p', 'P']).unwrap_or(text);
        let percent: f64 =
            number.parse().map_err(|_| format!("`{text}` is not a percentile; give for example p99.9"))?;
        if (50.0..100.0).contains(&percent) {
            Ok(Percentile(percent))
        } else {
            Err(format!(
                "percentile {percent} is out of range (50 to below 100): give for example p99 or p99.9"
            ))
        }
    }
}

impl std::fmt::Display for Percentile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl Percentile {
    /// Calls that must have been seen before a threshold is set.
    pub fn samples(self) -> f64 {
        ABOVE / (1.0 - self.0 / 100.0)
    }
}

/// Learns thresholds.
#[derive(Clone, Debug)]
pub struct Learner {
    percentile: Percentile,
    calls: BTreeMap<u32, Learned>,
}

#[derive(Clone, Debug, Default)]
struct Learned {
    recent: Histogram,
    threshold: Option<f64>,
}

impl Learner {
    /// A learner without samples, whose thresholds will be this percentile.
    pub fn new(percentile: Percentile) -> Learner {
        Learner { percentile, calls: BTreeMap::new() }
    }

    /// Durations of a call, as [`crate::Latency::durations`] gives them.
    pub fn add(&mut self, number: u32, bucket: usize, count: f64) {
        self.calls.entry(number).or_default().recent.add_bucket(bucket, count);
    }

    /// At the end of an interval: the thresholds that move, and where to.
    pub fn step(&mut self) -> Vec<(u32, u64)> {
        let percentile = self.percentile;
        let moved =
            self.calls.iter_mut().filter_map(|(number, call)| Some((*number, call.step(percentile)?)));
        moved.collect()
    }
}

impl Learned {
    fn step(&mut self, percentile: Percentile) -> Option<u64> {
        let enough = self.recent.total() >= percentile.samples();
        let target = self.recent.percentile(percentile.0).filter(|_| enough).map(|ns| ns as f64);
        self.recent.fade(FADE);
        let target = target?;
        let next = self.threshold.map_or(target, |now| now + (target - now) * STEP);
        self.threshold = Some(next);
        Some((next as u64).max(LEAST_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_bpf::helper::bucket;

    #[test]
    fn percentiles_are_checked() {
        assert_eq!("p99.9".parse(), Ok(Percentile(99.9)));
        for wrong in ["p0", "p100", "p200", "p", "fast", "-1"] {
            assert!(wrong.parse::<Percentile>().is_err(), "{wrong}");
        }
        assert!((Percentile(99.9).samples() - 10_000.0).abs() < 1e-6);
    }

    #[test]
    fn thresholds_follow_what_is_normal() {
        let mut learner = Learner::new(Percentile(99.0));
        let mut interval = |count: u32, ns: u64| {
            learner.add(0, bucket(ns) as usize, f64::from(count));
            learner.step().first().map(|(_, ns)| *ns)
        };
        assert_eq!(interval(500, 10_000), None, "too few to say");
        let first = interval(10_000, 10_000).unwrap();
        assert!((9_000..11_500).contains(&first), "{first}");
        let second = interval(100_000, 100_000).unwrap();
        assert!(second > first && second < 50_000, "not at once: {second}");
        let last = (0..40).filter_map(|_| interval(100_000, 100_000)).last().unwrap();
        assert!((90_000..115_000).contains(&last), "{last}");
        let faster = (0..80).filter_map(|_| interval(100_000, 5_000)).last().unwrap();
        assert!(faster < 6_000, "{faster}");
    }
}
