//! What the streams of a trace share, and what came out of them together.

use super::seen::Seen;
use crate::output::sink::TraceSink;
use mote_layout::record::TIME_BITS;
use std::sync::Arc;

/// What the streams of a trace share.
#[derive(Clone)]
pub(crate) struct Context {
    /// Where the packets go.
    pub(crate) sink: Arc<dyn TraceSink>,
    /// The trace's id.
    pub(crate) uuid: [u8; 16],
    /// The trace clock.
    pub(crate) clock: mote_clock::Source,
}

/// What came out of the streams together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Records by event id.
    pub(crate) counts: Vec<u64>,
    /// Bytes written.
    pub(crate) bytes: u64,
    /// Packets written.
    pub(crate) packets: u64,
    /// Records that were read but could not be written.
    pub(crate) unwritten: u64,
    /// Bytes that the flight recorder overwrote.
    pub(crate) overwritten: u64,
    /// How often a ring was found damaged: as often an unknown number of events is missing.
    pub(crate) damages: u64,
    /// What was wrong, in words.
    pub(crate) problems: Vec<String>,
    /// The same of what processes have done to their rings: they can do it as often as they like.
    pub(crate) damaged: Vec<String>,
    /// Threads that records are of.
    pub(crate) seen: Seen,
}

impl Totals {
    /// Counts records of an event.
    pub(crate) fn count(&mut self, id: usize, records: u64) {
        self.counts.resize(self.counts.len().max(id + 1), 0);
        if let Some(count) = self.counts.get_mut(id) {
            *count += records;
        }
    }

    /// Adds records, bytes and packets of another stream.
    pub(crate) fn add(&mut self, other: &Totals) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        add(&mut self.counts, &other.counts);
        self.bytes += other.bytes;
        self.packets += other.packets;
    }

    /// Records that were counted are lost after all.
    pub(crate) fn lose(&mut self, counts: &[u64]) {
        for (count, lost) in self.counts.iter_mut().zip(counts) {
            *count = count.saturating_sub(*lost);
        }
        self.unwritten = self.unwritten.saturating_add(counts.iter().sum());
    }
}

/// The bits of two times that records have.
pub(crate) fn low(begin: u64, end: u64) -> (u64, u64) {
    const MASK: u64 = (1 << TIME_BITS) - 1;
    (begin & MASK, end & MASK)
}

/// Adds `more` to `sums`, one by one.
pub(crate) fn add(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(*more);
    }
}
