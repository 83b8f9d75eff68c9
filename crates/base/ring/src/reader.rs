//! The consumer's side of a channel.
//!
//! Nothing found in the shared memory is trusted: every position is checked against what the reader
//! knows by itself (the geometry, how far it has read) before it is used, bytes leave only by copying,
//! and a ring that contradicts itself is reported as damaged and resynchronised.

use crate::atomic_writer::Lap;
use crate::control::{Count, MARK, Ring, Slot};
use crate::geometry::{BadGeometry, Geometry, Mode};
use crate::threads::ThreadTable;
#[cfg(feature = "shared")]
use alloc::sync::Arc;
use core::cell::Cell;
use core::marker::PhantomData;
use mote_loss::{Cause, Lost};
use mote_sync::atomic::{Ordering, fence};
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, mem};

/// Positions and counts that writers claim are cut to these bits, so that sums of a few never overflow. 2^56 bytes are
/// three months of 10 GB/s on one CPU.
const CREDIBLE: u64 = (1 << 56) - 1;

/// A channel as the consumer owns it.
#[derive(Debug)]
pub struct Channel {
    geometry: Geometry,
    memory: Mapping,
    memfd: Fd,
    made: u64,
}

/// Why a channel cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakeError {
    /// The sizes are out of bounds.
    Geometry(BadGeometry),
    /// The kernel refused; most often not enough memory.
    System(Errno),
}

impl From<Errno> for MakeError {
    fn from(errno: Errno) -> MakeError {
        MakeError::System(errno)
    }
}

impl From<BadGeometry> for MakeError {
    fn from(bad: BadGeometry) -> MakeError {
        MakeError::Geometry(bad)
    }
}

impl Channel {
    /// Makes a channel. Memory for the rings in `allocate` is taken at once, so that a writer cannot be
    /// killed for want of it later.
    ///
    /// # Errors
    /// [`MakeError`].
    pub fn make(geometry: Geometry, allocate: impl Iterator<Item = u32>) -> Result<Channel, MakeError> {
        let geometry = geometry.check()?;
        let memfd = mem::sealed_memfd(c"mote-channel", geometry.total_bytes())?;
        mem::allocate(&memfd, 0, geometry.data_offset(0))?;
        for ring in allocate.filter(|ring| *ring < geometry.rings()) {
            mem::allocate(&memfd, geometry.data_offset(ring), geometry.ring_bytes())?;
        }
        let memory = Mapping::shared(&memfd, geometry.total_bytes() as usize)?;
        Ok(Channel { geometry, memory, memfd, made: geometry.clock.now() }.marked())
    }

    /// Itself, with every ring marked.
    fn marked(self) -> Channel {
        (0..self.geometry.rings()).filter_map(|ring| self.reader(ring)).for_each(|reader| reader.mark());
        self
    }

    /// A channel over memory that another process has made, `geometry.total_bytes()` bytes at least, which `fd` maps:
    /// an array map of eBPF, to which programs of the kernel write. It may have no shared rings.
    ///
    /// # Errors
    /// [`MakeError`].
    pub fn over(fd: Fd, geometry: Geometry) -> Result<Channel, MakeError> {
        Geometry { shared: geometry.shared.max(1), ..geometry }.check()?;
        let memory = Mapping::shared(&fd, geometry.total_bytes() as usize)?;
        Ok(Channel { geometry, memory, memfd: fd, made: geometry.clock.now() }.marked())
    }

    /// The channel's sizes, as the consumer has made them, not as the shared memory says.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// When it was made, in ticks of its clock: no thread has written to it before.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// The file, to be passed to writers.
    pub fn memfd(&self) -> &Fd {
        &self.memfd
    }

    /// The table of threads' names.
    pub fn threads(&self) -> &ThreadTable {
        // SAFETY: `mapping-held`: the table lies at its start, and is all atomics.
        unsafe { &*self.memory.base().cast_const().cast() }
    }

    /// A reader of ring `ring`, from the ring's beginning.
    pub fn reader(&self, ring: u32) -> Option<Reader<'_>> {
        if ring >= self.geometry.rings() {
            return None;
        }
        let base = self.memory.base();
        let place = Ring {
            control: base.wrapping_add(self.geometry.control_offset(ring) as usize).cast(),
            data: base.wrapping_add(self.geometry.data_offset(ring) as usize),
        };
        let shared = ring >= self.geometry.cpus;
        Some(Reader::of(self.geometry, place, shared))
    }

    /// As [`Channel::reader`]; the channel stays as long as the reader.
    #[cfg(feature = "shared")]
    pub fn shared_reader(self: &Arc<Channel>, ring: u32) -> Option<Reader<'static>> {
        let Reader { geometry, ring, shared, .. } = self.reader(ring)?;
        Some(Reader { _held: Held::Shared(Arc::clone(self)), ..Reader::of(geometry, ring, shared) })
    }
}

