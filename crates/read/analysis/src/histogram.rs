//! A log-linear histogram of 64-bit values.
//!
//! Values below 32 have a bucket each; above, every power of two is divided into 32 buckets of the same width. So a
//! bucket is never wider than 1/32 of its values, and its middle is at most 1.6 % off any of them
//! ([`mote_bpf::bucket`]).

use mote_bpf::bucket;
use std::collections::BTreeSet;

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

    /// The same in at most `most` rows, or in as many as there are powers of two: what people can look at.
    #[must_use]
    pub fn rows(&self, most: usize) -> Vec<(u64, u64, u64)> {
        let [rows] = Histogram::same_rows([self], most);
        rows
    }

    /// Rows of several histograms, of the same widths: together at most `most`, or as many as there are powers of two.
    #[must_use]
    pub fn same_rows<const N: usize>(all: [&Histogram; N], most: usize) -> [Vec<(u64, u64, u64)>; N] {
        let mut bits = BITS;
        loop {
            let rows = all.map(|histogram| histogram.rows_of(bits));
            let firsts: BTreeSet<u64> = rows.iter().flatten().map(|row| row.0).collect();
            if bits == 0 || firsts.len() <= most {
                return rows;
            }
            bits -= 1;
        }
    }

    /// Rows of which each power of two has 2^`bits`.
    fn rows_of(&self, bits: u32) -> Vec<(u64, u64, u64)> {
        let mut rows: Vec<(u64, u64, u64)> = Vec::new();
        for (value, _, count) in self.buckets() {
            let (first, last) = wide(value, bits);
            match rows.last_mut().filter(|row| row.0 == first) {
                Some(row) => row.2 += count,
                None => rows.push((first, last, count)),
            }
        }
        rows
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

/// First and last value of the bucket of a value, where each power of two has 2^`bits` of them.
fn wide(value: u64, bits: u32) -> (u64, u64) {
    let Some(shift) = value.checked_ilog2().and_then(|power| power.checked_sub(bits)) else {
        return (value, value);
    };
    let first = value >> shift << shift;
    (first, first | ((1 << shift) - 1))
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
    fn rows_are_as_few_as_wished_and_hold_all_values() {
        let mut histogram = Histogram::default();
        (0..2000).for_each(|value| histogram.add(value));
        histogram.add(u64::MAX);
        assert_eq!(histogram.rows(usize::MAX).len(), histogram.buckets().count());
        for most in [5, 20, 30, 100] {
            let rows = histogram.rows(most);
            assert!(rows.len() <= most.max(13), "{most}: {rows:?}");
            assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), 2001);
            assert!(
                rows.windows(2).all(|pair| pair[0].1 < pair[1].0) && rows.iter().all(|row| row.0 <= row.1)
            );
        }
        let rows = histogram.rows(1);
        assert_eq!((rows[0], rows[1], rows[5]), ((0, 0, 1), (1, 1, 1), (16, 31, 16)));
    }

    #[test]
    fn without_values_there_is_nothing_to_say() {
        let empty = Histogram::default();
        assert_eq!((empty.min(), empty.mean(), empty.quantile(500), empty.max()), (None, None, None, None));
    }
}
