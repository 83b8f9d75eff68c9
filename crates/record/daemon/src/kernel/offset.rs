//! How far the clocks of both traces are apart: measured at the start, and noted in the journal.
//!
//! The kernel's events have `CLOCK_MONOTONIC` as a program in the kernel reads it; those of processes mostly the
//! time-stamp counter, which is converted through samples of both. A program of the kernel is run between two readings
//! of the processes' clock; the distance of its answer from their middle is the offset, and half their distance is how
//! far off that may be.

use super::Kernel;
use crate::samples::Samples;
use mote_clock::Source;
use mote_journal::{ClockOffset, Fact};

/// How often it is tried. The closest pair counts.
const TRIES: usize = 200;

impl Kernel {
    /// Measures and notes it.
    pub(super) fn note_offset(&mut self, source: Source, samples: &Samples) {
        if let Some(offset) = self.measure(source, samples) {
            self.trace.directory.note(&Fact::Offset(offset));
        }
    }

    fn measure(&self, source: Source, samples: &Samples) -> Option<ClockOffset> {
        let mut best: Option<ClockOffset> = None;
        for _ in 0..TRIES {
            let before = source.ticks();
            let kernel = self.tracer.now().ok()?;
            let after = source.ticks();
            let (before, after) = (samples.monotonic_ns(before)?, samples.monotonic_ns(after)?);
            let error_ns = after.saturating_sub(before).div_ceil(2);
            if best.as_ref().is_none_or(|best| error_ns < best.error_ns) {
                let offset_ns = i128::from(kernel) - i128::from(before.midpoint(after));
                best = Some(ClockOffset { offset_ns: offset_ns as i64, error_ns, at: kernel });
            }
        }
        best
    }
}