/// The consumer's side of one ring, which trusts nothing that it finds there.
#[derive(Debug)]
pub struct Reader<'a> {
    geometry: Geometry,
    ring: Ring,
    _held: Held<'a>,
    shared: bool,
    /// Position up to which everything was handed out or given up.
    read: u64,
    /// Shared rings: records of the sub-buffer of `read` that the last look found committed, and those
    /// that were handed out.
    looked_at: u64,
    handed_out: u64,
    /// The highest position that was seen: it never decreases, unless a process sets it back.
    seen: Cell<u64>,
}

/// What keeps the mapping that a reader's ring lies in.
#[derive(Debug)]
enum Held<'a> {
    /// A channel of the caller, for as long as the reader.
    Borrowed(PhantomData<&'a Channel>),
    /// The reader.
    #[cfg(feature = "shared")]
    Shared(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Channel>),
}

/// Some records of one sub-buffer, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Position of the first byte.
    pub from: u64,
    /// Position of the first byte behind the last record.
    pub to: u64,
    /// Set when the writers have left the sub-buffer: a time not before its last record, as they say.
    pub time_end: Option<u64>,
    /// How many records a full ring had lost when the writers entered the sub-buffer, as they say. None is lost inside
    /// of one.
    pub lost: u64,
}

impl Chunk {
    /// Number of bytes of all its records, padding not included.
    pub fn len(&self) -> usize {
        self.to.saturating_sub(self.from) as usize
    }

    /// True when the sub-buffer held nothing (more).
    pub fn is_empty(&self) -> bool {
        self.to == self.from
    }
}

/// What a look at a ring gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing to read now.
    Empty,
    /// These bytes can be read.
    Ready(Chunk),
    /// Overwrite mode: the writers have overwritten this many bytes that were not read.
    Overwritten(u64),
    /// The ring contradicts itself: a writer is broken or hostile. It was skipped to the newest position.
    Damaged,
}

