//! One ring's data stream: from chunks of the ring to packets in a file.

use crate::consumer::data_streams::{DataStream, DataStreams, Place, Uncounted, damage};
use crate::consumer::losses::{Losses, RingLosses};
use crate::consumer::stacks::Stacks;
use crate::consumer::totals::{Context, Totals, add, low};
use crate::consumer::walk::{self, Steps};
use crate::output::sink::InRing;
use mote_clock::extend::nearest;
use mote_layout::packet::{HEADER_BYTES, ReportedLoss};
use mote_layout::record::{TIME_BITS, split};
use mote_loss::{Cause, Lost};
use mote_ring::Geometry;
use mote_ring::reader::{Chunk, Look, Reader};
use mote_sys::{Errno, Result};

/// How far ahead of the consumer's a traced CPU's clock may be, in ticks; a record of a later time is a lie.
pub(crate) const SKEW_TICKS: u64 = 1 << 20;

/// Where what streams read goes to.
pub(crate) struct Output<'s> {
    pub(crate) context: &'s Context,
    /// How to walk the records of each event.
    pub(crate) events: &'s [Steps],
    pub(crate) streams: &'s mut DataStreams,
    pub(crate) totals: &'s mut Totals,
    /// What makes addresses of copies of stacks, where records have such.
    pub(crate) stacks: Option<&'s mut Stacks>,
}

/// One ring, on its way into a stream.
pub(crate) struct RingConsumer {
    reader: Reader<'static>,
    place: Place,
    /// Where its packets go, from the first one on.
    stream: Option<DataStream>,
    last_time: u64,
    torn: u64,
    /// What was lost, and what of it is reported.
    losses: RingLosses,
    /// The packet that is being written has all that was written before the counters were looked at.
    reaches_look: bool,
    buffer: Vec<u8>,
    is_damage_reported: bool,
    failed: Option<Errno>,
}

impl RingConsumer {
    /// Of a ring that is there since `start`, in ticks, and is read from its beginning.
    pub(crate) fn new(reader: Reader<'static>, place: Place, start: u64) -> RingConsumer {
        RingConsumer {
            reader,
            place,
            stream: None,
            last_time: 0,
            torn: 0,
            losses: RingLosses::new(start),
            reaches_look: false,
            buffer: Vec::new(),
            is_damage_reported: false,
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
        self.losses.all(&counters, (self.last_time, context.clock.ticks()))
    }

    /// Looks at what was lost so far, without draining the ring.
    pub(crate) fn look_at_losses(&mut self, context: &Context) -> Lost {
        let before = context.clock.ticks();
        let counters = self.counters();
        self.losses.look(&counters, (before, context.clock.ticks()));
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
        self.failed.or(self.stream.as_ref().and_then(DataStream::failed))
    }

    /// The same in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let stream = self.stream.as_ref().and_then(DataStream::failure);
        stream.or_else(|| Some(format!("cannot write {}: {}", self.name(), self.failed?)))
    }

    /// Where its packets go by now.
    pub(crate) fn stream(&mut self) -> Option<&mut DataStream> {
        self.stream.as_mut()
    }

    /// Takes what is in the ring, at most one ring's worth. Sub-buffers that the writers have left are taken
    /// always, the one being written only when `flush`. Under `pressure` packets go to the file
    /// uncounted, straight from the ring. Returns true when anything was taken.
    pub(crate) fn drain(&mut self, output: &mut Output<'_>, take: Take) -> bool {
        self.look_at_losses(output.context);
        let goal = self.reader.written();
        let mut taken = false;
        while self.reader.position() < goal || self.reader.is_damaged() {
            match self.reader.look() {
                Look::Ready(chunk) if chunk.time_end.is_none() && !take.flush => break,
                Look::Ready(chunk) => {
                    taken = true;
                    self.reaches_look = chunk.to >= goal;
                    self.take(output, chunk, take);
                }
                Look::Overwritten(bytes) => output.totals.overwritten += bytes,
                Look::Damaged => {
                    self.report_damage(output.totals);
                    break;
                }
                Look::Empty => break,
            }
        }
        taken
    }

