//! One moment, read on the trace clock and on the kernel's clocks.

use crate::Source;
use mote_sys::time::{ClockId, clock_gettime, sleep};

/// How many brackets a sample is the best of; most of the time the second is as good as any.
const TRIES: u32 = 8;

/// The same moment on three clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The trace clock, in its ticks.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, in nanoseconds since 1970-01-01 UTC.
    pub realtime_ns: u64,
    /// `monotonic_ns` is at most this far from the true value at `ticks`.
    pub error_ns: u64,
}

impl Sample {
    /// Takes a sample: of several brackets the narrowest.
    ///
    /// A bracket reads monotonic, ticks, monotonic, realtime, monotonic. The kernel's clock is
    /// read around the counter and not the other way round, because then the width of the bracket
    /// is in nanoseconds at once, before any frequency is known. Preemption inside a bracket
    /// widens it, so it loses; if all lose, `error_ns` says so.
    ///
    /// # Cost
    /// About 2 to 3 us: 40 reads of clocks, no system call where the vDSO serves them.
    pub fn take(source: Source) -> Sample {
        let mut best = Bracket::take(source);
        for _ in 1..TRIES {
            let next = Bracket::take(source);
            if next.width_ns < best.width_ns {
                best = next;
            }
        }
        best.sample
    }

    /// What to add to monotonic time to get wall-clock time, in nanoseconds.
    pub fn epoch_offset_ns(&self) -> i128 {
        i128::from(self.realtime_ns) - i128::from(self.monotonic_ns)
    }
}

/// One try: a sample, and how long it took from the first reading of a clock to the last.
struct Bracket {
    width_ns: u64,
    sample: Sample,
}

impl Bracket {
    fn take(source: Source) -> Bracket {
        let before = clock_gettime(ClockId::Monotonic);
        let ticks = source.ticks();
        let after = clock_gettime(ClockId::Monotonic);
        let realtime = clock_gettime(ClockId::Realtime);
        let last = clock_gettime(ClockId::Monotonic);
        let (monotonic_ns, error_ns) = match source {
            Source::Monotonic => (ticks, 0),
            // The kernel cuts off fractions: one more nanosecond.
            Source::Tsc => (before.midpoint(after), after.saturating_sub(before).div_ceil(2) + 1),
        };
        // The wall clock was read about half way between `after` and `last`.
        let since_ticks = after.midpoint(last).saturating_sub(monotonic_ns);
        let realtime_ns = realtime.saturating_sub(since_ticks);
        Bracket {
            width_ns: last.saturating_sub(before),
            sample: Sample { ticks, monotonic_ns, realtime_ns, error_ns },
        }
    }
}

/// Takes two samples `span_ns` apart: a first estimate of the frequency at the start of a trace.
///
/// With 20 ms the estimate is good to one or two parts in a million, mostly much better; see
/// [`frequency_error_ppb`](crate::frequency_error_ppb).
///
/// # Cost
/// Sleeps for `span_ns`; goes back to sleep when a signal wakes it.
pub fn quick_pair(source: Source, span_ns: u64) -> [Sample; 2] {
    let first = Sample::take(source);
    let end = first.monotonic_ns.saturating_add(span_ns);
    while let Some(left) = end.checked_sub(clock_gettime(ClockId::Monotonic)).filter(|ns| *ns > 0) {
        // Woken early by a signal: the loop sees how much is left.
        let _ = sleep(left);
    }
    [first, Sample::take(source)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_ticks_are_nanoseconds() {
        let sample = Sample::take(Source::Monotonic);
        assert_eq!((sample.ticks, sample.error_ns), (sample.monotonic_ns, 0));
        let pair = quick_pair(Source::Monotonic, 1_000_000);
        assert!(pair[1].monotonic_ns - pair[0].monotonic_ns >= 1_000_000);
        assert_eq!(crate::frequency_hz(&pair[0], &pair[1]), Some(1_000_000_000));
    }

    #[test]
    fn the_two_kernel_clocks_of_a_sample_are_one_moment() {
        // Undisturbed, two samples see the same distance between the clocks to some nanoseconds.
        // A clock that is set in between, or preemption of all brackets, spoils a pair, not all.
        let fits = (0..50).any(|_| {
            let [a, b] = quick_pair(Source::Tsc, 100_000);
            (a.epoch_offset_ns() - b.epoch_offset_ns()).unsigned_abs() <= 200
        });
        assert!(fits, "realtime and monotonic drift apart within 0.1 ms");
    }
}