impl Reader<'_> {
    /// A reader from the beginning of `ring`, which must stay for as long as the reader.
    pub(crate) fn of(geometry: Geometry, ring: Ring, shared: bool) -> Self {
        let _held = Held::Borrowed(PhantomData);
        Reader { geometry, ring, _held, shared, read: 0, looked_at: 0, handed_out: 0, seen: Cell::new(0) }
    }

    /// The channel's sizes, as the consumer has made them.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// True for a ring of the atomic writer.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Position up to which the ring was read.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Bytes between what was read and what was written; not more than the ring holds.
    pub fn backlog(&self) -> u64 {
        let pos = self.pos();
        if !self.is_whole(pos) {
            return self.geometry().ring_bytes();
        }
        self.content_end(pos).saturating_sub(self.read).min(self.geometry().ring_bytes())
    }

    /// Lost events by cause, as the writers have counted them.
    pub fn lost(&self) -> Lost {
        // SAFETY: `mapping-held`.
        let control = unsafe { self.ring.control() };
        let mut lost = control.lost.each_ref().map(|lost| lost.load(Ordering::Relaxed));
        for (cause, count) in lost.iter_mut().enumerate() {
            let is_of_full_ring = cause == Cause::RingFull as usize;
            *count = if is_of_full_ring { self.count(*count) } else { (*count).min(CREDIBLE) };
        }
        lost
    }

    /// What a word says that counts losses of a full ring.
    fn count(&self, word: u64) -> u64 {
        if self.shared { Count(word).events() } else { word.min(CREDIBLE) }
    }

    /// Position up to which the writers say that they have written.
    pub fn written(&self) -> u64 {
        self.content_end(self.pos())
    }

    /// Where the records before `pos` end: earlier when the ring was full and the sub-buffer is closed.
    fn content_end(&self, pos: u64) -> u64 {
        if !self.is_closed(pos) {
            return pos;
        }
        let start = pos & !(self.geometry().sub_bytes() - 1);
        // It does not change while the sub-buffer is not read to its end. A writer that has only just closed it may not
        // have noted it.
        let end = self.slot(pos >> self.geometry().sub_bits).end.load(Ordering::Relaxed);
        if (start..pos).contains(&end) { end } else { pos }
    }

    fn is_closed(&self, pos: u64) -> bool {
        let mask = self.geometry().sub_bytes() - 1;
        self.geometry().mode == Mode::Discard && pos & mask == mask
    }

    fn pos(&self) -> u64 {
        // SAFETY: `mapping-held`.
        let control = unsafe { self.ring.control() };
        // Acquire (A, B): what lies before `pos` is written.
        control.pos.load(Ordering::Acquire) & CREDIBLE
    }

    /// False when a process has emptied the ring, or set its position, now `pos`, back: what is written before the next
    /// look cannot be told from what was.
    fn is_whole(&self, pos: u64) -> bool {
        // SAFETY: `mapping-held`.
        let control = unsafe { self.ring.control() };
        let is_back = pos < self.seen.get().max(self.read);
        self.seen.set(self.seen.get().max(pos));
        !is_back && control.mark.load(Ordering::Relaxed) == MARK
    }

    fn mark(&self) {
        // SAFETY: `mapping-held`.
        let control = unsafe { self.ring.control() };
        control.mark.store(MARK, Ordering::Relaxed);
    }

    /// Whether the ring contradicts what was seen of it before: the next look will say so.
    pub fn is_damaged(&self) -> bool {
        !self.is_whole(self.pos())
    }

    /// Looks for bytes to read; at most the rest of one sub-buffer.
    pub fn look(&mut self) -> Look {
        // Sub-buffers with nothing more in them are stepped over; more of them than there are is a lie.
        for _ in 0..=self.geometry().sub_count() {
            if let Some(look) = self.look_once() {
                return look;
            }
        }
        self.damaged(self.pos())
    }

    /// `None` when it has gone on to the next sub-buffer, or must.
    fn look_once(&mut self) -> Option<Look> {
        let pos = self.pos();
        let geometry = self.geometry();
        if !self.is_whole(pos) {
            return Some(self.damaged(pos));
        }
        let sub = self.read >> geometry.sub_bits;
        let newest = pos >> geometry.sub_bits;
        if newest - sub >= geometry.sub_count() {
            if geometry.mode == Mode::Discard {
                return Some(self.damaged(pos));
            }
            // The oldest sub-buffer that is whole; the writers may be entering the one before it.
            let oldest = (newest - geometry.sub_count() + 1) << geometry.sub_bits;
            let gone = oldest - self.read;
            self.advance(oldest);
            return Some(Look::Overwritten(gone));
        }
        if self.shared { self.look_shared(pos, sub) } else { self.look_own(pos, sub) }
    }

    fn look_own(&mut self, pos: u64, sub: u64) -> Option<Look> {
        let geometry = self.geometry();
        if sub == pos >> geometry.sub_bits { Some(self.part(sub, pos)) } else { self.whole(sub, pos) }
    }

    /// What there is of sub-buffer `sub`, in which the writers are at `pos`.
    fn part(&mut self, sub: u64, pos: u64) -> Look {
        let to = self.content_end(pos);
        match to.cmp(&self.read) {
            core::cmp::Ordering::Less => self.damaged(pos),
            core::cmp::Ordering::Equal => Look::Empty,
            core::cmp::Ordering::Greater => Look::Ready(self.chunk(sub, to, None)),
        }
    }

    /// What was not read of sub-buffer `sub`, up to `to`.
    fn chunk(&self, sub: u64, to: u64, time_end: Option<u64>) -> Chunk {
        // A thread that has moved `pos` into it has noted that before (B).
        let lost = self.count(self.slot(sub).lost.load(Ordering::Relaxed));
        Chunk { from: self.read, to, time_end, lost }
    }

    fn slot(&self, sub: u64) -> &Slot {
        // SAFETY: `mapping-held`, and `position-masked`.
        unsafe { self.ring.slot(sub & (self.geometry().sub_count() - 1)) }
    }

    /// The rest of sub-buffer `sub`, which the writers have left.
    fn whole(&mut self, sub: u64, pos: u64) -> Option<Look> {
        let geometry = self.geometry();
        let end = self.slot(sub).end.load(Ordering::Relaxed);
        let time_end = self.slot(sub).time_end.load(Ordering::Relaxed);
        let next = (sub + 1) << geometry.sub_bits;
        if end < self.read || end >= next {
            return if self.lapped(sub) { None } else { Some(self.damaged(pos)) };
        }
        if end == self.read {
            // Nothing more in here.
            self.advance(next);
            return None;
        }
        Some(Look::Ready(self.chunk(sub, end, Some(time_end))))
    }

    /// True when writers have come around to sub-buffer `sub` again.
    fn lapped(&self, sub: u64) -> bool {
        // Orders the loads before it (slot, data) before the load of `pos`.
        fence(Ordering::Acquire);
        let newest = self.pos() >> self.geometry().sub_bits;
        newest.wrapping_sub(sub) >= self.geometry().sub_count()
    }

    fn look_shared(&mut self, pos: u64, sub: u64) -> Option<Look> {
        let geometry = self.geometry();
        let start = sub << geometry.sub_bits;
        let (bytes, records) = self.committed(sub);
        self.looked_at = records;
        if sub != pos >> geometry.sub_bits {
            return if bytes == geometry.sub_bytes() { self.whole(sub, pos) } else { Some(Look::Empty) };
        }
        // All that is reserved is committed, and no thread has reserved since `pos` was loaded.
        let done = if self.is_closed(pos) { geometry.sub_bytes() } else { pos - start };
        if bytes == done && self.pos() == pos { Some(self.part(sub, pos)) } else { Some(Look::Empty) }
    }

    /// Bytes and records committed in sub-buffer `sub`.
    fn committed(&self, sub: u64) -> (u64, u64) {
        let geometry = self.geometry();
        let ring_bits = geometry.sub_bits + geometry.count_bits;
        let lap = Lap::at(sub << geometry.sub_bits, geometry.sub_bits, ring_bits);
        let slot = self.slot(sub);
        // Acquire (A): what is counted is written.
        let commit = slot.commit.load(Ordering::Acquire);
        (lap.bytes(commit), lap.records(commit, slot.base.load(Ordering::Relaxed)))
    }

    /// Gives up a sub-buffer of a shared ring that never became whole because a writer died in it, and
    /// skips it. To be called only when no writer is left.
    ///
    /// Returns the records in it that had been committed and are lost with it, or `None` when there is
    /// nothing to give up.
    pub fn give_up(&mut self) -> Option<u64> {
        if !self.shared || self.backlog() == 0 {
            return None;
        }
        let geometry = self.geometry();
        let sub = self.read >> geometry.sub_bits;
        let (_, records) = self.committed(sub);
        let torn = records.saturating_sub(self.handed_out);
        self.advance(((sub + 1) << geometry.sub_bits).min(self.pos()));
        Some(torn)
    }

    /// Goes on at `position`, of which nothing was handed out yet.
    fn advance(&mut self, position: u64) {
        self.read = position;
        self.handed_out = 0;
        self.publish();
    }

    fn damaged(&mut self, pos: u64) -> Look {
        let geometry = self.geometry();
        self.mark();
        self.seen.set(pos);
        // Skips to the start of the sub-buffer being written, wherever the writers claim it is.
        self.advance(pos & !(geometry.sub_bytes() - 1));
        Look::Damaged
    }

    fn data(&self, position: u64) -> *const u8 {
        let offset = position & (self.geometry().ring_bytes() - 1);
        self.ring.data.wrapping_add(offset as usize)
    }

    /// Bytes of a chunk, whichever it is, up to the end of its sub-buffer.
    fn len_inside(&self, chunk: Chunk) -> usize {
        let sub_bytes = self.geometry().sub_bytes();
        chunk.len().min((sub_bytes - (chunk.from & (sub_bytes - 1))) as usize)
    }

    /// Copies a chunk to the start of `into`; false when the writers have overwritten it
    /// meanwhile, and then the bytes are not to be used.
    pub fn copy(&self, chunk: Chunk, into: &mut [u8]) -> bool {
        let len = self.len_inside(chunk).min(into.len());
        #[cfg(any(loom, shuttle))]
        crate::model::read(self.ring.data, chunk.from & (self.geometry().ring_bytes() - 1), len);
        // SAFETY: `len` bytes do not reach over the end of a sub-buffer, so they are inside the mapping.
        // Writers may change them while they are copied, if they are hostile or come around: the bytes
        // are used only as plain data, and not at all when `lapped`.
        unsafe { mem::copy_shared(into.as_mut_ptr(), self.data(chunk.from), len) };
        let lapped =
            self.geometry().mode == Mode::Overwrite && self.lapped(chunk.from >> self.geometry().sub_bits);
        !lapped
    }

    /// Writes `header` and the chunk to `fd` at `offset` with one system call, straight from the ring.
    /// Returns the bytes written, which are fewer than asked for when a disk is full.
    ///
    /// # Errors
    /// As pwritev(2).
    pub fn write_to(&self, chunk: Chunk, header: &[u8], fd: &Fd, offset: u64) -> mote_sys::Result<usize> {
        let lens = [header.len(), self.len_inside(chunk)];
        // SAFETY: the bytes lie inside the mapping, as in `copy`; the kernel only reads them.
        unsafe { mote_sys::fd::write_parts_at(fd, [header.as_ptr(), self.data(chunk.from)], lens, offset) }
    }

    /// Tells the writers that the chunk has been read.
    pub fn release(&mut self, chunk: Chunk) {
        match chunk.time_end {
            Some(_) => {
                let sub = chunk.from >> self.geometry().sub_bits;
                self.advance((sub + 1) << self.geometry().sub_bits);
            }
            None => {
                self.read = chunk.to;
                self.handed_out = self.looked_at;
                self.publish();
            }
        }
    }

    fn publish(&self) {
        // SAFETY: `mapping-held`.
        let control = unsafe { self.ring.control() };
        // Release (C): the copies happen before.
        control.consumed.store(self.read, Ordering::Release);
    }
}
