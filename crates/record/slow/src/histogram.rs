//! Durations of a system call, as the kernel counts them: a log-linear histogram, of which the recorder reads what was
//! added.

use crate::places as at;
use mote_bpf::helper::{bucket, bucket_start};

/// Counts of durations by bucket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    counts: Vec<f64>,
    total: f64,
}

impl Histogram {
    /// Counts a duration once, in the bucket that has it.
    pub fn add(&mut self, ns: u64) {
        self.add_to(bucket(ns.min((1 << at::DURATION_BITS) - 1)) as usize, 1.0);
    }

    pub(crate) fn add_to(&mut self, bucket: usize, count: f64) {
        if self.counts.is_empty() {
            self.counts.resize(at::BUCKETS as usize, 0.0);
        }
        if let Some(here) = self.counts.get_mut(bucket) {
            *here += count;
            self.total += count;
        }
    }

    /// How many there are; what stands for several calls counts as them.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The duration that `percent` of the calls do not exceed: the middle of its bucket, at most 1/16 off. `None`
    /// without any.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        if self.total <= 0.0 {
            return None;
        }
        let wanted = self.total * (percent / 100.0).clamp(0.0, 1.0);
        let mut seen = 0.0;
        let mut last = 0;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            seen += count;
            last = bucket as u32;
            if seen >= wanted {
                break;
            }
        }
        Some(middle(last))
    }

    /// The start of the highest bucket that has any.
    pub fn highest(&self) -> Option<u64> {
        let highest = self.counts.iter().rposition(|count| *count > 0.0)?;
        Some(bucket_start(highest as u32))
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            self.add_to(bucket, *count);
        }
    }

    /// Makes all counts a part of what they are: what is old counts less.
    pub fn fade(&mut self, factor: f64) {
        self.counts.iter_mut().for_each(|count| *count *= factor);
        self.total *= factor;
    }
}

/// The middle of a bucket; what is in one of the first eight is exact.
fn middle(bucket: u32) -> u64 {
    let (start, end) = (bucket_start(bucket), bucket_start(bucket + 1));
    start + (end - start) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_sixteenth() {
        let mut all = Histogram::default();
        assert_eq!(all.percentile(50.0), None);
        for ns in 1..=10_000 {
            all.add(ns);
        }
        for (percent, exact) in [(50.0, 5_000.0), (99.0, 9_900.0), (99.9, 9_990.0), (100.0, 10_000.0)] {
            let found = all.percentile(percent).unwrap() as f64;
            assert!((found - exact).abs() <= exact / 16.0, "p{percent}: {found}, not {exact}");
        }
        all.add(u64::MAX);
        assert_eq!(all.highest(), Some(bucket_start(at::BUCKETS - 1)));
    }

    #[test]
    fn what_is_old_counts_less() {
        let mut all = Histogram::default();
        (0..100).for_each(|_| all.add(1000));
        all.fade(0.01);
        (0..10).for_each(|_| all.add(1_000_000));
        assert!(all.percentile(50.0).unwrap() > 900_000);
        let mut sum = Histogram::default();
        sum.merge(&all);
        assert_eq!(sum.total(), 11.0);
    }
}
