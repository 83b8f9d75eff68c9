//! One ring's data stream: from chunks of the ring to packets in a file.

use crate::walk::{self, Steps};
use mote_clock::extend::near;
use mote_layout::Cause;
use mote_layout::loss::Lost;
use mote_layout::packet::{CONTENT_SIZE_AT, HEADER_BYTES, PacketHeader, STREAM_PER_CPU, STREAM_SHARED};
use mote_layout::record::{TIME_BITS, split};
use mote_ring::reader::{Chunk, Look, Reader};
use mote_sys::fd::{self, Fd};
use mote_sys::{Errno, Result};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the streams of a recording share.
pub(crate) struct Context<'c> {
    /// The recording's directory.
    pub(crate) directory: &'c Path,
    /// The trace's id.
    pub(crate) uuid: [u8; 16],
    /// The trace clock.
    pub(crate) clock: mote_clock::Source,
}

/// What came out of the streams together.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Records by event id.
    pub counts: Vec<u64>,
    /// Bytes written.
    pub bytes: u64,
    /// Packets written.
    pub packets: u64,
    /// Records that were read but could not be written.
    pub unwritten: u64,
    /// Bytes that the flight recorder overwrote.
    pub overwritten: u64,
    /// What was wrong, in words.
    pub problems: Vec<String>,
}

/// A packet that is in the file and whose records were not counted yet.
#[derive(Clone, Copy, Debug)]
struct Uncounted {
    offset: u64,
    len: usize,
    begin: u64,
}

/// One ring's stream.
pub(crate) struct Stream<'c> {
    reader: Reader<'c>,
    ring: u32,
    class: u32,
    /// CPU, or number among the shared rings.
    number: u32,
    file: Option<Fd>,
    offset: u64,
    sequence: u64,
    last_time: u64,
    torn: u64,
    lost_told: Lost,
    uncounted: Vec<Uncounted>,
    buffer: Vec<u8>,
    damage_told: bool,
    failed: Option<Errno>,
}

