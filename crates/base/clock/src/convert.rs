//! One frequency, one offset: the linear conversion that a CTF clock class can express.
//!
//! CTF 1.8 section 8 (clocks): the time of a clock value is `offset_s + (offset + ticks) / freq`
//! seconds after the origin, with an integral `freq` in Hz; CTF 2 says the same in other words.
//! All arithmetic is in 128-bit integers.

use crate::{NS_PER_S, Sample};

/// The frequency of the trace clock between two samples, in Hz, rounded to the nearest.
///
/// `None` when no time or no tick passed between them, when one of the clocks ran backwards, or
/// when the result does not fit 64 bits.
pub fn frequency_hz(first: &Sample, last: &Sample) -> Option<u64> {
    let ticks = u128::from(last.ticks.checked_sub(first.ticks)?);
    let ns = u128::from(last.monotonic_ns.checked_sub(first.monotonic_ns)?);
    let hz = (ticks * u128::from(NS_PER_S) + ns / 2).checked_div(ns)?;
    u64::try_from(hz).ok().filter(|hz| *hz > 0)
}

/// A bound of the error of [`frequency_hz`] between the two samples, in parts per 10^9.
///
/// It rests on the error bounds of the samples; the true error is mostly much smaller, since
/// both samples err in the same direction.
pub fn frequency_error_ppb(first: &Sample, last: &Sample) -> u64 {
    let ns = u128::from(last.monotonic_ns.saturating_sub(first.monotonic_ns));
    let error = u128::from(first.error_ns) + u128::from(last.error_ns);
    (error * u128::from(NS_PER_S)).checked_div(ns).and_then(|ppb| u64::try_from(ppb).ok()).unwrap_or(u64::MAX)
}

/// A CTF clock class: ticks to wall-clock time by one line for the whole trace.
///
/// Follows LTTng's convention: the clock is called `monotonic`, and the offset from it to the Unix
/// epoch is constant over the trace, so a step of the wall clock does not bend the time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Frequency of the clock, in Hz; never 0.
    freq_hz: u64,
    /// Whole seconds of the offset.
    offset_s: i64,
    /// The rest of the offset, in ticks, less than a second.
    offset_ticks: u64,
}

impl Conversion {
    /// The line with slope `freq_hz` through one sample.
    ///
    /// `None` when `freq_hz` is 0.
    pub fn through(sample: &Sample, freq_hz: u64) -> Option<Conversion> {
        let freq = i128::from(Some(freq_hz).filter(|hz| *hz > 0)?);
        let whole_s = i128::from(sample.realtime_ns / NS_PER_S);
        let rest_ns = i128::from(sample.realtime_ns % NS_PER_S);
        // The origin in ticks before the sample; rounded down, like the clocks themselves.
        let rest_ticks = rest_ns * freq / i128::from(NS_PER_S);
        let offset = rest_ticks - i128::from(sample.ticks);
        Some(Conversion {
            freq_hz,
            offset_s: i64::try_from(whole_s + offset.div_euclid(freq)).ok()?,
            offset_ticks: u64::try_from(offset.rem_euclid(freq)).ok()?,
        })
    }

    /// The line that agrees with the kernel's monotonic clock at the first and the last sample,
    /// and with its wall clock at the first.
    ///
    /// `None` when there are fewer than two samples or [`frequency_hz`] gives none.
    pub fn fit(samples: &[Sample]) -> Option<Conversion> {
        let first = samples.first()?;
        Conversion::through(first, frequency_hz(first, samples.last()?)?)
    }

    /// The frequency of the clock class, in Hz.
    pub const fn freq_hz(&self) -> u64 {
        self.freq_hz
    }

    /// `offset_s` (CTF 1.8) or `offset-from-origin.seconds` (CTF 2).
    pub const fn offset_s(&self) -> i64 {
        self.offset_s
    }

    /// `offset` (CTF 1.8) or `offset-from-origin.cycles` (CTF 2), in ticks.
    pub const fn offset_ticks(&self) -> u64 {
        self.offset_ticks
    }

