//! The trace clock beside the kernel's clocks, over a recording.

use mote_clock::{Conversion, Sample, Source, Timeline};
use mote_sys::time::{ClockId, clock_gettime};

/// How often the clocks are read, in nanoseconds.
const EVERY_NS: u64 = 100_000_000;
/// How far the clock may drift from where the last samples point before a sample is kept, in nanoseconds.
const DRIFT_NS: u128 = 100;
/// A sample is kept at least this often, in nanoseconds.
const KEEP_NS: u64 = 10_000_000_000;

/// The samples that are worth keeping: where the clock's course bends, and a few between.
pub(crate) struct Samples {
    source: Source,
    kept: Vec<Sample>,
    recent: Sample,
    /// How many of the kept ones were reported.
    reported: usize,
}

impl Samples {
    /// Takes the first two.
    pub(crate) fn begin(source: Source) -> Samples {
        let first = mote_clock::quick_pair(source, 5_000_000);
        Samples { source, kept: first.to_vec(), recent: first[1], reported: 0 }
    }

    /// The first sample.
    pub(crate) fn first(&self) -> Sample {
        self.kept.first().copied().unwrap_or(self.recent)
    }

    /// Ticks in a second, as far as is known.
    pub(crate) fn frequency(&self) -> u64 {
        let ends = self.kept.first().zip(self.kept.last());
        ends.and_then(|(first, last)| mote_clock::frequency_hz(first, last)).unwrap_or(1_000_000_000)
    }

    /// Reads the clocks, if it is time to.
    pub(crate) fn tick(&mut self) {
        if clock_gettime(ClockId::Monotonic) < self.recent.monotonic_ns + EVERY_NS {
            return;
        }
        let now = Sample::take(self.source);
        let last = self.kept.last().map_or(0, |sample| sample.monotonic_ns);
        let bends = self.drift(&now) > DRIFT_NS;
        if bends && self.recent.monotonic_ns > last {
            self.kept.push(self.recent);
        }
        if bends || now.monotonic_ns >= last + KEEP_NS {
            self.kept.push(now);
        }
        self.recent = now;
    }

    /// Takes the last one.
    pub(crate) fn end(&mut self) {
        self.recent = Sample::take(self.source);
        self.kept.push(self.recent);
    }

    /// How far `now` is from the line through the last two that were kept, in nanoseconds.
    fn drift(&self, now: &Sample) -> u128 {
        let [.., before, last] = self.kept.as_slice() else { return u128::MAX };
        let line = mote_clock::frequency_hz(before, last).and_then(|hz| Conversion::through(last, hz));
        line.map_or(u128::MAX, |line| {
            let expected = line.realtime_ns(now.ticks) - last.epoch_offset_ns();
            (expected - i128::from(now.monotonic_ns)).unsigned_abs()
        })
    }

    /// The line that the metadata gives.
    pub(crate) fn conversion(&self) -> Option<Conversion> {
        Conversion::fit(&self.kept).or_else(|| Conversion::through(&self.recent, 1_000_000_000))
    }

    /// `CLOCK_MONOTONIC` at these ticks, as the samples so far say.
    pub(crate) fn monotonic_ns(&self, ticks: u64) -> Option<u64> {
        Timeline::new(&self.kept, 1_000_000_000).ok().map(|line| line.monotonic_ns(ticks))
    }

    /// The line that the metadata of a trace give whose clock is `CLOCK_MONOTONIC`.
    pub(crate) fn conversion_of_monotonic(&self) -> Option<Conversion> {
        Conversion::through(&of_monotonic(&self.first()), 1_000_000_000)
    }

    /// The kept samples that were not reported yet.
    pub(crate) fn news(&mut self) -> Vec<Sample> {
        let news = self.kept.get(self.reported..).unwrap_or(&[]).to_vec();
        self.reported = self.kept.len();
        news
    }
}

/// The same moment for a trace whose clock is `CLOCK_MONOTONIC` itself. Both traces of a recording have so the same
/// distance from 1970.
pub(crate) fn of_monotonic(sample: &Sample) -> Sample {
    Sample { ticks: sample.monotonic_ns, error_ns: 0, ..*sample }
}
