//! Reads one stream: from packet to packet, over gaps, and in each from event to event.
//!
//! # Where the next packet is
//! Behind this one, says its header. If there is no packet there (the size was damaged), or the file ends earlier, the
//! next magic number behind the last byte that made sense is taken, if a whole header follows it.
//!
//! # What is passed over
//! A packet whose header says that it ends before the range, or begins behind it. A header whose times contradict each
//! other or the packet before is not believed: the packet is read, and its events are looked at one by one.

use crate::Range;
use crate::clock::Clock;
use crate::context::Context;
use crate::index::{Index, Mark};
use crate::loss::{Counters, Loss};
use crate::origin::{ClassId, Origin, Stream};
use crate::problem::{Fault, Problem, Problems};
use crate::window::{MAX_PACKET_BYTES, Window};
use mote_ctf::model::StreamClass;
use mote_ctf::{Cursor, DecodeError, DecodeFault, Event, Fields, PacketHeader};
use mote_layout::packet::STREAM_SHARED;
use std::io;

/// Bytes that are read to see a packet's header.
const PREFIX: usize = 4 << 10;
/// Longest header that is believed.
const PREFIX_MAX: usize = 1 << 20;
/// So many packets in a row that begin behind the range are its end: one may have a wrong time.
const BEYOND: u32 = 8;
/// How many magic numbers are tried before a damaged stream is given up.
const TRIES: usize = 10_000;

/// What the reader points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Event,
    Loss,
}

/// The reader of a stream.
#[derive(Debug)]
pub(crate) struct Reader<'t> {
    pub(crate) origin: &'t Origin,
    pub(crate) stream: &'t Stream,
    pub(crate) index: usize,
    /// Of the head, nanoseconds since 1970.
    pub(crate) time: i64,
    pub(crate) head: Head,
    pub(crate) loss: Loss,
    pub(crate) cpu: Option<u32>,
    /// See [`Origin::epoch`].
    pub(crate) epoch: i64,
    window: Window,
    cursor: Cursor,
    clock: Clock<'t>,
    range: Range,
    /// Index of the stream class, and the id of its first event class.
    class: Option<usize>,
    first_class: u32,
    counters: Counters,
    /// The cursor is in a packet.
    inside: bool,
    /// Where the packet begins, and where the next should.
    packet: u64,
    next: u64,
    /// Behind the last byte that made sense: where to search if there is no packet at `next`.
    sound: u64,
    /// Last moment of the packet, raw.
    end: u64,
    /// Last moment that the clock can tell, raw.
    last: u64,
    /// Packets have had the UUID of another trace.
    is_foreign: bool,
    /// When the packet began, of those that say so the last.
    begun: i64,
    /// Latest time of all packets so far; `i64::MAX` when it is not known.
    latest: i64,
    /// How many packets in a row began behind the range.
    beyond: u32,
    marks: Index,
}

/// What begins.
enum Begun {
    Packet,
    Skipped,
    End,
}

