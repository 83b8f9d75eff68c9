//! The intervals of several processors in the order of time.

use super::interval::Interval;
use super::machine::{Counts, Machine};
use std::collections::VecDeque;

/// Reads the packets of several processors, and gives the intervals of all of them by the time at which they end, each
/// with the place of its processor in `streams`. Intervals without a time come where they are met. Returns what was
/// found in each.
///
/// A stream is what gives its parts, each with the offset of its first byte, and who reads them. A part begins with a
/// packet, except for the first one. Times are compared as they are: whoever knows that processors have clocks of their
/// own reads them one by one.
///
/// # Errors
/// The first one of a stream.
///
/// # Cost
/// Memory for a part of each stream, and for its intervals.
pub fn merge<P, E>(streams: Vec<(P, Machine)>, mut to: impl FnMut(usize, Interval)) -> Result<Vec<Counts>, E>
where
    P: FnMut() -> Result<Option<(u64, Vec<u8>)>, E>,
{
    let mut all: Vec<Stream<P>> =
        streams.into_iter().map(|(parts, machine)| Stream::new(parts, machine)).collect();
    if let [only] = &mut all[..] {
        only.read(|interval| to(0, interval))?;
        return Ok(vec![only.counts]);
    }
    loop {
        all.iter_mut().try_for_each(Stream::fill)?;
        let first = all.iter().enumerate().filter_map(|(place, stream)| Some((stream.next()?, place))).min();
        let Some((_, place)) = first else { break };
        if let Some(interval) = all.get_mut(place).and_then(|stream| stream.intervals.pop_front()) {
            to(place, interval);
        }
    }
    Ok(all.into_iter().map(|stream| stream.counts).collect())
}

struct Stream<P> {
    parts: P,
    /// Until the end was reached.
    machine: Option<Machine>,
    intervals: VecDeque<Interval>,
    counts: Counts,
}

impl<P, E> Stream<P>
where
    P: FnMut() -> Result<Option<(u64, Vec<u8>)>, E>,
{
    fn new(parts: P, machine: Machine) -> Stream<P> {
        Stream { parts, machine: Some(machine), intervals: VecDeque::new(), counts: Counts::default() }
    }

    /// When the next interval ends; one without a time is first.
    fn next(&self) -> Option<u64> {
        self.intervals.front().map(|interval| interval.end.unwrap_or(0))
    }

    /// Reads on, until there are intervals.
    fn fill(&mut self) -> Result<(), E> {
        let mut intervals = std::mem::take(&mut self.intervals);
        while intervals.is_empty() && self.machine.is_some() {
            self.part(|interval| intervals.push_back(interval))?;
        }
        self.intervals = intervals;
        Ok(())
    }

    /// Reads all.
    fn read(&mut self, mut to: impl FnMut(Interval)) -> Result<(), E> {
        while self.machine.is_some() {
            self.part(&mut to)?;
        }
        Ok(())
    }

    fn part(&mut self, to: impl FnMut(Interval)) -> Result<(), E> {
        let part = (self.parts)()?;
        match (&mut self.machine, part) {
            (Some(machine), Some((offset, bytes))) => machine.feed(&bytes, offset, to),
            (machine, _) => {
                if let Some(machine) = machine.take() {
                    self.counts = machine.finish(to);
                }
            }
        }
        Ok(())
    }
}
