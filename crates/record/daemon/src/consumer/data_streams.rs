//! The data streams of a trace as files: each takes the packets of one ring at a time, and of another one when that one
//! is no more.
//!
//! Groups of processes have rings of their own (`groups`), and there may be many of them one after the other. A CTF
//! stream asks only that its packets follow one another in time: so a ring whose first packet begins after all that a
//! free file of its CPU holds goes on in that file. There are as many files as rings of a CPU that were written to at
//! the same time.

use crate::consumer::totals::{Context, Totals, add, low};
use crate::consumer::walk::{Steps, walk_noting};
use crate::output::sink::{Bytes, StreamSink};
use mote_clock::extend::nearest;
use mote_layout::packet::{HEADER_BYTES, PacketHeader, ReportedLoss, STREAM_PER_CPU, STREAM_SHARED};
use mote_layout::record::TIME_BITS;
use mote_sys::{Errno, Result};

/// Which stream of its trace a ring goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The stream's number.
    stream: u32,
    class: u32,
    /// CPU, or number among the shared rings.
    number: u32,
    /// Of several streams of a CPU, which.
    level: u32,
}

impl Place {
    /// A ring of a CPU, which is the channel's `ring`; those of level 1 have what came while another event was being
    /// written there.
    pub(crate) fn of_cpu(ring: u32, cpu: u32, level: u32) -> Place {
        Place { stream: ring, class: STREAM_PER_CPU, number: cpu, level }
    }

    /// A ring without a CPU.
    pub(crate) fn shared(ring: u32, number: u32) -> Place {
        Place { stream: ring, class: STREAM_SHARED, number, level: 0 }
    }

    /// Name of its file.
    pub(crate) fn name(self) -> String {
        match (self.class, self.level) {
            (STREAM_SHARED, 0) => format!("shared_{}", self.number),
            (STREAM_SHARED, level) => format!("shared_{}_{level}", self.number),
            (_, 0) => format!("cpu_{}", self.number),
            (_, level) => format!("cpu_{}_{level}", self.number),
        }
    }
}

/// A packet that is in the file and whose records were not counted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncounted {
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct DataStream {
    ring: Place,
    place: Place,
    pub(crate) sink: Box<dyn StreamSink>,
    sequence: u64,
    last_time: u64,
    /// What the rings that were here before have reported of lost events.
    before: ReportedLoss,
    pub(crate) uncounted: Vec<Uncounted>,
    is_damage_reported: bool,
    failed: Option<Errno>,
    /// Records in the file, by event.
    written: Vec<u64>,
}

impl DataStream {
    /// Name of the file.
    pub(crate) fn name(&self) -> String {
        self.place.name()
    }

    /// When its last packet has ended.
    pub(crate) fn last_time(&self) -> u64 {
        self.last_time
    }

    /// The header of the next packet; `reported` is of the ring that is here now.
    pub(crate) fn header(
        &self,
        context: &Context,
        (begin, end): (u64, u64),
        content: usize,
        reported: ReportedLoss,
    ) -> [u8; HEADER_BYTES] {
        let header = PacketHeader {
            uuid: context.uuid,
            stream_class: self.place.class,
            stream: self.place.stream,
            begin,
            end,
            content: content as u64,
            sequence: self.sequence,
            cpu: self.place.number,
            lost: sum(self.before, reported),
        };
        header.encode()
    }

    /// Adds a packet of this content.
    pub(crate) fn add(&mut self, header: [u8; HEADER_BYTES], content: &[u8]) -> Result<()> {
        self.sink.add(header, &Bytes(content)).map(drop)
    }

    /// Notes that a packet was added whose time ends at `end`.
    pub(crate) fn added(&mut self, end: u64) {
        self.sequence += 1;
        self.last_time = end;
    }

    /// Notes records that are in the file.
    pub(crate) fn note_written(&mut self, counts: &[u64]) {
        self.written.resize(counts.len().max(self.written.len()), 0);
        add(&mut self.written, counts);
    }

    /// Nothing can be written here any more.
    pub(crate) fn fail(&mut self, errno: Errno) {
        self.sink.finish();
        self.failed = Some(errno);
    }

