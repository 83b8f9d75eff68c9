//! Reads one stream: from packet to packet, over gaps, and in each from event to event.
//!
//! # Where the next packet is
//! Behind this one, says its header. If there is no packet there (the size was damaged), or the file ends earlier, the
//! next magic number behind the last byte that made sense is taken, if a whole header follows it.
//!
//! # What is passed over
//! A packet whose header says that it ends before the range, or begins behind it. A header whose times contradict each
//! other or the packet before is not believed: the packet is read, and its events are looked at one by one.
//!
//! # Events out of order
//! Recordings of mote have none. A stream that others wrote may: its events come as they stand in the file, with one
//! warning, and a packet is read to its end even when an event of it is behind the range.

use crate::Range;
use crate::clock::Clock;
use crate::context::Context;
use crate::index::{Index, Mark};
use crate::loss::{Counters, Loss};
use crate::origin::{ClassId, ClassIds, NO_CLASSES, Origin, Stream};
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
    /// See [`Origin::epoch`].
    pub(crate) epoch: i64,
    pub(crate) state: State,
    clock: Clock<'t>,
    /// The ids of the stream class's event classes.
    ids: &'t ClassIds,
    /// Last moment that the clock can tell, raw.
    last: u64,
}

/// How far a reader is.
#[derive(Debug)]
pub(crate) struct State {
    /// Of the head, nanoseconds since 1970.
    pub(crate) time: i64,
    pub(crate) head: Head,
    pub(crate) loss: Loss,
    pub(crate) cpu: Option<u32>,
    window: Window,
    cursor: Cursor,
    range: Range,
    /// Index of the stream class.
    class: Option<usize>,
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
    /// Packets have had the UUID of another trace.
    is_foreign: bool,
    /// When the event before was, in nanoseconds since 1970; `i64::MIN` when it is not known.
    before: i64,
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
        let state = State {
            time: i64::MIN,
            head: Head::Event,
            loss: Loss::default(),
            cpu: None,
            window: Window::open(&*stream.storage)?,
            cursor: Cursor::new(),
            range: Range::ALL,
            class: None,
            counters: Counters::default(),
            inside: false,
            packet: 0,
            next: 0,
            sound: 0,
            end: u64::MAX,
            is_foreign: false,
            before: i64::MIN,
            begun: i64::MIN,
            latest: i64::MIN,
            beyond: 0,
            marks: Index::default(),
        };
        Ok(Reader::with(origin, stream, index, state))
    }

    fn with(origin: &'t Origin, stream: &'t Stream, index: usize, state: State) -> Reader<'t> {
        let (clock, ids) = (Clock::None, &NO_CLASSES);
        let mut reader = Reader { origin, stream, index, epoch: 0, state, clock, ids, last: u64::MAX };
        if let Some(class) = reader.state.class {
            reader.take_class(class);
        }
        reader
    }

    /// Goes on where a reader of the same stream was. `is_renewed`: the metadata have grown since.
    ///
    /// # Errors
    /// The packet that it was in cannot be read again: the reader goes on behind it.
    pub(crate) fn go_on(
        origin: &'t Origin,
        stream: &'t Stream,
        index: usize,
        state: State,
        is_renewed: bool,
    ) -> Result<Reader<'t>, (Box<Reader<'t>>, io::Error)> {
        let mut reader = Reader::with(origin, stream, index, state);
        match is_renewed && reader.state.inside {
            true => match reader.read_again() {
                Ok(()) => Ok(reader),
                Err(error) => {
                    reader.state.inside = false;
                    Err((Box::new(reader), error))
                }
            },
            false => Ok(reader),
        }
    }

    /// Begins the packet once more that it was in, and goes to the same event.
    fn read_again(&mut self) -> io::Result<()> {
        let (at, bytes) = (self.state.cursor.bit(), self.state.window.bytes().len());
        let header = self.header(self.state.packet)?;
        self.state.window.load(self.state.packet, bytes)?;
        self.state.inside = header.is_ok();
        while self.state.inside && self.state.cursor.bit() < at {
            let advanced = self.state.cursor.advance(&self.origin.schema, self.state.window.bytes());
            self.state.inside = advanced == Ok(true);
        }
        Ok(())
    }

    /// Looks whether the stream has grown: then [`Reader::advance`] goes on behind its former end.
    pub(crate) fn look_again(&mut self) -> bool {
        self.state.window.look_again()
    }

    /// Goes back or forward to where the events of `range` may begin; `advance` steps to the first of them.
    pub(crate) fn seek(&mut self, range: Range) {
        self.state.range = range;
        self.state.inside = false;
        self.state.before = i64::MIN;
        self.state.beyond = 0;
        let mark = self.state.marks.before(range.from).cloned();
        let mark = mark.unwrap_or_else(|| {
            // What a packet without a whole time stamp counts from.
            self.state.cursor = Cursor::new();
            self.state.time = i64::MIN;
            Mark { at: 0, latest: i64::MIN, begun: i64::MIN, counters: Counters::default() }
        });
        (self.state.packet, self.state.next, self.state.sound) = (mark.at, mark.at, mark.at);
        (self.state.latest, self.state.begun, self.state.counters) = (mark.latest, mark.begun, mark.counters);
    }

    /// Steps to the next entry in the range; `false` at the end.
    #[inline]
    pub(crate) fn advance(&mut self, problems: &mut Problems) -> bool {
        loop {
            if self.state.inside {
                match self.state.cursor.advance(&self.origin.schema, self.state.window.bytes()) {
                    Ok(true) if self.accept(problems) => return true,
                    Ok(true) => {}
                    Ok(false) => self.leave(problems),
                    Err(error) => self.damaged(error, problems),
                }
            } else {
                match self.begin(problems) {
                    Begun::Packet if self.state.head == Head::Loss => return true,
                    Begun::Packet | Begun::Skipped => {}
                    Begun::End => return false,
                }
            }
        }
    }

    /// Whether the event is in the range.
    #[inline]
    fn accept(&mut self, problems: &mut Problems) -> bool {
        let ticks = self.state.cursor.timestamp();
        self.state.time = self.clock.ns(ticks);
        self.state.head = Head::Event;
        if ticks > self.state.end {
            self.state.end = u64::MAX;
            self.note(problems, self.state.packet + self.state.cursor.bit() / 8, Fault::LateEvent, 0);
        }
        if self.state.time < self.state.before {
            self.early(problems);
        }
        self.state.before = self.state.time;
        if self.state.time > self.state.range.to {
            // The next packet's header tells whether there is more; in this one there may be if others wrote it.
            self.state.inside = self.origin.facts.is_none();
            if self.state.end == u64::MAX {
                // What follows in this packet is later still, and the header does not say by how much.
                self.state.latest = i64::MAX;
            }
            return false;
        }
        self.state.time >= self.state.range.from
    }

    /// The event is earlier than the one before it.
    #[cold]
    fn early(&mut self, problems: &mut Problems) {
        self.state.latest = self.state.latest.max(self.state.before);
        self.note(problems, self.state.packet + self.state.cursor.bit() / 8, Fault::EarlyEvent, 0);
    }

    /// The packet is read.
    fn leave(&mut self, problems: &mut Problems) {
        self.state.inside = false;
        self.state.latest = self.state.latest.max(self.state.time);
        self.state.sound = self.state.packet + self.state.cursor.bit().div_ceil(8);
        if self.state.cursor.timestamp() > self.last {
            self.note(problems, self.state.packet, Fault::TimeTooLate, 0);
        }
        self.check_end(problems);
    }

    /// The rest of the packet is unreadable.
    fn damaged(&mut self, error: DecodeError, problems: &mut Problems) {
        self.state.inside = false;
        self.state.latest = self.state.latest.max(self.state.time);
        let at = self.state.packet + error.bit / 8;
        self.state.sound = at.max(self.state.packet + 1);
        if error.kind == DecodeFault::Truncated && self.state.next > self.state.window.size() {
            self.check_end(problems);
        } else if error.kind == DecodeFault::Truncated {
            // The packet does not tell its size: it ends with the file, and should end with an event.
            let at = at.min(self.state.window.size());
            self.note(problems, at, Fault::CutEvent, self.state.window.size() - at);
        } else {
            let end = self.state.next.min(self.state.window.size());
            self.note(problems, at, Fault::Packet(error), end.saturating_sub(at));
        }
    }

    /// The packet should have ended in the file.
    fn check_end(&mut self, problems: &mut Problems) {
        let missing = self.state.next.saturating_sub(self.state.window.size());
        if missing > 0 {
            self.note(
                problems,
                self.state.sound.min(self.state.window.size()),
                Fault::CutShort { missing },
                0,
            );
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
                self.note(problems, self.state.next, Fault::Io(error), 0);
                self.state.next = u64::MAX;
                self.state.sound = u64::MAX;
                Begun::End
            }
        }
    }

    fn begin_or_fail(&mut self, problems: &mut Problems) -> io::Result<Begun> {
        let size = self.state.window.size();
        if self.state.next >= size {
            // Exactly at the end is good; beyond it the size was a lie, or the file was cut.
            let found = if self.state.next > size { self.resync(self.state.sound)? } else { None };
            let Some(next) = found else { return Ok(Begun::End) };
            self.state.next = next;
        }
        let header = match self.header(self.state.next)? {
            Ok(header) => header,
            Err(error) => {
                let from = if self.state.sound < self.state.next {
                    self.state.sound.max(self.state.packet + 1)
                } else {
                    self.state.next + 1
                };
                let found = self.resync(from)?;
                let behind = found.unwrap_or(size).saturating_sub(self.state.next);
                self.note(problems, self.state.next, Fault::Packet(error), behind);
                self.state.next = found.unwrap_or(size);
                self.state.sound = self.state.next;
                return Ok(if found.is_some() { Begun::Skipped } else { Begun::End });
            }
        };
        self.enter(header, problems)
    }

    /// Looks for a packet from `from` on.
    fn resync(&mut self, mut from: u64) -> io::Result<Option<u64>> {
        for _ in 0..TRIES {
            let Some(at) = self.state.window.find_magic(from)? else { return Ok(None) };
            let left = self.state.window.size() - at;
            if let Ok(header) = self.header(at)?
                && header.packet_bytes().is_some_and(|bytes| bytes <= left)
                && (self.state.is_foreign || !header.foreign_uuid)
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
            self.state.window.load(at, prefix)?;
            match self.state.cursor.begin(&self.origin.schema, self.state.window.bytes()) {
                Err(error)
                    if error.kind == DecodeFault::Truncated
                        && self.state.window.bytes().len() == prefix
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
        let left = self.state.window.size() - self.state.next;
        let bytes = header.packet_bytes().unwrap_or(left);
        self.state.packet = self.state.next;
        self.state.next = self.state.packet.saturating_add(bytes);
        self.state.sound = self.state.packet + header.header_bits.div_ceil(8);
        self.set_class(&header);
        self.check_quirks(&mut header, problems);
        let begin = header.timestamp_begin.map(|ticks| self.clock.ns(ticks));
        let end = header.timestamp_end.map(|ticks| self.clock.ns(ticks));
        let ordered = self.check_order(begin, end, problems);
        self.mark(&header);
        // A begin behind the end says nothing.
        self.state.begun =
            begin.filter(|begin| end.is_none_or(|end| *begin <= end)).unwrap_or(self.state.begun);
        self.state.latest = self.state.latest.max(end.or(begin).unwrap_or(i64::MIN));
        let prefix = self.state.window.bytes();
        let context = self.state.cursor.packet_context(&self.origin.schema, prefix);
        let counters = || self.origin.counters.read(&header, prefix, context);
        let until = end.or(begin).unwrap_or(self.state.time);
        let is_beyond = ordered && begin.is_some_and(|begin| begin > self.state.range.to);
        self.state.beyond = if is_beyond { self.state.beyond + 1 } else { 0 };
        if self.state.beyond >= BEYOND {
            self.state.next = self.state.window.size();
            return Ok(Begun::End);
        }
        let loss = self.state.counters.note(&header, counters, until, |ticks| self.clock.ns(ticks));
        // What a packet before the range tells is not in the range, whether or not the packet is passed over.
        let loss = loss.filter(|_| until >= self.state.range.from);
        let is_before = ordered && end.is_some_and(|end| end < self.state.range.from);
        if is_beyond || is_before && self.begins_whole(&header) {
            return Ok(Begun::Skipped);
        }
        let content = header.content_bits.map_or(bytes, |bits| bits.div_ceil(8)).min(left);
        if content > MAX_PACKET_BYTES {
            self.note(problems, self.state.packet, Fault::TooLarge { bytes: content }, bytes.min(left));
            return Ok(Begun::Skipped);
        }
        self.state.window.load(self.state.packet, usize::try_from(content).unwrap_or(usize::MAX))?;
        self.state.end = header.timestamp_end.unwrap_or(u64::MAX);
        self.state.inside = true;
        self.state.head = Head::Event;
        if let Some(loss) = loss {
            self.state.time = begin
                .or(loss.since)
                .unwrap_or(self.state.time)
                .clamp(self.state.range.from, self.state.range.to);
            self.state.loss = loss;
            self.state.head = Head::Loss;
        }
        Ok(Begun::Packet)
    }

    /// Warns of what tracers are known to write, and corrects it.
    fn check_quirks(&mut self, header: &mut PacketHeader, problems: &mut Problems) {
        if header.foreign_uuid {
            self.state.is_foreign = true;
            self.note(problems, self.state.packet, Fault::ForeignUuid, 0);
        }
        if header.timestamp_end == Some(0) && header.timestamp_begin.is_some_and(|begin| begin > 0) {
            header.timestamp_end = None;
            self.note(problems, self.state.packet, Fault::NoEnd, 0);
        }
    }

    /// Whether the times of a packet fit to each other and to the packet before, so that it can be passed over because
    /// of them. If not, it is read, whatever they say.
    fn check_order(&mut self, begin: Option<i64>, end: Option<i64>, problems: &mut Problems) -> bool {
        let ordered =
            begin.is_none_or(|begin| begin >= self.state.begun && end.is_none_or(|end| begin <= end));
        if !ordered {
            self.note(problems, self.state.packet, Fault::Disorder, 0);
        }
        ordered
    }

    /// Whether the packet's time stamps do not depend on the packet before.
    fn begins_whole(&self, header: &PacketHeader) -> bool {
        self.origin.whole_begins.get(header.stream).is_some_and(|whole| *whole)
    }

    /// Offers the packet that begins to the index.
    fn mark(&mut self, header: &PacketHeader) {
        if self.begins_whole(header) && self.state.latest < i64::MAX {
            let (latest, begun) = (self.state.latest, self.state.begun);
            self.state.marks.offer(self.state.packet, || Mark {
                at: self.state.packet,
                latest,
                begun,
                counters: self.state.counters.clone(),
            });
        }
    }

    /// Takes up the stream class and CPU of a packet.
    fn set_class(&mut self, header: &PacketHeader) {
        if self.state.class != Some(header.stream) {
            self.state.class = Some(header.stream);
            self.take_class(header.stream);
        }
        let class = self.origin.schema.trace().streams.get(header.stream);
        // The number of a ring that threads of all CPUs share is not that of a CPU.
        let shared = self.origin.facts.is_some() && class.is_some_and(|c| c.id == u64::from(STREAM_SHARED));
        self.state.cpu = header.cpu_id.filter(|_| !shared);
    }

    /// Takes up what depends on the stream class.
    fn take_class(&mut self, index: usize) {
        let class = self.origin.schema.trace().streams.get(index);
        self.ids = self.origin.ids.get(index).unwrap_or(&NO_CLASSES);
        self.clock = class.map_or(Clock::None, |class| self.origin.clock(class));
        self.last = self.clock.last_tick();
        self.epoch = class.map_or(0, |class| self.origin.epoch(class));
    }

    #[inline]
    pub(crate) fn class_id(&self) -> ClassId {
        self.ids.of(self.state.cursor.event_index().unwrap_or(0) as u32)
    }

    #[inline]
    pub(crate) fn event(&self) -> Option<Event<'_>> {
        self.state.cursor.event(&self.origin.schema, self.state.window.bytes())
    }

    pub(crate) fn packet_context(&self) -> Fields<'_> {
        self.state.cursor.packet_context(&self.origin.schema, self.state.window.bytes())
    }

    pub(crate) fn stream_class(&self) -> Option<&'t StreamClass> {
        self.origin.schema.trace().streams.get(self.state.class?)
    }

    #[inline]
    pub(crate) fn context(&self) -> Option<&'t Context> {
        self.origin.contexts.get(self.state.class?)
    }
}
