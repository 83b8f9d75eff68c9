//! The last packets before an event: a capture of its own, of the CPU or the thread that the event was of.

use crate::cut::{Cut, cut};
use crate::folder::Files;
use crate::machine::Machine;
use crate::recorder::{Error, Last, Output};
use crate::session::Session;
use mote_capture::Of;
use mote_clock::{Sample, frequency_hz};
use std::io;

/// Packets that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The CPU of the event.
    pub cpu: u32,
    /// Its thread, where that has packets of its own.
    pub tid: i32,
    /// When it was, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// How long before it, in nanoseconds.
    pub duration_ns: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// A capture was written.
    Written(Written),
    /// There are no packets of that time: the CPU has no trace, or the thread was not on it.
    Nothing,
    /// All that was there was written after the event, which was so many nanoseconds ago then.
    TooLate(u64),
    /// It would have had so many bytes, for which there is no room.
    NoRoom(u64),
}

/// A capture that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The stream that it has.
    pub of: Of,
    /// Bytes of packets.
    pub packets: u64,
    /// Bytes of all that was written.
    pub bytes: u64,
    /// From the time of its first packet to the event, in nanoseconds: the duration and a period of PSB at most, but
    /// where the processor was idle.
    pub covered_ns: u64,
    /// How much of the duration had been written over already, in nanoseconds: 0 where all is there, or the trace began
    /// later.
    pub overwritten_ns: u64,
    /// From the event to when the processor's writing was stopped, in nanoseconds.
    pub latency_ns: u64,
}

/// The time stamp counter as nanoseconds: a line through now.
struct Line {
    now: Sample,
    hz: u64,
}

impl Line {
    /// The counter when CLOCK_MONOTONIC was at `ns`.
    fn ticks(&self, ns: u64) -> u64 {
        let ago = self.scale(i128::from(self.now.monotonic_ns) - i128::from(ns), self.hz, NS_PER_S);
        u64::try_from(i128::from(self.now.ticks) - ago).unwrap_or(0)
    }

    /// So many ticks, in nanoseconds.
    fn ns(&self, ticks: u64) -> u64 {
        u64::try_from(self.scale(i128::from(ticks), NS_PER_S, self.hz)).unwrap_or(u64::MAX)
    }

    fn scale(&self, value: i128, by: u64, from: u64) -> i128 {
        (value * i128::from(by)).checked_div(i128::from(from)).unwrap_or(0)
    }
}

const NS_PER_S: u64 = 1_000_000_000;

impl<M: Machine> Session<M> {
    /// Writes the packets before an event as a capture, with the notes that belong to them, into what `files` makes. It
    /// has at most `room` bytes.
    ///
    /// # Errors
    /// It cannot be written.
    ///
    /// # Cost
    /// Tracing of that CPU is off while its memory is copied. Then the packets of that time are read once.
    pub fn snapshot_before(
        &mut self,
        wanted: &Before,
        room: u64,
        files: impl FnOnce() -> io::Result<Box<dyn Files>>,
    ) -> Result<Snapshot, Error> {
        let stream = [Of::Cpu(wanted.cpu), Of::Thread(wanted.tid)];
        let Some(Last { of, bytes, is_full, stopped }) = self.recorder.last(&stream) else {
            return Ok(Snapshot::Nothing);
        };
        let Some(line) = stopped.and_then(|now| self.line(now)) else { return Ok(Snapshot::Nothing) };
        let event = line.ticks(wanted.time_ns);
        let begin = line.ticks(wanted.time_ns.saturating_sub(wanted.duration_ns));
        let latency_ns = line.ns(line.now.ticks.saturating_sub(event));
        let Some(Cut { bytes: part, from }) = cut(&bytes, &(begin..event), &self.clocks, self.errata) else {
            return Ok(if is_full { Snapshot::TooLate(latency_ns) } else { Snapshot::Nothing });
        };
        self.settle()?;
        let (notes, beside) = self.output.notes_of(of, from).map_err(Error::Output)?;
        let all = part.len() as u64 + beside;
        if all > room {
            return Ok(Snapshot::NoRoom(all));
        }
        let mut copy =
            files().and_then(|files| self.output.copy_parts(files, &notes)).map_err(Error::Output)?;
        copy.packets(of, &bytes[part.clone()]).map_err(Error::Output)?;
        Ok(Snapshot::Written(Written {
            of,
            packets: part.len() as u64,
            bytes: all,
            covered_ns: line.ns(event.saturating_sub(from)),
            overwritten_ns: if is_full { line.ns(from.saturating_sub(begin)) } else { 0 },
            latency_ns,
        }))
    }

    /// The line through the counter's first sample and this one.
    fn line(&self, now: Sample) -> Option<Line> {
        let hz = frequency_hz(self.began.as_ref()?, &now)?;
        Some(Line { now, hz })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ticks_of_the_counter() {
        let now = Sample { ticks: 9_000_000, monotonic_ns: 5_000_000, realtime_ns: 0, error_ns: 0 };
        let line = Line { now, hz: 2_000_000_000 };
        assert_eq!(
            [5_000_000, 4_000_000, 5_000_500, 0].map(|ns| line.ticks(ns)),
            [9_000_000, 7_000_000, 9_001_000, 0]
        );
        assert_eq!((line.ns(2_000), line.ns(0)), (1_000, 0));
    }
}
