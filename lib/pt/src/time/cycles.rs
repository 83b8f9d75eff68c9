//! Between two points of known time: what core cycles say (SDM 33.3.6, 33.8.3.2).
//!
//! An event in cycle c begins at the clock's edge c or up to a cycle later, and so two events whose counts differ by n
//! are more than n - 1 and less than n + 1 cycles apart. A cycle is so many TSC ticks: a fraction with [`BITS`] bits,
//! whose bounds are rounded outwards, as everything is here.

use super::bounds::{Bounds, Ticks};

/// Bits of a rate behind the point.
pub(super) const BITS: u32 = 32;

/// TSC ticks per core cycle, times 2^[`BITS`]: at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Rate {
    /// Of bounds of the bus clock, times CBR.
    pub(super) fn of_ratio(low: u64, high: u64, ratio: u8) -> Option<Rate> {
        let ratio = u64::from(ratio);
        Some(Rate { low: low.checked_div(ratio)?, high: high.div_ceil(ratio.max(1)) })
    }

    /// What holds where one or the other does.
    pub(super) fn or(self, other: Rate) -> Rate {
        Rate { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// What holds where both do; this one where they cannot.
    fn and(self, other: Rate) -> Rate {
        let both = Rate { low: self.low.max(other.low), high: self.high.min(other.high) };
        if both.low <= both.high { both } else { self }
    }
}

/// A point of known time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) at: Ticks,
    /// The count of cycles then, at least and at most (`u64::MAX` if that is not known); nothing if cycles before and
    /// behind have nothing to do with one another.
    pub(super) cycles: Option<(u64, u64)>,
}

/// What lies between two points, of which each may be absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) from: Option<Anchor>,
    pub(super) to: Option<Anchor>,
    pub(super) rate: Option<Rate>,
}

impl Segment {
    /// With the rate that follows from the cycles between both ends, where it is the same all the time.
    pub(super) fn calibrated(self) -> Segment {
        let Some(measured) = self.measured() else { return self };
        let rate = self.rate.map_or(measured, |rate| measured.and(rate));
        Segment { rate: Some(rate), ..self }
    }

    fn measured(&self) -> Option<Rate> {
        let (from, to) = (self.from?, self.to?);
        let ((from_least, from_most), (to_least, to_most)) = (from.cycles?, to.cycles?);
        let least_ticks = to.at.low.saturating_sub(from.at.high).saturating_sub(1);
        let most_ticks = to.at.high.saturating_sub(from.at.low).saturating_add(1);
        let most_cycles = to_most.saturating_add(1).saturating_sub(from_least);
        let least_cycles = to_least.saturating_sub(from_most).saturating_sub(1);
        let high = (u128::from(most_ticks) << BITS).checked_add(u128::from(least_cycles.max(1) - 1))?;
        Some(Rate {
            low: saturate((u128::from(least_ticks) << BITS).checked_div(most_cycles.into())?),
            high: high.checked_div(least_cycles.into()).map_or(u64::MAX, saturate),
        })
    }

    /// What packets say without cycles.
    pub(super) fn hard(&self) -> Bounds {
        let low = self.from.map_or(Bounds::UNKNOWN, |from| Bounds::new(from.at.low, u64::MAX));
        self.to.map_or(low, |to| low.lowered(Bounds::new(0, to.at.high)))
    }

    /// When an event was, by its count of cycles.
    #[inline(always)]
    pub(super) fn at(&self, cycles: u64) -> Bounds {
        let hard = self.hard();
        let Some(rate) = self.rate else { return hard };
        let mut bounds = hard;
        if let Some(Anchor { at, cycles: Some((least, most)) }) = self.from {
            let low = less(cycles.saturating_sub(most.saturating_add(1)), rate.low);
            let high = more(cycles.saturating_add(1).saturating_sub(least), rate.high);
            bounds = bounds.and(Bounds::new(at.low.saturating_add(low), at.high.saturating_add(high)));
        }
        if let Some(Anchor { at, cycles: Some((least, most)) }) = self.to {
            let low = more(most.saturating_add(1).saturating_sub(cycles), rate.high);
            let high = less(least.saturating_sub(cycles.saturating_add(1)), rate.low);
            bounds = bounds.and(Bounds::new(at.low.saturating_sub(low), at.high.saturating_sub(high)));
        }
        // Clocks that contradict one another: only the order of packets is believed.
        if bounds.is_possible() { bounds } else { hard }
    }
}