    fn take(&mut self, output: &mut Output<'_>, chunk: Chunk, take: Take) {
        let direct = take.pressure && chunk.time_end.is_some();
        let done = if direct && self.failed().is_none() {
            self.write_direct(output, chunk)
        } else {
            self.write_counted(output, chunk)
        };
        if let Err(errno) = done {
            self.fail(errno, output.totals);
            // What could not be written is still counted.
            let _ = self.write_counted(output, chunk);
        }
        self.reader.release(chunk);
    }

    /// Straight from the ring to the file.
    fn write_direct(&mut self, output: &mut Output<'_>, chunk: Chunk) -> Result<()> {
        let latest = output.context.clock.ticks() + SKEW_TICKS;
        let mut first = [0; 8];
        let head = Chunk { to: chunk.from + 8, ..chunk };
        if chunk.len() < 8 || !self.reader.copy(head, &mut first) {
            return Ok(());
        }
        let begin = nearest(latest, split(u64::from_le_bytes(first)).1, TIME_BITS).max(self.last_time);
        if begin > latest {
            self.report_damage(output.totals);
            return Ok(());
        }
        let end = chunk.time_end.unwrap_or(begin).clamp(begin, latest);
        let reported = self.report_loss(output, chunk.lost, begin)?;
        let mut stream = self.open(output, begin)?;
        let header = stream.header(output.context, (begin, end), chunk.len(), reported);
        let added = stream.sink.add(header, &InRing { reader: &self.reader, chunk });
        if let Ok(offset) = added {
            stream.uncounted.push(Uncounted { offset, len: chunk.len(), begin, end });
        }
        self.stream = Some(stream);
        added?;
        self.wrote(chunk.len(), end, output.totals);
        Ok(())
    }

    /// By a copy, which is checked and counted.
    fn write_counted(&mut self, output: &mut Output<'_>, chunk: Chunk) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(chunk.len(), 0);
        let done = if self.reader.copy(chunk, &mut buffer) {
            self.write_copy(output, &buffer, chunk)
        } else {
            output.totals.overwritten += chunk.len() as u64;
            Ok(())
        };
        self.buffer = buffer;
        done
    }

    fn write_copy(&mut self, output: &mut Output<'_>, bytes: &[u8], chunk: Chunk) -> Result<()> {
        let now = output.context.clock.ticks() + SKEW_TICKS;
        // What a flight recorder kept may be older than the bits in a record reach.
        let latest = chunk.time_end.filter(|end| (self.last_time..now).contains(end)).unwrap_or(now);
        let Some(first) = bytes.first_chunk::<8>() else { return Ok(()) };
        let begin = nearest(latest, split(u64::from_le_bytes(*first)).1, TIME_BITS).max(self.last_time);
        let events = output.events;
        output.totals.counts.resize(events.len(), 0);
        let mut counts = vec![0; events.len()];
        let walked =
            walk::walk_noting(bytes, low(begin, latest), events, &mut counts, &mut output.totals.seen);
        if walked.good < bytes.len() {
            self.report_damage(output.totals);
        }
        if self.failed().is_some() {
            output.totals.unwritten += walked.records;
            return Ok(());
        }
        if walked.good == 0 {
            return Ok(());
        }
        let end = nearest(latest, walked.last_time, TIME_BITS).max(begin);
        let good = bytes.get(..walked.good).unwrap_or(bytes);
        let unwound = output.stacks.as_mut().and_then(|stacks| stacks.unwound(good, end, events));
        let good = unwound.as_deref().unwrap_or(good);
        let reported = self.report_loss(output, chunk.lost, begin)?;
        self.add(output, (begin, end), reported, good)?;
        add(&mut output.totals.counts, &counts);
        if let Some(stream) = &mut self.stream {
            stream.note_written(&counts);
        }
        self.wrote(good.len(), end, output.totals);
        Ok(())
    }

    /// Adds a packet with this content.
    fn add(
        &mut self,
        output: &mut Output<'_>,
        (begin, end): (u64, u64),
        reported: ReportedLoss,
        content: &[u8],
    ) -> Result<()> {
        let mut stream = self.open(output, begin)?;
        let header = stream.header(output.context, (begin, end), content.len(), reported);
        let added = stream.add(header, content);
        self.stream = Some(stream);
        added
    }

    fn wrote(&mut self, content: usize, end: u64, totals: &mut Totals) {
        self.last_time = end;
        if let Some(stream) = &mut self.stream {
            stream.added(end);
        }
        totals.bytes += (HEADER_BYTES + content) as u64;
        totals.packets += 1;
    }

