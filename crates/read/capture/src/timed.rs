//! What a capture says of its processor's clocks.

use crate::capture::{Capture, Stream};
use crate::note::{Clock, Note, Processor, What};
use mote_clock::Sample;
use mote_perfdata::intel_pt;
use mote_pt::errata::{Cpu, Errata};
use mote_pt::time::{Clocks, Nanoseconds};

/// The bus clock of simulated processors.
const BUS_HZ: u64 = 100_000_000;

impl Capture {
    /// What is known of the clocks of a stream, for [`crate::follow_timed`].
    #[must_use]
    pub fn clocks(&self, stream: &Stream) -> Clocks {
        let is_end = |what: &What| matches!(what, What::Exit { .. });
        let mut ends = self.notes().iter().filter(|note| note.tid == stream.tid() && is_end(&note.what));
        Clocks { end: ends.next_back().and_then(|note| note.time), ..self.processor().clocks() }
    }

    /// The time stamp counter beside the kernel's clocks, as often as that was noted.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        self.notes().iter().filter_map(sample).collect()
    }
}

fn sample(note: &Note) -> Option<Sample> {
    let What::Clock { monotonic_ns, realtime_ns, error_ns } = note.what else { return None };
    Some(Sample { ticks: note.time?, monotonic_ns, realtime_ns, error_ns })
}

/// The line through two samples: how the time stamp counter is CLOCK_MONOTONIC.
fn line(first: &Sample, last: &Sample) -> Option<Clock> {
    let ticks = last.ticks.checked_sub(first.ticks)?;
    let ns = last.monotonic_ns.checked_sub(first.monotonic_ns)?;
    let rate = intel_pt::Clock::of_rate(ns, ticks)?;
    let zero = first.monotonic_ns.wrapping_sub(rate.nanoseconds(first.ticks));
    Some(Clock { zero, mult: rate.mult, shift: rate.shift })
}

impl Processor {
    /// The same, where its time stamp counter was noted beside the kernel's clocks: its times are those of
    /// CLOCK_MONOTONIC then, as events of the kernel have them, and not those of perf's clock.
    pub(crate) fn by_clocks(self, notes: &[Note]) -> Processor {
        let mut samples = notes.iter().filter_map(sample);
        let ends = samples.next().zip(samples.next_back());
        let clock = ends.and_then(|(first, last)| line(&first, &last)).or(self.clock);
        Processor { clock, ..self }
    }