/// The ticks of so many cycles, rounded down.
fn less(cycles: u64, rate: u64) -> u64 {
    saturate((u128::from(cycles) * u128::from(rate)) >> BITS)
}

/// The ticks of so many cycles, rounded up.
fn more(cycles: u64, rate: u64) -> u64 {
    let mask = (1 << BITS) - 1;
    // The product of two numbers of 64 bits leaves room for the mask.
    saturate((u128::from(cycles) * u128::from(rate) + mask) >> BITS)
}

pub(super) fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(at: u64, cycles: u64) -> Option<Anchor> {
        Some(Anchor { at: Ticks { low: at, high: at }, cycles: Some((cycles, cycles)) })
    }

    fn at(segment: &Segment, cycles: u64) -> (Option<u64>, Option<u64>) {
        let span = segment.at(cycles).span();
        (span.low, span.high)
    }

    const ONE: u64 = 1 << BITS;

    #[test]
    fn cycles_are_measured_between_two_points() {
        // 2000 ticks in 1000 cycles.
        let segment = Segment { from: anchor(10_000, 50), to: anchor(12_000, 1050), rate: None };
        assert_eq!(at(&segment, 550), (Some(10_000), Some(12_000)), "not without a rate");
        let segment = segment.calibrated();
        let rate = segment.rate.expect("measured");
        assert!(rate.low < 2 * ONE && rate.low > 2 * ONE - ONE / 200, "{rate:?}");
        assert!(rate.high > 2 * ONE && rate.high < 2 * ONE + ONE / 200, "{rate:?}");
        let (low, high) = at(&segment, 550);
        assert!((10_995..=10_999).contains(&low.expect("known")), "{low:?}");
        assert!((11_001..=11_005).contains(&high.expect("known")), "{high:?}");
        assert_eq!(at(&segment, 50).0, Some(10_000));
        assert_eq!(at(&segment, 1050).1, Some(12_000));
    }

    #[test]
    fn one_end_is_enough_with_a_rate() {
        let rate = Some(Rate { low: ONE, high: 2 * ONE });
        let segment = Segment { from: anchor(1000, 0), to: None, rate };
        assert_eq!(at(&segment, 100), (Some(1099), Some(1202)));
        let segment = Segment { from: None, to: anchor(1000, 200), rate };
        assert_eq!(at(&segment, 100), (Some(1000 - 202), Some(1000 - 99)));
        let segment = Segment { from: None, to: None, rate };
        assert_eq!(at(&segment, 100), (None, None));
    }

    #[test]
    fn an_end_whose_cycles_are_bounds_is_believed_so_far() {
        let to = Anchor { at: Ticks { low: 2000, high: 2000 }, cycles: Some((900, u64::MAX)) };
        let segment = Segment { from: anchor(1000, 0), to: Some(to), rate: None }.calibrated();
        let rate = segment.rate.expect("measured");
        assert_eq!(rate.low, 0);
        assert_eq!(at(&segment, 100).0, Some(1000));
        assert!((1110..=1120).contains(&at(&segment, 100).1.expect("known")));
    }

    #[test]
    fn contradictions_leave_the_order_of_packets() {
        let rate = Some(Rate { low: 50 * ONE, high: 60 * ONE });
        let segment = Segment { from: anchor(1000, 0), to: anchor(2000, 1000), rate };
        assert_eq!(at(&segment, 500), (Some(1000), Some(2000)));
        // What was measured counts more.
        assert!(at(&segment.calibrated(), 500).1.is_some_and(|high| high < 1510));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let extremes = [0, 1, u64::MAX - 1, u64::MAX];
        for low in extremes {
            for cycles in extremes {
                let end =
                    Some(Anchor { at: Ticks { low, high: u64::MAX }, cycles: Some((cycles, u64::MAX)) });
                let rate = Some(Rate { low: cycles, high: u64::MAX });
                for segment in [Segment { from: end, to: end, rate }, Segment { from: end, to: None, rate }] {
                    let (low, high) = at(&segment.calibrated(), cycles);
                    assert!(low.zip(high).is_none_or(|(low, high)| low <= high));
                }
            }
        }
        assert_eq!(Rate::of_ratio(1, 2, 0), None);
    }
}
