//! One ring's data stream: from chunks of the ring to packets in a file.

use crate::gaps::{Gaps, Losses};
use crate::lanes::{Lane, Lanes, Place, Uncounted, damage};
use crate::seen::Seen;
use crate::sink::{InRing, TraceSink};
use crate::walk::{self, Steps};
use mote_clock::extend::near;
use mote_layout::Cause;
use mote_layout::loss::Lost;
use mote_layout::packet::{HEADER_BYTES, Told};
use mote_layout::record::{TIME_BITS, split};
use mote_ring::Geometry;
use mote_ring::reader::{Chunk, Look, Reader};
use mote_sys::{Errno, Result};
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

    /// Records that were counted are lost after all.
    pub(crate) fn lose(&mut self, counts: &[u64]) {
        for (count, lost) in self.counts.iter_mut().zip(counts) {
            *count = count.saturating_sub(*lost);
        }
        self.unwritten = self.unwritten.saturating_add(counts.iter().sum());
    }
}

/// How far ahead of the consumer's a traced CPU's clock may be, in ticks; a record of a later time is a lie.
pub(crate) const SKEW_TICKS: u64 = 1 << 20;

/// Where what streams read goes to.
pub(crate) struct Sink<'s> {
    pub(crate) context: &'s Context,
    /// How to walk the records of each event.
    pub(crate) events: &'s [Steps],
    pub(crate) lanes: &'s mut Lanes,
    pub(crate) totals: &'s mut Totals,
}

/// One ring, on its way into a stream.
pub(crate) struct Stream {
    reader: Reader<'static>,
    place: Place,
    /// Where its packets go, from the first one on.
    lane: Option<Lane>,
    last_time: u64,
    torn: u64,
    /// What was lost, and what of it is told.
    gaps: Gaps,
    /// The packet that is being written has all that was written before the counters were looked at.
    reaches_look: bool,
    buffer: Vec<u8>,
    damage_told: bool,
    failed: Option<Errno>,
}

impl Stream {
    /// Of a ring that is there since `start`, in ticks, and is read from its beginning.
    pub(crate) fn new(reader: Reader<'static>, place: Place, start: u64) -> Stream {
        Stream {
            reader,
            place,
            lane: None,
            last_time: 0,
            torn: 0,
            gaps: Gaps::new(start),
            reaches_look: false,
            buffer: Vec::new(),
            damage_told: false,
            failed: None,
        }
    }

    /// Bytes waiting in the ring.
    pub(crate) fn backlog(&self) -> u64 {
        self.reader.backlog()
    }

    /// Sizes of the ring.
    pub(crate) fn geometry(&self) -> Geometry {
        self.reader.geometry()
    }

    /// Lost events so far.
    pub(crate) fn lost(&self, context: &Context) -> Losses {
        let counters = self.counters();
        self.gaps.all(&counters, (self.last_time, context.clock.ticks()))
    }

    /// Looks at what was lost so far, for who does not drain the ring.
    pub(crate) fn look_at_losses(&mut self, context: &Context) -> Lost {
        let before = context.clock.ticks();
        let counters = self.counters();
        self.gaps.look(&counters, (before, context.clock.ticks()));
        counters
    }

    /// What writers and we have counted.
    fn counters(&self) -> Lost {
        let mut lost = self.reader.lost();
        let torn = &mut lost[Cause::Torn as usize];
        *torn = torn.wrapping_add(self.torn);
        lost
    }

    /// Why nothing can be written any more.
    fn failed(&self) -> Option<Errno> {
        self.failed.or(self.lane.as_ref().and_then(Lane::failed))
    }

