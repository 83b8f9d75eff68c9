//! A log-linear histogram of 64-bit values.
//!
//! Values below 32 have a bucket each; above, every power of two is divided into 32 buckets of the same width. So a
//! bucket is never wider than 1/32 of its values, and its middle is at most 1.6 % off any of them
//! ([`mote_bpf::bucket`]).

use mote_bpf::bucket;

/// Buckets per power of two, as a power of two.
const BITS: u32 = 5;
/// Buckets for all values of 64 bits.
const BUCKETS: usize = bucket::buckets::<BITS>() as usize;

/// Counts of values; smallest, largest, number and sum are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// By bucket; empty before the first value.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Vec::new(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Histogram {
    /// Counts `value` in the bucket that it falls into.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.counts.is_empty() {
            self.counts.resize(BUCKETS, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket::bucket::<BITS>(value) as usize) {
            *count += 1;
        }
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest, exactly; `None` without values.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest, exactly; `None` without values.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// First and last value of each bucket that has some, and how many; ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let bucket =
            |(place, count): (u32, &u64)| (bucket::start::<BITS>(place), bucket::end::<BITS>(place), *count);
        (0..).zip(&self.counts).filter(|(_, count)| **count > 0).map(bucket)
    }

    /// The mean, rounded down; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(u128::from(self.count))?).ok()
    }

    /// A value that `permille` thousandths of all values do not exceed, at most 1.6 % off; `None` without values.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Option<u64> {
        let rank = (u128::from(self.count) * u128::from(permille.min(1000))).div_ceil(1000).max(1);
        let mut seen = 0_u128;
        let place = self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen >= rank
        })?;
        let (low, high) = (bucket::start::<BITS>(place as u32), bucket::end::<BITS>(place as u32));
        Some(low.midpoint(high).clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close_to_the_exact_ones() {
        let mut histogram = Histogram::default();
        let mut values: Vec<u64> =
            (0..10_000_u64).map(|n| n.wrapping_mul(n) % 1_000_003 * (1 + n % 977)).collect();
        values.iter().for_each(|value| histogram.add(*value));
        values.sort_unstable();
        for permille in [1, 10, 500, 900, 990, 999] {
            let exact = values[(values.len() * permille as usize).div_ceil(1000) - 1];
            let got = histogram.quantile(permille).expect("there are values");
            assert!(got.abs_diff(exact) <= exact / 60 + 1, "{permille}: {got}, exactly {exact}");
        }
        assert_eq!((histogram.min(), histogram.max()), (values.first().copied(), values.last().copied()));
        assert_eq!(
            histogram.mean(),
            Some((values.iter().map(|v| u128::from(*v)).sum::<u128>() / 10_000) as u64)
        );
    }

    #[test]
    fn without_values_there_is_nothing_to_say() {
        let empty = Histogram::default();
        assert_eq!((empty.min(), empty.mean(), empty.quantile(500), empty.max()), (None, None, None, None));
    }
}
