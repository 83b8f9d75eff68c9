//! Histograms of log-linear buckets.

use super::value::{self, Value};
use crate::maps::{Key, KeyType, Maps, bucket_value};
use std::collections::BTreeMap;

/// How often values of a key fell between powers of two.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The key, part by part.
    pub keys: Vec<Value>,
    /// First and last value of a bucket, and how many values were in it; ascending, without empty ones.
    pub buckets: Vec<(i128, i128, u64)>,
    /// How the values are shown.
    pub ty: KeyType,
}

/// The histograms of a map, the one of most values first.
pub(super) fn read(value: &Key, keys: &[Key], pairs: &[(&[u8], &[u8])], maps: &Maps) -> Vec<Histogram> {
    let mut by_key: BTreeMap<&[u8], BTreeMap<u64, u64>> = BTreeMap::new();
    let mut add = |key, place, count: u64| {
        if count > 0 {
            *by_key.entry(key).or_default().entry(place).or_default() += count;
        }
    };
    for (key, counts) in pairs {
        if keys.is_empty() {
            for (place, count) in (0..).zip(counts.chunks_exact(8)) {
                add(&[][..], place, value::word(count, 0));
            }
        } else if let Some((key, place)) = key.split_last_chunk::<8>() {
            add(key, u64::from_le_bytes(*place), value::word(counts, 0));
        }
    }
    let histogram = |(key, places): (&[u8], BTreeMap<u64, u64>)| Histogram {
        keys: keys.iter().map(|part| value::read(part, key, maps)).collect(),
        buckets: places
            .into_iter()
            .map(|(place, count)| {
                let (first, last) = bucket_value(place);
                (first, last, count)
            })
            .collect(),
        ty: value.ty.clone(),
    };
    let mut list: Vec<_> = by_key.into_iter().map(histogram).collect();
    list.sort_by_key(|histogram| std::cmp::Reverse(histogram.count()));
    list
}

impl Histogram {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, (.., count)| sum.saturating_add(*count))
    }

    /// The last value of the bucket in which the value at this part (0 to 1) of the order is: at most an eighth too
    /// large.
    pub fn quantile(&self, part: f64) -> Option<i128> {
        let rank = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut before = 0u64;
        for (_, last, count) in &self.buckets {
            before = before.saturating_add(*count);
            if before >= rank {
                return Some(*last);
            }
        }
        self.buckets.last().map(|(_, last, _)| *last)
    }
}
