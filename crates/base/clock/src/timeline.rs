//! Ticks to kernel time, piecewise linear through samples.
//!
//! # How close it stays to the kernel's clock
//! Let samples lie `T` seconds apart, and let the kernel change the rate of its clock by `d` parts
//! per million somewhere between two of them, a fraction `x` of the way. The chord between the two
//! samples is then `d * x * (1 - x) * T` us off at the change, at most `d * T / 4` us. So with
//! samples every 100 ms, rate changes up to 40 ppm stay within a microsecond; with samples every
//! second, up to 4 ppm. In steady state NTP changes the rate by a fraction of 1 ppm at a time, but
//! `adjtime(3)` begins and ends a correction with 500 ppm, and chrony may use more.
//!
//! Therefore a change of the rate is put where it happened: when the line through the two samples
//! before an interval and the line through the two behind it cross inside the interval, the
//! crossing is the point of the change, and the interval becomes two pieces that meet there. One
//! rate change in three intervals is so reproduced up to the samples' own errors. If there were
//! more, the lines are mean rates: the result is off by at most twice the chord's bound.
//! Bends that put a chord off by less than 250 ns are left alone, since the
//! errors of the samples look the same.
//!
//! Before the first and after the last sample the line is prolonged with the mean rate of the
//! nearest second.

use crate::Sample;
use crate::segment::Segment;
use core::fmt;

/// Bends whose distances from both prolonged lines sum up to less are not looked at.
///
/// A chord over such a bend is off by `a * b / (a + b) <= (a + b) / 4`: 250 ns.
const STRAIGHT_NS: i128 = 1_000;

/// How far apart the two samples are at least, if possible, that tell the rate beyond the ends.
const BASELINE_NS: u64 = 1_000_000_000;

/// Why samples make no time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disorder {
    /// There is no sample.
    Empty,
    /// The counter did not advance from the sample before the one at this index.
    Ticks(usize),
    /// The kernel's monotonic clock went back, or ran more than 32768 ns per tick, before the
    /// sample at this index.
    Monotonic(usize),
    /// The frequency given for a lone sample is not above 30517 Hz.
    Frequency(u64),
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disorder::Empty => f.write_str("no clock sample"),
            Disorder::Ticks(at) => write!(f, "clock sample {at}: the counter did not advance"),
            Disorder::Monotonic(at) => {
                write!(f, "clock sample {at}: monotonic time went back or ran away")
            }
            Disorder::Frequency(hz) => write!(f, "clock frequency of {hz} Hz is too low"),
        }
    }
}

impl core::error::Error for Disorder {}

/// Converts ticks to monotonic and wall-clock time, never decreasing.
///
/// # Invariants
/// Ticks strictly increase from sample to sample, nanoseconds do not decrease, and every slope
/// between neighbours is at most `Segment::MAX_SLOPE`.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    samples: &'a [Sample],
    /// The slope of a lone sample.
    nominal: u64,
}

