//! A straight piece of the line from ticks to nanoseconds.

/// Fraction bits of a slope.
///
/// The truncated slope loses less than `2^-48` ns per tick, 1 ns in a day at 3 GHz; and a slope
/// below [`Segment::MAX_SLOPE`] times any 64-bit number of ticks fits 128 bits.
const FRACTION: u32 = 48;

/// A straight line through one point, valid for `from <= ticks < to`, never decreasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The point: `ns` nanoseconds at `ticks` ticks.
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
    /// Nanoseconds per tick, with `FRACTION` bits behind the point.
    pub(crate) slope: u64,
}

impl Segment {
    /// The steepest slope: 32768 ns per tick, a counter of 30 kHz.
    pub(crate) const MAX_SLOPE: u64 = i64::MAX as u64;

    /// The slope of `ns` nanoseconds in `ticks` ticks; `None` when it is too steep or `ticks` is 0.
    pub(crate) fn slope(ticks: u64, ns: u64) -> Option<u64> {
        let slope = (u128::from(ns) << FRACTION).checked_div(u128::from(ticks))?;
        u64::try_from(slope).ok().filter(|slope| *slope <= Segment::MAX_SLOPE)
    }

    /// Whether `ticks` lies in the range for which this is the right piece of the line.
    #[inline]
    pub fn covers(&self, ticks: u64) -> bool {
        self.from <= ticks && ticks < self.to
    }

    /// The time at `ticks`, in nanoseconds; saturates at both ends of 64 bits.
    ///
    /// # Cost
    /// One 64-by-64-bit multiplication, one shift.
    #[inline]
    pub fn ns_at(&self, ticks: u64) -> u64 {
        if ticks >= self.ticks {
            saturate(u128::from(self.ns) + self.run(ticks - self.ticks))
        } else {
            u128::from(self.ns).saturating_sub(self.run(self.ticks - ticks)) as u64
        }
    }

    #[inline]
    fn run(&self, ticks: u64) -> u128 {
        (u128::from(ticks) * u128::from(self.slope)) >> FRACTION
    }
}

#[inline]
fn saturate(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_saturates_at_both_ends() {
        let line = Segment { from: 0, to: u64::MAX, ticks: 1 << 40, ns: 5, slope: Segment::MAX_SLOPE };
        assert_eq!(line.ns_at(0), 0);
        assert_eq!(line.ns_at(1 << 40), 5);
        assert_eq!(line.ns_at(u64::MAX), u64::MAX);
    }

    #[test]
    fn slopes_out_of_range_are_refused() {
        assert_eq!(Segment::slope(0, 1), None);
        assert_eq!(Segment::slope(1, 1 << 15), None);
        assert_eq!(Segment::slope(1, u64::MAX), None);
        assert_eq!(Segment::slope(u64::MAX, 0), Some(0));
        assert_eq!(Segment::slope(7, 7), Some(1 << FRACTION));
    }

    #[test]
    fn a_day_at_three_gigahertz_is_exact_to_a_nanosecond() {
        let day = 86_400_u64;
        let slope = Segment::slope(3_000_000_007 * day, 1_000_000_000 * day).unwrap();
        let line = Segment { from: 0, to: u64::MAX, ticks: 0, ns: 0, slope };
        let off = (1_000_000_000 * day).abs_diff(line.ns_at(3_000_000_007 * day));
        assert!(off <= 1, "{off} ns");
    }
}