    /// The same in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let lane = self.lane.as_ref().and_then(Lane::failure);
        lane.or_else(|| Some(format!("cannot write {}: {}", self.name(), self.failed?)))
    }

    /// Where its packets go by now.
    pub(crate) fn lane(&mut self) -> Option<&mut Lane> {
        self.lane.as_mut()
    }

    /// Takes what is in the ring, at most one ring's worth. Sub-buffers that the writers have left are taken
    /// always, the one being written only when `flush`. Under `pressure` packets go to the file
    /// uncounted, straight from the ring. Returns true when anything was taken.
    pub(crate) fn drain(&mut self, sink: &mut Sink<'_>, take: Take) -> bool {
        self.look_at_losses(sink.context);
        let goal = self.reader.written();
        let mut taken = false;
        while self.reader.position() < goal || self.reader.is_damaged() {
            match self.reader.look() {
                Look::Ready(chunk) if chunk.time_end.is_none() && !take.flush => break,
                Look::Ready(chunk) => {
                    taken = true;
                    self.reaches_look = chunk.to >= goal;
                    self.take(sink, chunk, take);
                }
                Look::Overwritten(bytes) => sink.totals.overwritten += bytes,
                Look::Damaged => {
                    self.report_damage(sink.totals);
                    break;
                }
                Look::Empty => break,
            }
        }
        taken
    }

    fn take(&mut self, sink: &mut Sink<'_>, chunk: Chunk, take: Take) {
        let direct = take.pressure && chunk.time_end.is_some();
        let done = if direct && self.failed().is_none() {
            self.write_direct(sink, chunk)
        } else {
            self.write_counted(sink, chunk)
        };
        if let Err(errno) = done {
            self.fail(errno, sink.totals);
            // What could not be written is still counted.
            let _ = self.write_counted(sink, chunk);
        }
        self.reader.release(chunk);
    }

    /// Straight from the ring to the file.
    fn write_direct(&mut self, sink: &mut Sink<'_>, chunk: Chunk) -> Result<()> {
        let latest = sink.context.clock.ticks() + SKEW_TICKS;
        let mut first = [0; 8];
        let head = Chunk { to: chunk.from + 8, ..chunk };
        if chunk.len() < 8 || !self.reader.copy(head, &mut first) {
            return Ok(());
        }
        let begin = near(latest, split(u64::from_le_bytes(first)).1, TIME_BITS).max(self.last_time);
        if begin > latest {
            self.report_damage(sink.totals);
            return Ok(());
        }
        let end = chunk.time_end.unwrap_or(begin).clamp(begin, latest);
        let told = self.tell(sink, chunk.lost, begin)?;
        let mut lane = self.open(sink, begin)?;
        let header = lane.header(sink.context, (begin, end), chunk.len(), told);
        let added = lane.sink.add(header, &InRing { reader: &self.reader, chunk });
        if let Ok(offset) = added {
            lane.uncounted.push(Uncounted { offset, len: chunk.len(), begin, end });
        }
        self.lane = Some(lane);
        added?;
        self.wrote(chunk.len(), end, sink.totals);
        Ok(())
    }

    /// By a copy, which is checked and counted.
    fn write_counted(&mut self, sink: &mut Sink<'_>, chunk: Chunk) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(chunk.len(), 0);
        let done = if self.reader.copy(chunk, &mut buffer) {
            self.write_copy(sink, &buffer, chunk)
        } else {
            sink.totals.overwritten += chunk.len() as u64;
            Ok(())
        };
        self.buffer = buffer;
        done
    }

    fn write_copy(&mut self, sink: &mut Sink<'_>, bytes: &[u8], chunk: Chunk) -> Result<()> {
        let now = sink.context.clock.ticks() + SKEW_TICKS;
        // What a flight recorder kept may be older than the bits in a record reach.
        let latest = chunk.time_end.filter(|end| (self.last_time..now).contains(end)).unwrap_or(now);
        let Some(first) = bytes.first_chunk::<8>() else { return Ok(()) };
        let begin = near(latest, split(u64::from_le_bytes(*first)).1, TIME_BITS).max(self.last_time);
        let events = sink.events;
        sink.totals.counts.resize(events.len(), 0);
        let mut counts = vec![0; events.len()];
        let walked = walk::walk_noting(bytes, low(begin, latest), events, &mut counts, &mut sink.totals.seen);
        if walked.good < bytes.len() {
            self.report_damage(sink.totals);
        }
        if self.failed().is_some() {
            sink.totals.unwritten += walked.records;
            return Ok(());
        }
        if walked.good == 0 {
            return Ok(());
        }
        let end = near(latest, walked.last_time, TIME_BITS).max(begin);
        let good = bytes.get(..walked.good).unwrap_or(bytes);
        let told = self.tell(sink, chunk.lost, begin)?;
        self.add(sink, (begin, end), told, good)?;
        add(&mut sink.totals.counts, &counts);
        if let Some(lane) = &mut self.lane {
            lane.note_written(&counts);
        }
        self.wrote(good.len(), end, sink.totals);
        Ok(())
    }

    /// Adds a packet with this content.
    fn add(
        &mut self,
        sink: &mut Sink<'_>,
        (begin, end): (u64, u64),
        told: Told,
        content: &[u8],
    ) -> Result<()> {
        let mut lane = self.open(sink, begin)?;
        let header = lane.header(sink.context, (begin, end), content.len(), told);
        let added = lane.add(header, content);
        self.lane = Some(lane);
        added
    }

    fn wrote(&mut self, content: usize, end: u64, totals: &mut Totals) {
        self.last_time = end;
        if let Some(lane) = &mut self.lane {
            lane.added(end);
        }
        totals.bytes += (HEADER_BYTES + content) as u64;
        totals.packets += 1;
    }

    /// Tells, by an empty packet, what a full ring has lost before the event at `first`, of `full` in all. Returns what the packet with that event is to
    /// tell.
    fn tell(&mut self, sink: &mut Sink<'_>, full: u64, first: u64) -> Result<Told> {
        if let Some(told) = self.gaps.before_event(full, (self.last_time, first)) {
            self.add_empty(sink, first, told)?;
        }
        if !self.reaches_look || !self.gaps.is_owing() {
            return Ok(self.gaps.told());
        }
        self.begin_with_nothing_lost(sink, first)?;
        Ok(self.gaps.at_look())
    }

    /// Adds a packet without events that ends at `end` and begins where the last one has ended.
    fn add_empty(&mut self, sink: &mut Sink<'_>, end: u64, told: Told) -> Result<()> {
        self.begin_with_nothing_lost(sink, end)?;
        let end = end.max(self.last_time);
        self.add(sink, (self.last_time, end), told, &[])?;
        self.wrote(0, end, sink.totals);
        Ok(())
    }

    /// A loss has happened between the end of the packet before and the end of the one that tells of it: before a ring's first packet that tells of one
    /// comes one that does not.
    fn begin_with_nothing_lost(&mut self, sink: &mut Sink<'_>, first: u64) -> Result<()> {
        if self.last_time > 0 {
            return Ok(());
        }
        let lane = self.open(sink, first)?;
        let begin = self.gaps.since().min(first).max(lane.last_time());
        self.lane = Some(lane);
        self.add(sink, (begin, begin), Told::default(), &[])?;
        self.wrote(0, begin, sink.totals);
        Ok(())
    }

    fn fail(&mut self, errno: Errno, totals: &mut Totals) {
        if let Some(lane) = &mut self.lane {
            lane.fail(errno);
        }
        totals.problems.push(format!(
            "cannot write {}: {errno}; recording stops, what was written before is whole",
            self.name()
        ));
        self.failed = Some(errno);
    }

    /// Name of its file.
    fn name(&self) -> String {
        self.lane.as_ref().map_or_else(|| self.place.name(), Lane::name)
    }

    /// Takes its lane, or a new one if this is the first packet, which begins at `begin`.
    fn open(&mut self, sink: &mut Sink<'_>, begin: u64) -> Result<Lane> {
        match self.lane.take() {
            Some(lane) => Ok(lane),
            None => sink.lanes.take(sink.context, self.place, begin),
        }
    }

    /// Whether something was found in the ring that cannot be.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage_told || self.lane.as_ref().is_some_and(Lane::is_damaged)
    }

    fn report_damage(&mut self, totals: &mut Totals) {
        totals.damages += 1;
        if !self.damage_told {
            self.damage_told = true;
            totals.damaged.push(damage(&self.name(), self.last_time));
        }
    }

    /// Ends it: gives up what writers that are no more have left unfinished, and its lane. To be called when nobody writes any
    /// more.
    pub(crate) fn close(&mut self, sink: &mut Sink<'_>) {
        let goal = self.reader.written();
        while self.reader.position() < goal
            && let Some(torn) = self.reader.give_up()
        {
            self.torn += torn;
            self.drain(sink, Take { flush: true, pressure: false });
        }
        self.end(sink);
    }

    /// Leaves last packets if events were lost after the one before, and gives its lane up.
    pub(crate) fn end(&mut self, sink: &mut Sink<'_>) {
        let counters = self.look_at_losses(sink.context);
        if self.failed().is_none()
            && let Err(errno) = self.tell_last(sink, &counters)
        {
            self.fail(errno, sink.totals);
        }
        if let Some(lane) = self.lane.take() {
            sink.lanes.give_back(lane, self.gaps.told());
        }
    }

    /// What was lost behind the last event was lost before now.
    fn tell_last(&mut self, sink: &mut Sink<'_>, counters: &Lost) -> Result<()> {
        let now = sink.context.clock.ticks().max(self.last_time);
        let full = counters[Cause::RingFull as usize];
        if let Some(told) = self.gaps.before_event(full, (self.last_time, now)) {
            self.add_empty(sink, now, told)?;
        }
        if self.gaps.is_owing() {
            let told = self.gaps.at_look();
            self.add_empty(sink, now, told)?;
        }
        Ok(())
    }
}

/// How to take what is in a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take {
    /// Also from the sub-buffer that is being written.
    pub(crate) flush: bool,
    /// The ring fills faster than it is emptied.
    pub(crate) pressure: bool,
}

/// The bits of two times that records have.
pub(crate) fn low(begin: u64, end: u64) -> (u64, u64) {
    const MASK: u64 = (1 << TIME_BITS) - 1;
    (begin & MASK, end & MASK)
}

pub(crate) fn add(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.wrapping_add(*more);
    }
}
