//! One ring's data stream: from chunks of the ring to packets in a file.

use crate::gaps::{Gaps, Losses};
use crate::packets::Packets;
use crate::seen::Seen;
use crate::walk::{self, Steps};
use mote_clock::extend::near;
use mote_layout::Cause;
use mote_layout::loss::Lost;
use mote_layout::packet::{HEADER_BYTES, PacketHeader, STREAM_PER_CPU, STREAM_SHARED, Told};
use mote_layout::record::{TIME_BITS, split};
use mote_ring::reader::{Chunk, Look, Reader};
use mote_sys::fd;
use mote_sys::{Errno, Result};
use std::path::Path;

/// What the streams of a trace share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    /// The trace's directory.
    pub(crate) directory: &'c Path,
    /// Where its files are until they have a packet.
    pub(crate) hidden: &'c Path,
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
    /// What was wrong, in words.
    pub(crate) problems: Vec<String>,
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
}

/// A packet that is in the file and whose records were not counted yet.
#[derive(Clone, Copy, Debug)]
struct Uncounted {
    offset: u64,
    len: usize,
    begin: u64,
    end: u64,
}

/// How far ahead of the consumer's a traced CPU's clock may be, in ticks; a record of a later time is a lie.
pub(crate) const SKEW_TICKS: u64 = 1 << 20;

/// Which stream of its trace a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    ring: u32,
    class: u32,
    /// CPU, or number among the shared rings.
    number: u32,
    /// Of several rings of a CPU, which.
    level: u32,
}

impl Place {
    /// A ring of a CPU; those of level 1 have what came while another event was being written there.
    pub(crate) fn of_cpu(ring: u32, cpu: u32, level: u32) -> Place {
        Place { ring, class: STREAM_PER_CPU, number: cpu, level }
    }

    /// A ring without a CPU.
    pub(crate) fn shared(ring: u32, number: u32) -> Place {
        Place { ring, class: STREAM_SHARED, number, level: 0 }
    }

    /// Name of its file.
    fn name(self) -> String {
        match (self.class, self.level) {
            (STREAM_SHARED, _) => format!("shared_{}", self.number),
            (_, 0) => format!("cpu_{}", self.number),
            (_, level) => format!("cpu_{}_{level}", self.number),
        }
    }
}

/// One ring's stream.
pub(crate) struct Stream<'c> {
    reader: Reader<'c>,
    place: Place,
    file: Option<Packets>,
    sequence: u64,
    last_time: u64,
    torn: u64,
    /// What was lost, and what of it is told.
    gaps: Gaps,
    /// The packet that is being written has all that was written before the counters were looked at.
    reaches_look: bool,
    uncounted: Vec<Uncounted>,
    buffer: Vec<u8>,
    damage_told: bool,
    failed: Option<Errno>,
}

