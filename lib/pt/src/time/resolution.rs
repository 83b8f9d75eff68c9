//! How fine the times of a trace are: the temporal resolution factor (Sharma 2017, section 5.5.2).
//!
//! Between two packets that tell a time, so many instructions were executed, and so much time has passed. The factor of
//! a trace is the product of both medians; the thesis scales those of several traces to 0 (finest) to 100.

use super::nanoseconds::Nanoseconds;
use super::timed::{Moment, TimedSink};
use crate::flow::{Event, Gap};
use crate::insn::{Block, Graph};
use crate::packet::Packet;
use std::collections::BTreeMap;

/// The resolution of a trace: a sink for what is timed.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    instructions: Distribution,
    ticks: Distribution,
    /// Since the last point.
    count: u64,
    /// The last point's time.
    last: Option<u64>,
}

impl Resolution {
    /// The median of instructions between two points; nothing where there are none.
    #[must_use]
    pub fn instructions(&self) -> Option<u64> {
        self.instructions.median()
    }

    /// The median of TSC ticks between two points.
    #[must_use]
    pub fn ticks(&self) -> Option<u64> {
        self.ticks.median()
    }

    /// The product of both medians, in instructions times nanoseconds.
    #[must_use]
    pub fn factor(&self, clock: &Nanoseconds) -> Option<f64> {
        let zero = clock.of(0);
        let ns = clock.of(self.ticks()?).saturating_sub(zero);
        Some(self.instructions()? as f64 * ns as f64)
    }

    /// What another trace has, too.
    pub fn add(&mut self, other: &Resolution) {
        self.instructions.add(&other.instructions);
        self.ticks.add(&other.ticks);
    }

    /// The factors of several traces, scaled: 0 is the finest, 100 the coarsest.
    #[must_use]
    pub fn scaled(factors: &[f64]) -> Vec<f64> {
        let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
        let most = factors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range = if most > least { most - least } else { 1.0 };
        factors.iter().map(|factor| 100.0 * (factor - least) / range).collect()
    }

    /// A point: what was executed since the last one counts, if anything was.
    fn point(&mut self, time: Option<u64>) {
        let count = std::mem::take(&mut self.count);
        let last = std::mem::replace(&mut self.last, time);
        if let (Some(time), Some(last), 1..) = (time, last, count) {
            self.instructions.count(count);
            self.ticks.count(time.saturating_sub(last));
        }
    }
}

impl TimedSink for Resolution {
    #[inline]
    fn block(&mut self, block: &Block, _: &Graph, _: &Moment) {
        self.count += u64::from(block.instructions);
    }

    fn event(&mut self, _: u64, event: Event, moment: &Moment) {
        match event {
            Event::Packet { packet: Packet::Tsc(_) | Packet::Mtc(_) | Packet::Cyc(_), .. } => {
                self.point(moment.span().low);
            }
            Event::Overflow | Event::Cut => self.last = None,
            _ => {}
        }
    }

    fn gap(&mut self, _: Gap, _: &Moment) {
        self.last = None;
    }
}

/// How often each number has come; of large ones the 12 highest bits are kept.
#[derive(Clone, Debug, Default)]
struct Distribution(BTreeMap<u64, u64>);

impl Distribution {
    const BITS: u32 = 12;

    fn count(&mut self, value: u64) {
        let dropped = (u64::BITS - value.leading_zeros()).saturating_sub(Self::BITS);
        *self.0.entry(value >> dropped << dropped).or_default() += 1;
    }

    fn add(&mut self, other: &Distribution) {
        other.0.iter().for_each(|(value, count)| *self.0.entry(*value).or_default() += count);
    }

    fn median(&self) -> Option<u64> {
        let half = self.0.values().sum::<u64>() / 2;
        let mut passed = 0;
        let at = self.0.iter().find(|(_, count)| {
            passed += **count;
            passed > half
        });
        at.map(|(value, _)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let mut all = Distribution::default();
        assert_eq!(all.median(), None);
        for value in [5, 1, 9, 5, 7] {
            all.count(value);
        }
        assert_eq!(all.median(), Some(5));
        all.add(&[8, 9, 9].into_iter().fold(Distribution::default(), |mut all, value| {
            all.count(value);
            all
        }));
        assert_eq!(all.median(), Some(8));
        let mut large = Distribution::default();
        large.count(0x1234_5678);
        assert_eq!(large.median(), Some(0x1234_0000));
    }

    #[test]
    fn points_without_instructions_do_not_count() {
        let mut resolution = Resolution::default();
        for (count, time) in [(5, 100), (10, 120), (0, 900), (10, 920), (12, 950)] {
            resolution.count += count;
            resolution.point(Some(time));
        }
        assert_eq!((resolution.instructions(), resolution.ticks()), (Some(10), Some(20)));
        let clock = Nanoseconds::Hertz { numerator: 2_000_000_000, denominator: 1 };
        assert_eq!(resolution.factor(&clock), Some(100.0));
    }

    /// The thesis's formula, with N = 100.
    #[test]
    fn factors_are_scaled_to_their_range() {
        assert_eq!(Resolution::scaled(&[1092.0, 501_092.0, 1_001_092.0]), [0.0, 50.0, 100.0]);
        assert_eq!(Resolution::scaled(&[7.0, 7.0]), [0.0, 0.0]);
    }
}
