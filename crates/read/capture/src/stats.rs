//! What a stream costs, and how fine its times are.

use crate::code::Code;
use crate::error::Error;
use crate::follow::follow_parts;
use crate::stream::{Bytes, Part};
use mote_pt::flow::{Block, Event, Gap, Graph};
use mote_pt::packet::Packet;
use mote_pt::time::{Clocks, Moment, Resolution, TimedSink};
use std::collections::BTreeMap;

/// Packets of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// How many; a run of padding is one.
    pub packets: u64,
    /// How many bytes they have.
    pub bytes: u64,
}

/// What a stream consists of.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Bytes of the stream.
    pub bytes: u64,
    /// Packets by their names.
    pub kinds: BTreeMap<&'static str, Kind>,
    /// Instructions that were followed.
    pub instructions: u64,
    /// Between two packets of time.
    pub resolution: Resolution,
}

impl Stats {
    /// Reads and follows a stream.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(bytes: &Bytes, code: &Code, clocks: &Clocks) -> Result<Stats, Error> {
        let mut stats = Stats { bytes: bytes.len(), ..Stats::default() };
        follow_parts(bytes, code, clocks, &mut stats, Stats::count, |_| true)?;
        Ok(stats)
    }

    /// Counts the packets of a part.
    fn count(&mut self, part: &Part) {
        for item in part.items() {
            let kind = self.kinds.entry(item.what.as_ref().map_or("damage", Packet::name)).or_default();
            kind.packets += 1;
            kind.bytes += item.length as u64;
        }
    }

    /// Bytes for 1,000 instructions; nothing where there are none.
    #[must_use]
    pub fn density(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.bytes as f64 * 1000.0 / self.instructions as f64)
    }
}

impl TimedSink for Stats {
    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        self.instructions += u64::from(block.instructions);
        self.resolution.block(block, graph, moment);
    }

    fn event(&mut self, offset: u64, event: Event, moment: &Moment) {
        self.resolution.event(offset, event, moment);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.resolution.gap(gap, moment);
    }
}