    /// Reports, by an empty packet, what a full ring has lost before the event at `first`, of `full` in all. Returns
    /// what the packet with that event is to tell.
    fn report_loss(&mut self, output: &mut Output<'_>, full: u64, first: u64) -> Result<ReportedLoss> {
        if let Some(reported) = self.losses.before_event(full, (self.last_time, first)) {
            self.add_empty(output, first, reported)?;
        }
        if !self.reaches_look || !self.losses.is_owing() {
            return Ok(self.losses.reported());
        }
        self.begin_with_nothing_lost(output, first)?;
        Ok(self.losses.at_look())
    }

    /// Adds a packet without events that ends at `end` and begins where the last one has ended.
    fn add_empty(&mut self, output: &mut Output<'_>, end: u64, reported: ReportedLoss) -> Result<()> {
        self.begin_with_nothing_lost(output, end)?;
        let end = end.max(self.last_time);
        self.add(output, (self.last_time, end), reported, &[])?;
        self.wrote(0, end, output.totals);
        Ok(())
    }

    /// A loss has happened between the end of the packet before and the end of the one that tells of it: before a
    /// ring's first packet that tells of one comes one that does not.
    fn begin_with_nothing_lost(&mut self, output: &mut Output<'_>, first: u64) -> Result<()> {
        if self.last_time > 0 {
            return Ok(());
        }
        let stream = self.open(output, first)?;
        let begin = self.losses.since().min(first).max(stream.last_time());
        self.stream = Some(stream);
        self.add(output, (begin, begin), ReportedLoss::default(), &[])?;
        self.wrote(0, begin, output.totals);
        Ok(())
    }

    fn fail(&mut self, errno: Errno, totals: &mut Totals) {
        if let Some(stream) = &mut self.stream {
            stream.fail(errno);
        }
        totals.problems.push(format!(
            "cannot write {}: {errno}; recording stops; what was written before is complete",
            self.name()
        ));
        self.failed = Some(errno);
    }

    /// Name of its file.
    fn name(&self) -> String {
        self.stream.as_ref().map_or_else(|| self.place.name(), DataStream::name)
    }

    /// Takes its stream, or a new one if this is the first packet, which begins at `begin`.
    fn open(&mut self, output: &mut Output<'_>, begin: u64) -> Result<DataStream> {
        match self.stream.take() {
            Some(stream) => Ok(stream),
            None => output.streams.take(output.context, self.place, begin),
        }
    }

    /// Whether something was found in the ring that cannot be.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damage_reported || self.stream.as_ref().is_some_and(DataStream::is_damaged)
    }

    fn report_damage(&mut self, totals: &mut Totals) {
        totals.damages += 1;
        if !self.is_damage_reported {
            self.is_damage_reported = true;
            totals.damaged.push(damage(&self.name(), self.last_time));
        }
    }

    /// Ends it: gives up what writers that are no more have left unfinished, and its stream. To be called when nobody
    /// writes any more.
    pub(crate) fn close(&mut self, output: &mut Output<'_>) {
        let goal = self.reader.written();
        while self.reader.position() < goal
            && let Some(torn) = self.reader.give_up()
        {
            self.torn += torn;
            self.drain(output, Take { flush: true, pressure: false });
        }
        self.end(output);
    }

    /// Leaves last packets if events were lost after the one before, and gives its stream up.
    pub(crate) fn end(&mut self, output: &mut Output<'_>) {
        let counters = self.look_at_losses(output.context);
        if self.failed().is_none()
            && let Err(errno) = self.report_last_loss(output, &counters)
        {
            self.fail(errno, output.totals);
        }
        if let Some(stream) = self.stream.take() {
            output.streams.give_back(stream, self.losses.reported());
        }
    }

    /// What was lost behind the last event was lost before now.
    fn report_last_loss(&mut self, output: &mut Output<'_>, counters: &Lost) -> Result<()> {
        let now = output.context.clock.ticks().max(self.last_time);
        let full = counters[Cause::RingFull as usize];
        if let Some(reported) = self.losses.before_event(full, (self.last_time, now)) {
            self.add_empty(output, now, reported)?;
        }
        if self.losses.is_owing() {
            let reported = self.losses.at_look();
            self.add_empty(output, now, reported)?;
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
