//! One ring's data stream: from chunks of the ring to packets in a file.

mod removed;

use crate::folder::Folder;
use crate::packets::Packets;
use crate::seen::Seen;
use crate::walk::{self, Steps};
use mote_clock::extend::near;
use mote_layout::Cause;
use mote_layout::loss::Lost;
use mote_layout::packet::{HEADER_BYTES, PacketHeader, STREAM_PER_CPU, STREAM_SHARED};
use mote_layout::record::{TIME_BITS, split};
use mote_ring::reader::{Chunk, Look, Reader};
use mote_sys::fd;
use mote_sys::{Errno, Result};

/// What the streams of a trace share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    /// The trace's directory.
    pub(crate) directory: &'c Folder,
    /// Where its files are until they have a packet.
    pub(crate) hidden: &'c Folder,
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

    /// Records that were counted are lost after all.
    pub(crate) fn lose(&mut self, counts: &[u64]) {
        for (count, lost) in self.counts.iter_mut().zip(counts) {
            *count = count.saturating_sub(*lost);
        }
        self.unwritten = self.unwritten.saturating_add(counts.iter().sum());
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
    /// Lost events as the last packet told, and as the packet that is being written is to tell.
    lost_told: Lost,
    lost_now: Lost,
    uncounted: Vec<Uncounted>,
    buffer: Vec<u8>,
    damage_told: bool,
    failed: Option<Errno>,
    /// Records in the file, by event.
    written: Vec<u64>,
}

impl<'c> Stream<'c> {
    /// The stream of a ring; its file is made with the first packet.
    pub(crate) fn new(reader: Reader<'c>, place: Place) -> Stream<'c> {
        Stream {
            reader,
            place,
            file: None,
            sequence: 0,
            last_time: 0,
            torn: 0,
            lost_told: Lost::default(),
            lost_now: Lost::default(),
            uncounted: Vec::new(),
            buffer: Vec::new(),
            damage_told: false,
            failed: None,
            written: Vec::new(),
        }
    }

    /// Bytes waiting in the ring.
    pub(crate) fn backlog(&self) -> u64 {
        self.reader.backlog()
    }

    /// Lost events so far, by cause.
    pub(crate) fn lost(&self) -> Lost {
        let mut lost = self.reader.lost();
        let torn = &mut lost[Cause::Torn as usize];
        *torn = torn.wrapping_add(self.torn);
        lost
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
        // A full ring loses what comes after all that is in it: the packet that reaches `goal` tells of it.
        let lost = self.lost();
        let goal = self.reader.written();
        let mut taken = false;
        while self.reader.position() < goal {
            match self.reader.look() {
                Look::Ready(chunk) if chunk.time_end.is_none() && !take.flush => break,
                Look::Ready(chunk) => {
                    taken = true;
                    self.lost_now = if chunk.to >= goal { lost } else { self.lost_told };
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
        let header = self.header(context, begin, end, chunk.len()).encode();
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
            self.write_copy(context, events, &buffer, chunk.time_end, totals)
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
        time_end: Option<u64>,
        totals: &mut Totals,
    ) -> Result<()> {
        let now = context.clock.ticks() + SKEW_TICKS;
        // What a flight recorder kept may be older than the bits in a record reach.
        let latest = time_end.filter(|end| (self.last_time..now).contains(end)).unwrap_or(now);
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
        let header = self.header(context, begin, end, walked.good).encode();
        let good = bytes.get(..walked.good).unwrap_or(bytes);
        self.add(context, header, good)?;
        add(&mut totals.counts, &counts);
        self.note_written(&counts);
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
        self.lost_told = self.lost_now;
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

    fn header(&self, context: &Context<'_>, begin: u64, end: u64, content: usize) -> PacketHeader {
        PacketHeader {
            uuid: context.uuid,
            stream_class: self.place.class,
            stream: self.place.ring,
            begin,
            end,
            content: content as u64,
            sequence: self.sequence,
            cpu: self.place.number,
            lost: self.lost_now,
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
        let mut counts = vec![0; events.len()];
        let between = low(packet.begin, packet.end);
        let walked = walk::walk_noting(&self.buffer, between, events, &mut counts, &mut totals.seen);
        add(&mut totals.counts, &counts);
        if walked.good < packet.len {
            let _ = file.cut(packet.offset, walked.good);
            self.report_damage(totals);
        }
        self.note_written(&counts);
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

    /// Leaves a last packet if events were lost after the one before, and ends the file.
    pub(crate) fn end(&mut self, context: &Context<'_>, totals: &mut Totals) {
        self.lost_now = self.lost();
        if self.lost_now != self.lost_told && self.failed.is_none() {
            let now = context.clock.ticks().max(self.last_time);
            let begin = if self.last_time == 0 { now } else { self.last_time };
            let header = self.header(context, begin, now, 0).encode();
            match self.add(context, header, &[]) {
                Ok(()) => self.wrote(0, now, totals),
                Err(errno) => self.fail(errno, totals),
            }
        }
        if let Some(file) = self.file.as_mut().filter(|_| self.failed.is_none()) {
            file.finish();
        }
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