    /// Wall-clock time at `ticks`, in nanoseconds since 1970-01-01 UTC, rounded down.
    pub fn realtime_ns(&self, ticks: u64) -> i128 {
        let run = (u128::from(ticks) + u128::from(self.offset_ticks)) * u128::from(NS_PER_S);
        // The sum has at most 65 bits and 10^9 has 30: the quotient fits.
        let run = run.checked_div(u128::from(self.freq_hz)).unwrap_or(0) as i128;
        i128::from(self.offset_s) * i128::from(NS_PER_S) + run
    }

    /// How far the line is from the kernel's monotonic clock at worst among `samples`, in
    /// nanoseconds: what a reader that knows only the clock class is wrong by.
    pub fn worst_deviation_ns(&self, samples: &[Sample]) -> u64 {
        let Some(first) = samples.first() else { return 0 };
        let deviation = |sample: &Sample| {
            let monotonic = self.realtime_ns(sample.ticks) - first.epoch_offset_ns();
            let off = (monotonic - i128::from(sample.monotonic_ns)).unsigned_abs();
            u64::try_from(off).unwrap_or(u64::MAX)
        };
        samples.iter().map(deviation).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_NS: u64 = 1_790_000_000_123_456_789;

    fn at(ticks: u64, monotonic_ns: u64) -> Sample {
        Sample { ticks, monotonic_ns, realtime_ns: EPOCH_NS + monotonic_ns, error_ns: 20 }
    }

    #[test]
    fn both_ends_agree_and_the_offset_is_normal() {
        let samples = [at(7_000_000_123, 3_333_333_391), at(28_000_000_456, 13_333_333_550)];
        let line = Conversion::fit(&samples).unwrap();
        assert!(line.freq_hz().abs_diff(2_100_000_000) < 10_000, "{}", line.freq_hz());
        assert!(line.offset_ticks() < line.freq_hz());
        assert!(line.worst_deviation_ns(&samples) <= 5);
        let ns = line.realtime_ns(samples[0].ticks);
        assert!((ns - i128::from(samples[0].realtime_ns)).abs() <= 1, "{ns}");
    }

    #[test]
    fn nanosecond_ticks_convert_exactly() {
        let samples = [at(1_000, 1_000), at(9_000_000_000, 9_000_000_000)];
        let line = Conversion::fit(&samples).unwrap();
        assert_eq!(line.freq_hz(), 1_000_000_000);
        for ticks in [0, 1, 999_999_999, 5_000_000_001, u64::MAX] {
            let want = i128::from(EPOCH_NS) + i128::from(ticks);
            assert_eq!(line.realtime_ns(ticks), want, "{ticks}");
        }
    }

    #[test]
    fn a_wall_clock_that_is_set_does_not_bend_the_line() {
        let straight = [at(1_000, 1_000), at(21_000_001_000, 10_000_001_000)];
        let mut stepped = straight;
        stepped[1].realtime_ns += 3_600 * NS_PER_S;
        assert_eq!(Conversion::fit(&straight), Conversion::fit(&stepped));
    }

    #[test]
    fn a_counter_older_than_the_epoch_has_a_negative_offset() {
        let mut sample = at(10_000_000_000, 1);
        sample.realtime_ns = 1_500_000_000;
        let line = Conversion::through(&sample, NS_PER_S).unwrap();
        assert_eq!((line.offset_s(), line.offset_ticks()), (-9, 500_000_000));
        assert_eq!(line.realtime_ns(10_000_000_000), 1_500_000_000);
    }

    #[test]
    fn useless_samples_give_no_line() {
        assert_eq!(Conversion::fit(&[]), None);
        assert_eq!(Conversion::fit(&[at(5, 5)]), None);
        assert_eq!(Conversion::fit(&[at(5, 5), at(5, 9)]), None);
        assert_eq!(Conversion::fit(&[at(5, 9), at(9, 5)]), None);
        assert_eq!(Conversion::fit(&[at(0, 0), at(u64::MAX, 1)]), None);
        assert_eq!(Conversion::through(&at(0, 0), 0), None);
        assert_eq!(frequency_error_ppb(&at(5, 5), &at(5, 5)), u64::MAX);
    }
}