impl<'t> Reader<'t> {
    pub(crate) fn open(origin: &'t Origin, stream: &'t Stream, index: usize) -> io::Result<Reader<'t>> {
        Ok(Reader {
            origin,
            stream,
            index,
            time: i64::MIN,
            head: Head::Event,
            loss: Loss::default(),
            cpu: None,
            epoch: 0,
            window: Window::open(&*stream.storage)?,
            cursor: Cursor::new(),
            clock: Clock::None,
            range: Range::ALL,
            class: None,
            first_class: 0,
            counters: Counters::default(),
            inside: false,
            packet: 0,
            next: 0,
            sound: 0,
            end: u64::MAX,
            last: u64::MAX,
            is_foreign: false,
            begun: i64::MIN,
            latest: i64::MIN,
            beyond: 0,
            marks: Index::default(),
        })
    }

    /// Goes back or forward to where the events of `range` may begin; `advance` steps to the first of them.
    pub(crate) fn seek(&mut self, range: Range) {
        self.range = range;
        self.inside = false;
        self.beyond = 0;
        let mark = self.marks.before(range.from).cloned();
        let mark = mark.unwrap_or_else(|| {
            // What a packet without a whole time stamp counts from.
            self.cursor = Cursor::new();
            self.time = i64::MIN;
            Mark { at: 0, latest: i64::MIN, begun: i64::MIN, counters: Counters::default() }
        });
        (self.packet, self.next, self.sound) = (mark.at, mark.at, mark.at);
        (self.latest, self.begun, self.counters) = (mark.latest, mark.begun, mark.counters);
    }

    /// Steps to the next entry in the range; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self, problems: &mut Problems) -> bool {
        loop {
            if self.inside {
                match self.cursor.advance(&self.origin.schema, self.window.bytes()) {
                    Ok(true) if self.accept(problems) => return true,
                    Ok(true) => {}
                    Ok(false) => self.leave(problems),
                    Err(error) => self.damaged(error, problems),
                }
            } else {
                match self.begin(problems) {
                    Begun::Packet if self.head == Head::Loss => return true,
                    Begun::Packet | Begun::Skipped => {}
                    Begun::End => return false,
                }
            }
        }
    }

    /// Whether the event is in the range.
    #[inline]
    fn accept(&mut self, problems: &mut Problems) -> bool {
        let ticks = self.cursor.timestamp();
        self.time = self.clock.ns(ticks);
        self.head = Head::Event;
        if ticks > self.end {
            self.end = u64::MAX;
            self.note(problems, self.packet + self.cursor.bit() / 8, Fault::LateEvent, 0);
        }
        if self.time > self.range.to {
            // The next packet's header tells whether there is more.
            self.inside = false;
            if self.end == u64::MAX {
                // What follows in this packet is later still, and the header does not say by how much.
                self.latest = i64::MAX;
            }
            return false;
        }
        self.time >= self.range.from
    }

    /// The packet is read.
    fn leave(&mut self, problems: &mut Problems) {
        self.inside = false;
        self.latest = self.latest.max(self.time);
        self.sound = self.packet + self.cursor.bit().div_ceil(8);
        if self.cursor.timestamp() > self.last {
            self.note(problems, self.packet, Fault::TimeTooLate, 0);
        }
        self.check_end(problems);
    }

    /// The rest of the packet is unreadable.
    fn damaged(&mut self, error: DecodeError, problems: &mut Problems) {
        self.inside = false;
        self.latest = self.latest.max(self.time);
        let at = self.packet + error.bit / 8;
        self.sound = at.max(self.packet + 1);
        if error.kind == DecodeFault::Truncated && self.next > self.window.size() {
            self.check_end(problems);
        } else if error.kind == DecodeFault::Truncated {
            // The packet does not tell its size: it ends with the file, and should end with an event.
            let at = at.min(self.window.size());
            self.note(problems, at, Fault::CutEvent, self.window.size() - at);
        } else {
            let end = self.next.min(self.window.size());
            self.note(problems, at, Fault::Packet(error), end.saturating_sub(at));
        }
    }

    /// The packet should have ended in the file.
    fn check_end(&mut self, problems: &mut Problems) {
        let missing = self.next.saturating_sub(self.window.size());
        if missing > 0 {
            self.note(problems, self.sound.min(self.window.size()), Fault::CutShort { missing }, 0);
        }
    }

    #[cold]
    fn note(&self, problems: &mut Problems, offset: u64, fault: Fault, skipped: u64) {
        problems.note(Problem { path: self.stream.path.clone(), offset: Some(offset), fault, skipped });
    }

    /// Goes to the next packet.
    fn begin(&mut self, problems: &mut Problems) -> Begun {
        match self.begin_or_fail(problems) {
            Ok(begun) => begun,
            Err(error) => {
                self.note(problems, self.next, Fault::Io(error), 0);
                self.next = u64::MAX;
                self.sound = u64::MAX;
                Begun::End
            }
        }
    }

    fn begin_or_fail(&mut self, problems: &mut Problems) -> io::Result<Begun> {
        let size = self.window.size();
        if self.next >= size {
            // Exactly at the end is good; beyond it the size was a lie, or the file was cut.
            let found = if self.next > size { self.resync(self.sound)? } else { None };
            let Some(next) = found else { return Ok(Begun::End) };
            self.next = next;
        }
        let header = match self.header(self.next)? {
            Ok(header) => header,
            Err(error) => {
                let from =
                    if self.sound < self.next { self.sound.max(self.packet + 1) } else { self.next + 1 };
                let found = self.resync(from)?;
                let behind = found.unwrap_or(size).saturating_sub(self.next);
                self.note(problems, self.next, Fault::Packet(error), behind);
                self.next = found.unwrap_or(size);
                self.sound = self.next;
                return Ok(if found.is_some() { Begun::Skipped } else { Begun::End });
            }
        };
        self.enter(header, problems)
    }

    /// Looks for a packet from `from` on.
    fn resync(&mut self, mut from: u64) -> io::Result<Option<u64>> {
        for _ in 0..TRIES {
            let Some(at) = self.window.find_magic(from)? else { return Ok(None) };
            let left = self.window.size() - at;
            if let Ok(header) = self.header(at)?
                && header.packet_bytes().is_some_and(|bytes| bytes <= left)
                && (self.is_foreign || !header.foreign_uuid)
            {
                return Ok(Some(at));
            }
            from = at + 1;
        }
        Ok(None)
    }

    /// Decodes the header of the packet at `at`.
    fn header(&mut self, at: u64) -> io::Result<Result<PacketHeader, DecodeError>> {
        let mut prefix = PREFIX;
        loop {
            self.window.load(at, prefix)?;
            match self.cursor.begin(&self.origin.schema, self.window.bytes()) {
                Err(error)
                    if error.kind == DecodeFault::Truncated
                        && self.window.bytes().len() == prefix
                        && prefix < PREFIX_MAX =>
                {
                    prefix *= 4;
                }
                result => return Ok(result),
            }
        }
    }

    /// Makes the packet with `header`, at `next`, the current one.
    fn enter(&mut self, mut header: PacketHeader, problems: &mut Problems) -> io::Result<Begun> {
        let left = self.window.size() - self.next;
        let bytes = header.packet_bytes().unwrap_or(left);
        self.packet = self.next;
        self.next = self.packet.saturating_add(bytes);
        self.sound = self.packet + header.header_bits.div_ceil(8);
        self.set_class(&header);
        self.check_quirks(&mut header, problems);
        let begin = header.timestamp_begin.map(|ticks| self.clock.ns(ticks));
        let end = header.timestamp_end.map(|ticks| self.clock.ns(ticks));
        let ordered = self.check_order(begin, end, problems);
        self.mark(&header);
        // A begin behind the end says nothing.
        self.begun = begin.filter(|begin| end.is_none_or(|end| *begin <= end)).unwrap_or(self.begun);
        self.latest = self.latest.max(end.or(begin).unwrap_or(i64::MIN));
        let prefix = self.window.bytes();
        let context = self.cursor.packet_context(&self.origin.schema, prefix);
        let counters = || self.origin.counters.read(&header, prefix, context);
        let until = end.or(begin).unwrap_or(self.time);
        let is_beyond = ordered && begin.is_some_and(|begin| begin > self.range.to);
        self.beyond = if is_beyond { self.beyond + 1 } else { 0 };
        if self.beyond >= BEYOND {
            self.next = self.window.size();
            return Ok(Begun::End);
        }
        let loss = self.counters.note(&header, counters, until, |ticks| self.clock.ns(ticks));
        // What a packet before the range tells is not in the range, whether or not the packet is passed over.
        let loss = loss.filter(|_| until >= self.range.from);
        let is_before = ordered && end.is_some_and(|end| end < self.range.from);
        if is_beyond || is_before && self.begins_whole(&header) {
            return Ok(Begun::Skipped);
        }
        let content = header.content_bits.map_or(bytes, |bits| bits.div_ceil(8)).min(left);
        if content > MAX_PACKET_BYTES {
            self.note(problems, self.packet, Fault::TooLarge { bytes: content }, bytes.min(left));
            return Ok(Begun::Skipped);
        }
        self.window.load(self.packet, usize::try_from(content).unwrap_or(usize::MAX))?;
        self.end = header.timestamp_end.unwrap_or(u64::MAX);
        self.inside = true;
        self.head = Head::Event;
        if let Some(loss) = loss {
            self.time = begin.or(loss.since).unwrap_or(self.time).clamp(self.range.from, self.range.to);
            self.loss = loss;
            self.head = Head::Loss;
        }
        Ok(Begun::Packet)
    }

    /// Warns of what tracers are known to write, and corrects it.
    fn check_quirks(&mut self, header: &mut PacketHeader, problems: &mut Problems) {
        if header.foreign_uuid {
            self.is_foreign = true;
            self.note(problems, self.packet, Fault::ForeignUuid, 0);
        }
        if header.timestamp_end == Some(0) && header.timestamp_begin.is_some_and(|begin| begin > 0) {
            header.timestamp_end = None;
            self.note(problems, self.packet, Fault::NoEnd, 0);
        }
    }

    /// Whether the times of a packet fit to each other and to the packet before, so that it can be passed over because
    /// of them. If not, it is read, whatever they say.
    fn check_order(&mut self, begin: Option<i64>, end: Option<i64>, problems: &mut Problems) -> bool {
        let ordered = begin.is_none_or(|begin| begin >= self.begun && end.is_none_or(|end| begin <= end));
        if !ordered {
            self.note(problems, self.packet, Fault::Disorder, 0);
        }
        ordered
    }

    /// Whether the packet's time stamps do not depend on the packet before.
    fn begins_whole(&self, header: &PacketHeader) -> bool {
        self.origin.whole_begins.get(header.stream).is_some_and(|whole| *whole)
    }

    /// Offers the packet that begins to the index.
    fn mark(&mut self, header: &PacketHeader) {
        if self.begins_whole(header) && self.latest < i64::MAX {
            let (latest, begun) = (self.latest, self.begun);
            self.marks.offer(self.packet, || Mark {
                at: self.packet,
                latest,
                begun,
                counters: self.counters.clone(),
            });
        }
    }

    /// Takes up the stream class and CPU of a packet.
    fn set_class(&mut self, header: &PacketHeader) {
        let class = self.origin.schema.trace().streams.get(header.stream);
        if self.class != Some(header.stream) {
            self.class = Some(header.stream);
            self.first_class = self.origin.first_class.get(header.stream).copied().unwrap_or(0);
            self.clock = class.map_or(Clock::None, |class| self.origin.clock(class));
            self.last = self.clock.last_tick();
            self.epoch = class.map_or(0, |class| self.origin.epoch(class));
        }
        // The number of a ring that threads of all CPUs share is not that of a CPU.
        let shared = self.origin.facts.is_some() && class.is_some_and(|c| c.id == u64::from(STREAM_SHARED));
        self.cpu = header.cpu_id.filter(|_| !shared);
    }

    #[inline]
    pub(crate) fn class_id(&self) -> ClassId {
        ClassId(self.first_class + self.cursor.event_index().unwrap_or(0) as u32)
    }

    #[inline]
    pub(crate) fn event(&self) -> Option<Event<'_>> {
        self.cursor.event(&self.origin.schema, self.window.bytes())
    }

    pub(crate) fn packet_context(&self) -> Fields<'_> {
        self.cursor.packet_context(&self.origin.schema, self.window.bytes())
    }

    pub(crate) fn stream_class(&self) -> Option<&'t StreamClass> {
        self.origin.schema.trace().streams.get(self.class?)
    }

    #[inline]
    pub(crate) fn context(&self) -> Option<&'t Context> {
        self.origin.contexts.get(self.class?)
    }
}