    /// What is known of its clocks.
    ///
    /// How fast the bus clock of a real processor is nobody says precisely, and it may have been set: its core cycles
    /// are measured by MTC only. Real processors may also write TSC packets late, and are switched off between threads.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        let (numerator, denominator) = self.tsc_per_art;
        let clocks = Clocks {
            tsc_per_art: (numerator != 0 && denominator != 0).then_some(self.tsc_per_art),
            mtc: self.mtc,
            cyc: self.cyc,
            has_no_pauses: self.is_simulated(),
            loses_cyc: self.errata().skl168,
            slip: if self.is_simulated() { 0 } else { Clocks::SLIP },
            ..Clocks::default()
        };
        match self.nanoseconds() {
            Some(Nanoseconds::Hertz { numerator, denominator }) if self.is_simulated() => {
                clocks.with_bus((numerator, denominator), BUS_HZ..=BUS_HZ)
            }
            _ => clocks,
        }
    }

    /// What its time stamp counter means: nanoseconds of the kernel's clock where that is known, otherwise since the
    /// counter was 0; nothing where its frequency is not known.
    #[must_use]
    pub fn nanoseconds(&self) -> Option<Nanoseconds> {
        if let Some(clock) = self.clock {
            return Some(Nanoseconds::Perf { zero: clock.zero, shift: clock.shift, mult: clock.mult });
        }
        let (numerator, denominator) = self.tsc_per_art;
        let by_crystal = self.art_hz.saturating_mul(numerator.into());
        match self.tsc_hz {
            Some(hz) if hz > 0 => Some(Nanoseconds::Hertz { numerator: hz, denominator: 1 }),
            _ if by_crystal > 0 && denominator > 0 => {
                Some(Nanoseconds::Hertz { numerator: by_crystal, denominator })
            }
            _ => None,
        }
    }

    /// How often its time stamp counter counts in a second, where that is known.
    #[must_use]
    pub fn hz(&self) -> Option<u64> {
        let (numerator, denominator) = self.tsc_per_art;
        let by_art = (u128::from(self.art_hz) * u128::from(numerator)).checked_div(denominator.into());
        let by_art = by_art.and_then(|hz| u64::try_from(hz).ok());
        [self.tsc_hz, by_art].into_iter().flatten().find(|hz| *hz > 0)
    }

    /// Its model, where that is known.
    #[must_use]
    pub fn cpu(&self) -> Option<Cpu> {
        self.model.map(|[family, model, stepping]| Cpu { family, model, stepping })
    }

    /// What it does otherwise than the manual says: nothing that is known of simulated ones, and of unknown ones.
    #[must_use]
    pub fn errata(&self) -> Errata {
        self.cpu().map_or(Errata::default(), Errata::of)
    }

    /// `mote pt synth` has made the packets: no model is known, and no clock of a kernel.
    fn is_simulated(&self) -> bool {
        self.model.is_none() && self.clock.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::Clock;

    #[test]
    fn clocks_of_a_simulated_processor_are_known() {
        let mut processor =
            Processor { art_hz: 24_000_000, tsc_per_art: (200, 2), mtc: Some(3), ..Processor::default() };
        let hertz = Nanoseconds::Hertz { numerator: 4_800_000_000, denominator: 2 };
        assert_eq!(processor.nanoseconds(), Some(hertz));
        let clocks = processor.clocks();
        assert_eq!(
            (clocks.slip, clocks.has_no_pauses, clocks.bus),
            (0, true, Some(24 << 32..=(24 << 32) + 1))
        );
        // A real one.
        processor.model = Some([6, 158, 9]);
        let clocks = processor.clocks();
        assert_eq!((clocks.slip, clocks.has_no_pauses, clocks.bus), (Clocks::SLIP, false, None));
        processor.clock = Some(Clock { zero: 5, mult: 1, shift: 1 });
        assert_eq!(processor.nanoseconds().map(|clock| clock.of(10)), Some(10));
    }

    #[test]
    fn the_kernels_clocks_say_what_the_counter_means() {
        let note = |tsc, monotonic_ns| Note {
            pid: crate::note::KERNEL,
            tid: -1,
            cpu: None,
            instructions: None,
            time: Some(tsc),
            what: What::Clock { monotonic_ns, realtime_ns: 0, error_ns: 20 },
        };
        // The counter had begun long before the clock; it counts three times a nanosecond.
        let notes = [note(9_000_000_000, 5_000), note(9_000_001_500, 5_500), note(9_000_003_000, 6_000)];
        let own = Clock { zero: 77, mult: 1, shift: 0 };
        let processor = Processor { clock: Some(own), ..Processor::default() };
        let clock = processor.clone().by_clocks(&notes).nanoseconds().expect("a clock");
        assert!(
            clock.of(9_000_000_000) == 5_000 && clock.of(9_000_002_100).abs_diff(5_700) <= 1,
            "{clock:?}"
        );
        for few in [&notes[..0], &notes[..1]] {
            assert_eq!(processor.clone().by_clocks(few).clock, Some(own));
        }
    }

    #[test]
    fn what_is_not_known_is_absent() {
        assert_eq!(Processor::default().nanoseconds(), None);
        let clocks = Processor::default().clocks();
        assert_eq!((clocks.tsc_per_art, clocks.mtc, clocks.cyc, clocks.bus), (None, None, None, None));
    }
}
