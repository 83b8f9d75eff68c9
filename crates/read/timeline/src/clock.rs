//! Ticks of a stream to nanoseconds since 1970.

use mote_ctf::model::ClockScale;

/// How a stream's ticks become time.
#[derive(Debug)]
pub(crate) enum Clock<'t> {
    /// The stream has no clock: everything happens at the epoch.
    None,
    /// Frequency and offset of the CTF clock class.
    Ctf(ClockScale),
    /// Samples of the kernel's clocks in the journal, piecewise linear.
    Samples {
        /// Where on the line the last event was.
        cursor: mote_clock::Cursor<'t>,
        /// What to add to monotonic time.
        epoch: i64,
    },
}

impl Clock<'_> {
    /// The last tick that has a time of its own: later ones saturate.
    pub(crate) fn last_tick(&self) -> u64 {
        match self {
            Clock::Ctf(scale) => scale.last_cycle(),
            Clock::None | Clock::Samples { .. } => u64::MAX,
        }
    }

    /// Nanoseconds since 1970 at `ticks`; never decreases where the ticks do not.
    #[inline]
    pub(crate) fn ns(&mut self, ticks: u64) -> i64 {
        match self {
            Clock::None => 0,
            Clock::Ctf(scale) => scale.to_nanos(ticks),
            Clock::Samples { cursor, epoch } => {
                let monotonic = i64::try_from(cursor.monotonic_ns(ticks)).unwrap_or(i64::MAX);
                monotonic.saturating_add(*epoch)
            }
        }
    }
}