impl<'a> Timeline<'a> {
    /// The line through `samples`, in the order in which they were taken.
    ///
    /// `freq_hz` is the rate if there is one sample only, and not used otherwise.
    ///
    /// # Errors
    /// [`Disorder`], with the index of the first sample that does not fit.
    ///
    /// # Cost
    /// Looks at each sample once.
    pub fn new(samples: &'a [Sample], freq_hz: u64) -> Result<Timeline<'a>, Disorder> {
        let nominal = match samples {
            [] => return Err(Disorder::Empty),
            [_] => Segment::slope(freq_hz, crate::NS_PER_S).ok_or(Disorder::Frequency(freq_hz))?,
            _ => 0,
        };
        for (at, (left, right)) in (1..).zip(samples.iter().zip(samples.iter().skip(1))) {
            check(left, right, at)?;
        }
        Ok(Timeline { samples, nominal })
    }

    /// Monotonic time at `ticks`, in nanoseconds.
    ///
    /// # Cost
    /// A binary search among the samples and up to four divisions; a [`Cursor`] saves both.
    pub fn monotonic_ns(&self, ticks: u64) -> u64 {
        self.segment_at(ticks).ns_at(ticks)
    }

    /// Wall-clock time at `ticks`, in nanoseconds since 1970-01-01 UTC: monotonic time plus the
    /// offset of the first sample.
    pub fn realtime_ns(&self, ticks: u64) -> i128 {
        i128::from(self.monotonic_ns(ticks)) + self.epoch_offset_ns()
    }

    /// What [`Timeline::realtime_ns`] adds to monotonic time, in nanoseconds.
    pub fn epoch_offset_ns(&self) -> i128 {
        self.samples.first().map_or(0, Sample::epoch_offset_ns)
    }

    /// The straight piece of the line at `ticks`.
    pub fn segment_at(&self, ticks: u64) -> Segment {
        let next = self.samples.partition_point(|sample| sample.ticks <= ticks);
        let left = next.checked_sub(1).and_then(|left| self.samples.get(left));
        match (left, self.samples.get(next)) {
            (Some(left), Some(right)) => self.inside(next, left, right, ticks),
            (None, Some(first)) => self.before_first(first),
            (Some(last), None) => self.after_last(last),
            // There is one sample at least.
            (None, None) => Segment { from: 0, to: u64::MAX, ticks: 0, ns: 0, slope: self.nominal },
        }
    }

    fn before_first(&self, first: &Sample) -> Segment {
        let far = |sample: &&Sample| sample.monotonic_ns - first.monotonic_ns >= BASELINE_NS;
        let other = self.samples.iter().find(far).or(self.samples.last());
        let slope = other.and_then(|other| slope(first, other)).unwrap_or(self.nominal);
        Segment { from: 0, to: first.ticks, ticks: first.ticks, ns: first.monotonic_ns, slope }
    }

    fn after_last(&self, last: &Sample) -> Segment {
        let far = |sample: &&Sample| last.monotonic_ns - sample.monotonic_ns >= BASELINE_NS;
        let other = self.samples.iter().rev().find(far).or(self.samples.first());
        let slope = other.and_then(|other| slope(other, last)).unwrap_or(self.nominal);
        let (ticks, ns) = (last.ticks, last.monotonic_ns);
        Segment { from: ticks, to: u64::MAX, ticks, ns, slope }
    }

    /// The piece at `ticks`, between the samples `left` and `right` at `next - 1` and `next`.
    fn inside(&self, next: usize, left: &Sample, right: &Sample, ticks: u64) -> Segment {
        let Some((at, ns)) = self.bend(next) else { return chord(left, right) };
        let bend = Sample { ticks: at, monotonic_ns: ns, ..*left };
        if ticks < at { chord(left, &bend) } else { chord(&bend, right) }
    }

    /// Where between the samples at `next - 1` and `next` the rate changed, if it visibly did once:
    /// ticks and nanoseconds, strictly inside in ticks.
    ///
    /// `past` is how far the right sample lies above the prolonged line of the samples before it,
    /// `early` how far the left one lies above that of the samples behind it. Both grow in
    /// proportion to their distance from the bend.
    fn bend(&self, next: usize) -> Option<(u64, u64)> {
        let [a, left, right, d] = self.samples.get(next.checked_sub(2)?..next + 2)? else {
            return None;
        };
        let before = chord(a, left);
        let past = i128::from(right.monotonic_ns) - i128::from(before.ns_at(right.ticks));
        let behind = chord(right, d);
        let early = i128::from(left.monotonic_ns) - i128::from(behind.ns_at(left.ticks));
        if past.signum() * early.signum() <= 0 || (past + early).abs() < STRAIGHT_NS {
            return None;
        }
        let gap = i128::from(right.ticks - left.ticks);
        // Both distances fit 65 bits and have one sign; a product out of range is not a bend.
        let run = gap.checked_mul(early)? / (past + early);
        let at = left.ticks.checked_add(u64::try_from(run).ok()?)?;
        let ns = before.ns_at(at);
        let inside = left.ticks < at && at < right.ticks;
        let rising = left.monotonic_ns <= ns && ns <= right.monotonic_ns;
        (inside && rising).then_some((at, ns))
    }
}

/// Converts ticks that mostly come in order: keeps the piece of the line of the last ones.
///
/// Ticks out of order are converted as well, at the price of a search.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    timeline: Timeline<'a>,
    segment: Segment,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `timeline`.
    pub fn new(timeline: Timeline<'a>) -> Cursor<'a> {
        Cursor { timeline, segment: timeline.segment_at(0) }
    }

    /// As [`Timeline::monotonic_ns`].
    ///
    /// # Cost
    /// On the same piece as before: two comparisons, one multiplication.
    #[inline]
    pub fn monotonic_ns(&mut self, ticks: u64) -> u64 {
        if !self.segment.covers(ticks) {
            self.segment = self.timeline.segment_at(ticks);
        }
        self.segment.ns_at(ticks)
    }
}

fn check(before: &Sample, sample: &Sample, at: usize) -> Result<(), Disorder> {
    if sample.ticks <= before.ticks {
        return Err(Disorder::Ticks(at));
    }
    slope(before, sample).map(drop).ok_or(Disorder::Monotonic(at))
}

/// The slope between two samples; `None` when they are one, or out of order, or too steep.
fn slope(from: &Sample, to: &Sample) -> Option<u64> {
    let ns = to.monotonic_ns.checked_sub(from.monotonic_ns)?;
    Segment::slope(to.ticks.checked_sub(from.ticks)?, ns)
}

/// The piece between two points of the line. Between neighbours there is a slope, by the invariant;
/// behind a bend it may be too steep, and the piece is then flat, which does not decrease either.
fn chord(from: &Sample, to: &Sample) -> Segment {
    Segment {
        from: from.ticks,
        to: to.ticks,
        ticks: from.ticks,
        ns: from.monotonic_ns,
        slope: slope(from, to).unwrap_or(0),
    }
}