impl<'c> Stream<'c> {
    /// The stream of a ring; its file is made with the first packet.
    pub(crate) fn new(reader: Reader<'c>, ring: u32, cpus: u32) -> Stream<'c> {
        let shared = reader.is_shared();
        Stream {
            reader,
            ring,
            class: if shared { STREAM_SHARED } else { STREAM_PER_CPU },
            number: if shared { ring - cpus } else { ring },
            file: None,
            offset: 0,
            sequence: 0,
            last_time: 0,
            torn: 0,
            lost_told: Lost::default(),
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

    /// Lost events so far, by cause.
    pub(crate) fn lost(&self) -> Lost {
        let mut lost = self.reader.lost();
        lost[Cause::Torn as usize] += self.torn;
        lost
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
        let goal = self.reader.written();
        let mut taken = false;
        while self.reader.position() < goal {
            match self.reader.look() {
                Look::Ready(chunk) if chunk.time_end.is_none() && !take.flush => break,
                Look::Ready(chunk) => {
                    taken = true;
                    self.take(context, events, chunk, take, totals);
                }
                Look::Overwritten(bytes) => totals.overwritten += bytes,
                Look::Damaged => self.report_damage(totals),
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
        let now = context.clock.ticks();
        let mut first = [0; 8];
        let head = Chunk { to: chunk.from + 8, ..chunk };
        if chunk.len() < 8 || !self.reader.copy(head, &mut first) {
            return Ok(());
        }
        let begin = near(now, split(u64::from_le_bytes(first)).1, TIME_BITS).max(self.last_time);
        let end = chunk.time_end.unwrap_or(begin).clamp(begin, now.max(begin));
        let header = self.header(context, begin, end, chunk.len()).encode();
        self.open(context)?;
        let file = self.file()?;
        let written = self.reader.write_to(chunk, &header, file, self.offset)?;
        self.check(written, header.len() + chunk.len())?;
        let offset = self.offset + header.len() as u64;
        self.uncounted.push(Uncounted { offset, len: chunk.len(), begin });
        self.wrote(written, end, totals);
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
            self.write_copy(context, events, &buffer, totals)
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
        totals: &mut Totals,
    ) -> Result<()> {
        let now = context.clock.ticks();
        let Some(first) = bytes.first_chunk::<8>() else { return Ok(()) };
        let begin = near(now, split(u64::from_le_bytes(*first)).1, TIME_BITS).max(self.last_time);
        totals.counts.resize(events.len(), 0);
        let mut counts = vec![0; events.len()];
        let walked = walk::walk(bytes, begin & low_mask(), events, &mut counts);
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
        let end = near(now, walked.last_time, TIME_BITS).max(begin);
        let header = self.header(context, begin, end, walked.good).encode();
        self.open(context)?;
        let file = self.file()?;
        let good = bytes.get(..walked.good).unwrap_or(bytes);
        let written = fd::write_slices_at(file, [&header, good], self.offset)?;
        self.check(written, header.len() + good.len())?;
        add(&mut totals.counts, &counts);
        self.wrote(written, end, totals);
        Ok(())
    }

    fn wrote(&mut self, bytes: usize, end: u64, totals: &mut Totals) {
        self.offset += bytes as u64;
        self.sequence += 1;
        self.last_time = end;
        self.lost_told = self.lost();
        totals.bytes += bytes as u64;
        totals.packets += 1;
    }

    /// A write that is cut means a full disk: the next one would say so, but half a packet must not stay.
    fn check(&self, written: usize, wanted: usize) -> Result<()> {
        if written == wanted { Ok(()) } else { Err(Errno(libc::ENOSPC)) }
    }

    fn fail(&mut self, errno: Errno, totals: &mut Totals) {
        if let Some(file) = &self.file {
            let _ = fd::truncate(file, self.offset);
        }
        totals.problems.push(format!(
            "cannot write {}: {errno}; recording stops, what was written before is whole",
            self.name()
        ));
        self.failed = Some(errno);
    }

    fn header(&self, context: &Context<'_>, begin: u64, end: u64, content: usize) -> PacketHeader {
        PacketHeader {
            uuid: context.uuid,
            stream_class: self.class,
            stream: self.ring,
            begin,
            end,
            content: content as u64,
            sequence: self.sequence,
            cpu: self.number,
            lost: self.lost(),
        }
    }

    fn name(&self) -> String {
        let kind = if self.class == STREAM_SHARED { "shared" } else { "cpu" };
        format!("{kind}_{}", self.number)
    }

    /// Makes the file, if this is the first packet.
    fn open(&mut self, context: &Context<'_>) -> Result<()> {
        if self.file.is_none() {
            let path = context.directory.join(self.name());
            let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
            self.file = Some(fd::open(&path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o644)?);
        }
        Ok(())
    }

    fn file(&self) -> Result<&Fd> {
        self.file.as_ref().ok_or(Errno(libc::EBADF))
    }

    fn report_damage(&mut self, totals: &mut Totals) {
        if !self.damage_told {
            self.damage_told = true;
            totals.problems.push(format!(
                "ring {} holds bytes that are no events: a traced process has overwritten its buffers; \
                 events around {} are missing",
                self.name(),
                self.last_time
            ));
        }
    }

    /// Counts one packet that was written uncounted; false when there is none.
    pub(crate) fn count_one(&mut self, events: &[Steps], totals: &mut Totals) -> bool {
        let (Some(packet), Some(file)) = (self.uncounted.pop(), &self.file) else { return false };
        self.buffer.resize(packet.len, 0);
        let Ok(read) = fd::read_at(file, &mut self.buffer, packet.offset) else { return true };
        totals.counts.resize(events.len(), 0);
        let bytes = self.buffer.get(..read).unwrap_or(&[]);
        let walked = walk::walk(bytes, packet.begin & low_mask(), events, &mut totals.counts);
        if walked.good < packet.len {
            let bits = ((HEADER_BYTES + walked.good) as u64 * 8).to_le_bytes();
            let at = packet.offset - (HEADER_BYTES - CONTENT_SIZE_AT) as u64;
            let _ = fd::write_at(file, &bits, at);
            self.report_damage(totals);
        }
        true
    }

    /// Ends the stream: gives up what writers that are no more have left unfinished, and leaves a last
    /// packet if events were lost after the one before. To be called when nobody writes any more.
    pub(crate) fn close(&mut self, context: &Context<'_>, events: &[Steps], totals: &mut Totals) {
        while let Some(torn) = self.reader.give_up() {
            self.torn += torn;
            self.drain(context, events, Take { flush: true, pressure: false }, totals);
        }
        if self.lost() != self.lost_told && self.failed.is_none() {
            let header = self.header(context, self.last_time, self.last_time, 0).encode();
            let opened = self.open(context);
            let written =
                opened.and_then(|()| fd::write_slices_at(self.file()?, [&header, &[]], self.offset));
            match written {
                Ok(written) if written == header.len() => self.wrote(written, self.last_time, totals),
                Ok(_) => self.fail(Errno(libc::ENOSPC), totals),
                Err(errno) => self.fail(errno, totals),
            }
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

fn low_mask() -> u64 {
    (1 << TIME_BITS) - 1
}

fn add(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}
