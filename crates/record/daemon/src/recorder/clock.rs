//! The recording's time: how long it has lasted, and the trace clock beside the kernel's.

use crate::samples::Samples;
use mote_clock::Source;
use mote_session::Now;
use std::time::{Duration, Instant};

/// The clocks.
pub(crate) struct Clock {
    pub(crate) source: Source,
    pub(crate) samples: Samples,
    began: Instant,
    /// Since when all is recorded that is to be.
    is_whole_since: Option<Instant>,
}

impl Clock {
    /// Of a recording that is being made.
    pub(crate) fn new(source: Source) -> Clock {
        Clock { source, samples: Samples::begin(source), began: Instant::now(), is_whole_since: None }
    }

    /// What ticks are counted by.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// The recording begins.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// All processes that are expected have come.
    pub(crate) fn is_whole(&mut self) {
        self.is_whole_since.get_or_insert_with(Instant::now);
    }

    /// For how long all has been recorded that is to be: what a person means who says how long.
    pub(crate) fn whole_for(&self) -> Duration {
        self.is_whole_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// How long the recording has lasted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The same in nanoseconds.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.elapsed().as_nanos() as u64
    }

    /// Now, as the session is told it.
    pub(crate) fn now(&self) -> Now {
        Now { at: Instant::now(), ticks: self.source.ticks() }
    }
}