impl<'c> Stream<'c> {
    /// The stream of a ring that is there since `start`, in ticks; its file is made with the first packet.
    pub(crate) fn new(reader: Reader<'c>, place: Place, start: u64) -> Stream<'c> {
        Stream {
            reader,
            place,
            file: None,
            sequence: 0,
            last_time: 0,
            torn: 0,
            gaps: Gaps::new(start),
            reaches_look: false,
            uncounted: Vec::new(),
            buffer: Vec::new(),
            damage_told: false,
            failed: None,
        }
    }

    /// Bytes waiting in the ring.
    pub(crate) fn backlog(&self) -> u64 {
        self.reader.backlog()
    }

    /// Lost events so far.
    pub(crate) fn lost(&self, context: &Context<'_>) -> Losses {
        let counters = self.counters();
        self.gaps.all(&counters, (self.last_time, context.clock.ticks()))
    }

    /// What writers and we have counted.
    fn counters(&self) -> Lost {
        let mut lost = self.reader.lost();
        let torn = &mut lost[Cause::Torn as usize];
        *torn = torn.wrapping_add(self.torn);
        lost
    }

    /// Looks at what was lost so far, for who does not drain the ring.
    pub(crate) fn look_at_losses(&mut self, context: &Context<'_>) -> Lost {
        let before = context.clock.ticks();
        let counters = self.counters();
        self.gaps.look(&counters, (before, context.clock.ticks()));
        counters
    }

    /// Why the stream cannot be written any more.
    pub(crate) fn failed(&self) -> Option<Errno> {
        self.failed
    }

    /// Takes what is in the ring, at most one ring's worth. Sub-buffers that the writers have left are taken
    /// always, the one being written only when `flush`. Under `pressure` packets go to the file
    /// uncounted, straight from the ring. Answers true when anything was taken.
    pub(crate) fn drain(
        &mut self,
        context: &Context<'_>,
        events: &[Steps],
        take: Take,
        totals: &mut Totals,
    ) -> bool {
        self.look_at_losses(context);
        let goal = self.reader.written();
        let mut taken = false;
        while self.reader.position() < goal {
            match self.reader.look() {
                Look::Ready(chunk) if chunk.time_end.is_none() && !take.flush => break,
                Look::Ready(chunk) => {
                    taken = true;
                    self.reaches_look = chunk.to >= goal;
                    self.take(context, events, chunk, take, totals);
                }
                Look::Overwritten(bytes) => totals.overwritten += bytes,
                Look::Damaged => {
                    self.report_damage(totals);
                    break;
                }
                Look::Empty => break,
            }
        }
        taken
    }

    fn take(
        &mut self,
        context: &Context<'_>,
        events: &[Steps],
        chunk: Chunk,
        take: Take,
        totals: &mut Totals,
    ) {
        let direct = take.pressure && chunk.time_end.is_some();
        let done = if direct && self.failed.is_none() {
            self.write_direct(context, chunk, totals)
        } else {
            self.write_counted(context, events, chunk, totals)
        };
        if let Err(errno) = done {
            self.fail(errno, totals);
            // What could not be written is still counted.
            let _ = self.write_counted(context, events, chunk, totals);
        }
        self.reader.release(chunk);
    }

    /// Straight from the ring to the file.
    fn write_direct(&mut self, context: &Context<'_>, chunk: Chunk, totals: &mut Totals) -> Result<()> {
        let latest = context.clock.ticks() + SKEW_TICKS;
        let mut first = [0; 8];
        let head = Chunk { to: chunk.from + 8, ..chunk };
        if chunk.len() < 8 || !self.reader.copy(head, &mut first) {
            return Ok(());
        }
        let begin = near(latest, split(u64::from_le_bytes(first)).1, TIME_BITS).max(self.last_time);
        if begin > latest {
            self.report_damage(totals);
            return Ok(());
        }
        let end = chunk.time_end.unwrap_or(begin).clamp(begin, latest);
        let told = self.tell(context, chunk.lost, begin, totals)?;
        let header = self.header(context, (begin, end), told, chunk.len()).encode();
        let mut file = self.open(context)?;
        let added =
            file.add(header, chunk.len(), |fd, header, at| self.reader.write_to(chunk, header, fd, at));
        self.file = Some(file);
        self.uncounted.push(Uncounted { offset: added?, len: chunk.len(), begin, end });
        self.wrote(chunk.len(), end, totals);
        Ok(())
    }

    /// By a copy, which is checked and counted.
    fn write_counted(
        &mut self,
        context: &Context<'_>,
        events: &[Steps],
        chunk: Chunk,
        totals: &mut Totals,
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(chunk.len(), 0);
        let done = if self.reader.copy(chunk, &mut buffer) {
            self.write_copy(context, events, &buffer, chunk, totals)
        } else {
            totals.overwritten += chunk.len() as u64;
            Ok(())
        };
        self.buffer = buffer;
        done
    }

    fn write_copy(
        &mut self,
        context: &Context<'_>,
        events: &[Steps],
        bytes: &[u8],
        chunk: Chunk,
        totals: &mut Totals,
    ) -> Result<()> {
        let now = context.clock.ticks() + SKEW_TICKS;
        // What a flight recorder kept may be older than the bits in a record reach.
        let latest = chunk.time_end.filter(|end| (self.last_time..now).contains(end)).unwrap_or(now);
        let Some(first) = bytes.first_chunk::<8>() else { return Ok(()) };
        let begin = near(latest, split(u64::from_le_bytes(*first)).1, TIME_BITS).max(self.last_time);
        totals.counts.resize(events.len(), 0);
        let mut counts = vec![0; events.len()];
        let walked = walk::walk_noting(bytes, low(begin, latest), events, &mut counts, &mut totals.seen);
        if walked.good < bytes.len() {
            self.report_damage(totals);
        }
        if self.failed.is_some() {
            totals.unwritten += walked.records;
            return Ok(());
        }
        if walked.good == 0 {
            return Ok(());
        }
        let end = near(latest, walked.last_time, TIME_BITS).max(begin);
        let told = self.tell(context, chunk.lost, begin, totals)?;
        let header = self.header(context, (begin, end), told, walked.good).encode();
        let good = bytes.get(..walked.good).unwrap_or(bytes);
        self.add(context, header, good)?;
        add(&mut totals.counts, &counts);
        self.wrote(good.len(), end, totals);
        Ok(())
    }

    /// Adds a packet with this content.
    fn add(&mut self, context: &Context<'_>, header: [u8; HEADER_BYTES], content: &[u8]) -> Result<()> {
        let mut file = self.open(context)?;
        let added =
            file.add(header, content.len(), |fd, header, at| fd::write_slices_at(fd, [header, content], at));
        self.file = Some(file);
        added.map(drop)
    }

    fn wrote(&mut self, content: usize, end: u64, totals: &mut Totals) {
        self.sequence += 1;
        self.last_time = end;
        totals.bytes += (HEADER_BYTES + content) as u64;
        totals.packets += 1;
    }

    fn fail(&mut self, errno: Errno, totals: &mut Totals) {
        if let Some(file) = &mut self.file {
            file.finish();
        }
        totals.problems.push(format!(
            "cannot write {}: {errno}; recording stops, what was written before is whole",
            self.place.name()
        ));
        self.failed = Some(errno);
    }

    /// Tells, by an empty packet, what a full ring has lost before the event at `first`, of `full` in all. Answers what the packet with that event is to
    /// tell.
    fn tell(&mut self, context: &Context<'_>, full: u64, first: u64, totals: &mut Totals) -> Result<Told> {
        if let Some(told) = self.gaps.before_event(full, (self.last_time, first)) {
            self.add_empty(context, first, told, totals)?;
        }
        if !self.reaches_look || !self.gaps.is_owing() {
            return Ok(self.gaps.told());
        }
        self.begin_with_nothing_lost(context, first, totals)?;
        Ok(self.gaps.at_look())
    }

    /// Adds a packet without events that ends at `end` and begins where the last one has ended.
    fn add_empty(&mut self, context: &Context<'_>, end: u64, told: Told, totals: &mut Totals) -> Result<()> {
        self.begin_with_nothing_lost(context, end, totals)?;
        let header = self.header(context, (self.last_time, end.max(self.last_time)), told, 0);
        self.add(context, header.encode(), &[])?;
        self.wrote(0, header.end, totals);
        Ok(())
    }

    /// The counter of a stream's first packet says nothing to other readers: before one that has lost something comes one that has not.
    fn begin_with_nothing_lost(
        &mut self,
        context: &Context<'_>,
        first: u64,
        totals: &mut Totals,
    ) -> Result<()> {
        if self.sequence > 0 {
            return Ok(());
        }
        let begin = self.gaps.since().min(first);
        let header = self.header(context, (begin, begin), Told::default(), 0);
        self.add(context, header.encode(), &[])?;
        self.wrote(0, begin, totals);
        Ok(())
    }

    fn header(
        &self,
        context: &Context<'_>,
        (begin, end): (u64, u64),
        lost: Told,
        content: usize,
    ) -> PacketHeader {
        PacketHeader {
            uuid: context.uuid,
            stream_class: self.place.class,
            stream: self.place.ring,
            begin,
            end,
            content: content as u64,
            sequence: self.sequence,
            cpu: self.place.number,
            lost,
        }
    }

    /// Takes the file out, or makes it if this is the first packet.
    fn open(&mut self, context: &Context<'_>) -> Result<Packets> {
        match self.file.take() {
            Some(file) => Ok(file),
            None => Packets::make(context.directory, context.hidden, &self.place.name()),
        }
    }

    fn report_damage(&mut self, totals: &mut Totals) {
        if !self.damage_told {
            self.damage_told = true;
            totals.problems.push(format!(
                "ring {} holds bytes that are no events: a traced process has overwritten its buffers; \
                 events around {} are missing",
                self.place.name(),
                self.last_time
            ));
        }
    }

    /// Counts one packet that was written uncounted; false when there is none.
    pub(crate) fn count_one(&mut self, events: &[Steps], totals: &mut Totals) -> bool {
        let (Some(packet), Some(file)) = (self.uncounted.pop(), &self.file) else { return false };
        self.buffer.resize(packet.len, 0);
        match file.read(packet.offset, &mut self.buffer) {
            Ok(read) if read == packet.len => {}
            _ => {
                totals.problems.push(format!(
                    "a packet of {} cannot be read back and was not counted",
                    self.place.name()
                ));
                return true;
            }
        }
        totals.counts.resize(events.len(), 0);
        let between = low(packet.begin, packet.end);
        let Totals { counts, seen, .. } = totals;
        let walked = walk::walk_noting(&self.buffer, between, events, counts, seen);
        // When this cannot be written, the packet says what it has said: not before its last record.
        let end = near(packet.end, walked.last_time, TIME_BITS);
        if walked.good > 0 && (packet.begin..packet.end).contains(&end) {
            let _ = file.end_at(packet.offset, end);
        }
        if walked.good < packet.len {
            let _ = file.cut(packet.offset, walked.good);
            self.report_damage(totals);
        }
        true
    }

    /// Ends the stream: gives up what writers that are no more have left unfinished. To be called when nobody writes any
    /// more.
    pub(crate) fn close(&mut self, context: &Context<'_>, events: &[Steps], totals: &mut Totals) {
        let goal = self.reader.written();
        while self.reader.position() < goal
            && let Some(torn) = self.reader.give_up()
        {
            self.torn += torn;
            self.drain(context, events, Take { flush: true, pressure: false }, totals);
        }
        self.end(context, totals);
    }

    /// Leaves last packets if events were lost after the one before, and ends the file.
    pub(crate) fn end(&mut self, context: &Context<'_>, totals: &mut Totals) {
        let counters = self.look_at_losses(context);
        if self.failed.is_none()
            && let Err(errno) = self.tell_last(context, &counters, totals)
        {
            self.fail(errno, totals);
        }
        if let Some(file) = self.file.as_mut().filter(|_| self.failed.is_none()) {
            file.finish();
        }
    }

    /// What was lost behind the last event was lost before now.
    fn tell_last(&mut self, context: &Context<'_>, counters: &Lost, totals: &mut Totals) -> Result<()> {
        let now = context.clock.ticks().max(self.last_time);
        let full = counters[Cause::RingFull as usize];
        if let Some(told) = self.gaps.before_event(full, (self.last_time, now)) {
            self.add_empty(context, now, told, totals)?;
        }
        if self.gaps.is_owing() {
            let told = self.gaps.at_look();
            self.add_empty(context, now, told, totals)?;
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
        *sum += more;
    }
}