    /// Whether something was found that cannot be.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damage_reported
    }

    /// Why nothing can be written here any more.
    pub(crate) fn failed(&self) -> Option<Errno> {
        self.failed
    }

    /// The same in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let (name, errno) = (self.name(), self.failed?);
        let removed = self.sink.is_removed();
        Some(if removed { format!("{name} was removed") } else { format!("cannot write {name}: {errno}") })
    }

    /// Looks whether the file is still there. If it was removed nothing fails: what is written goes where nobody finds
    /// it.
    pub(crate) fn look(&mut self, totals: &mut Totals) {
        if self.failed.is_none() && self.sink.is_removed() {
            let name = self.name();
            totals.problems.push(format!("{name} was removed while it was recorded; recording stops"));
            self.failed = Some(Errno(libc::ENOENT));
        }
    }

    /// Ends the file, when everything is counted: records of one that is not there any more are lost.
    pub(crate) fn finish(&mut self, totals: &mut Totals) {
        self.look(totals);
        if self.sink.is_removed() {
            totals.lose(&std::mem::take(&mut self.written));
        }
        if self.failed.is_none() {
            self.sink.finish();
        }
    }

    /// Counts one packet that was written uncounted; false when there is none.
    pub(crate) fn count_one(&mut self, events: &[Steps], totals: &mut Totals) -> bool {
        let Some(packet) = self.uncounted.pop() else { return false };
        let mut bytes = vec![0; packet.len];
        match self.sink.read(packet.offset, &mut bytes) {
            Ok(read) if read == packet.len => {}
            _ => {
                let name = self.name();
                totals.problems.push(format!("a packet of {name} cannot be read back and was not counted"));
                return true;
            }
        }
        totals.counts.resize(events.len(), 0);
        let mut counts = vec![0; events.len()];
        let between = low(packet.begin, packet.end);
        let walked = walk_noting(&bytes, between, events, &mut counts, &mut totals.seen);
        add(&mut totals.counts, &counts);
        self.note_written(&counts);
        // When this cannot be written, the packet says what it has said: not before its last record.
        let end = nearest(packet.end, walked.last_time, TIME_BITS);
        if walked.good > 0 && (packet.begin..packet.end).contains(&end) {
            let _ = self.sink.end_at(packet.offset, end);
        }
        if walked.good < packet.len {
            let _ = self.sink.cut(packet.offset, walked.good);
            totals.damages += 1;
            if !std::mem::replace(&mut self.is_damage_reported, true) {
                totals.damaged.push(damage(&self.name(), packet.begin));
            }
        }
        true
    }
}

/// The streams of a trace that no ring goes to now, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct DataStreams {
    idle: Vec<DataStream>,
    /// Every stream that was made, by the ring that it was made for.
    made: Vec<Place>,
}

impl DataStreams {
    /// A stream for a ring whose next packet begins at `begin`: the free one that ends last before that, or a new one.
    ///
    /// # Errors
    /// As making a file.
    pub(crate) fn take(&mut self, context: &Context, ring: Place, begin: u64) -> Result<DataStream> {
        let fits = |(_, stream): &(usize, &DataStream)| stream.ring == ring && stream.last_time <= begin;
        let found = self.idle.iter().enumerate().filter(fits).max_by_key(|(_, stream)| stream.last_time);
        if let Some((at, _)) = found {
            return Ok(self.idle.swap_remove(at));
        }
        let level = self.made.iter().filter(|made| **made == ring).count() as u32;
        let place = match level {
            0 => ring,
            // Numbers of streams need not be without losses; those of rings are below this.
            _ => Place { stream: level << STREAM_BITS | ring.stream, level: ring.level + level, ..ring },
        };
        let sink = context.sink.stream(&place.name())?;
        self.made.push(ring);
        Ok(DataStream {
            ring,
            place,
            sink,
            sequence: 0,
            last_time: 0,
            before: ReportedLoss::default(),
            uncounted: Vec::new(),
            is_damage_reported: false,
            failed: None,
            written: Vec::new(),
        })
    }

    /// Takes back the stream of a ring that is no more, of which this was reported in it.
    pub(crate) fn give_back(&mut self, mut stream: DataStream, reported: ReportedLoss) {
        stream.is_damage_reported = false;
        stream.before = sum(stream.before, reported);
        self.idle.push(stream);
    }

    /// Why nothing can be written any more to one of those that no ring goes to.
    pub(crate) fn failure(&self) -> Option<String> {
        self.idle.iter().find_map(DataStream::failure)
    }

    /// The streams that no ring goes to.
    pub(crate) fn idle(&mut self) -> impl Iterator<Item = &mut DataStream> {
        self.idle.iter_mut()
    }
}

/// What two rings have reported, one after the other; when it was seen is that of the second.
fn sum(before: ReportedLoss, now: ReportedLoss) -> ReportedLoss {
    let mut events = before.events;
    add(&mut events, &now.events);
    ReportedLoss { events, unknown: before.unknown.wrapping_add(now.unknown), ..now }
}

/// What is reported of a ring in which something is that cannot be.
pub(crate) fn damage(name: &str, time: u64) -> String {
    format!("a traced process overwrote the ring {name}: events around {time} are missing")
}

/// Bits of the number of a ring of a channel (`mote_ring::geometry::RINGS_MAX`, of both kinds).
const STREAM_BITS: u32 = 13;
