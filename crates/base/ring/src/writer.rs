//! A channel as a traced process sees it, and the trait that both kinds of writer implement.

use crate::control::Ring;
use crate::geometry::{BadGeometry, Clock, Geometry, Mode};
use crate::threads::{ThreadName, ThreadTable};
use crate::writes;
use core::sync::atomic::{AtomicPtr, Ordering};
use mote_layout::record::{FIELDS_MAX, PREFIX_BYTES};
use mote_loss::Cause;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;
use mote_sys::tsc;

/// Bytes somewhere in the process, part of a large record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// Address of the first byte.
    pub from: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// One record to write: a tag, a thread, and bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Goes into the low 16 bits of the header.
    pub tag: u16,
    /// Thread id, which stands behind the header.
    pub thread: u32,
    /// The bytes behind header and thread id.
    pub payload: Payload<'a>,
}

/// Where the bytes of a record lie.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// `len` bytes at `from`, of which whole 8-byte words can be read. For small records: a large one is written where
    /// it fits, even if it is larger than [`FIELDS_MAX`].
    Words {
        /// First byte.
        from: *const u8,
        /// How many bytes belong to the record.
        len: usize,
    },
    /// The fragments one after the other, `len` bytes together.
    Fragments {
        /// The fragments.
        list: &'a [Fragment],
        /// Sum of their lengths.
        len: usize,
    },
}

impl Payload<'_> {
    /// Number of bytes behind header and thread id.
    pub fn len(&self) -> usize {
        match self {
            Payload::Words { len, .. } | Payload::Fragments { len, .. } => *len,
        }
    }

    /// True when the record has no bytes behind the prefix.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It is in the ring.
    Written,
    /// It was dropped and counted.
    Lost(Cause),
    /// This writer cannot serve the calling thread: it has no rseq registration, or a CPU without a ring.
    NotHere,
}

/// One way of writing records into rings.
pub trait Write {
    /// Writes one record, or counts it as lost.
    ///
    /// # Safety
    /// The payload's bytes must be readable: for `Words` up to the end of the last 8-byte word.
    ///
    /// # Signal safety
    /// Callable from a handler, also from one that interrupted another `write` of the same thread.
    ///
    /// # Cost
    /// Bench `event_cost`, cases `two_ints/rseq` and `two_ints/atomic`.
    unsafe fn write(&self, channel: &Writer, record: Record<'_>) -> Outcome;
}

/// A channel mapped for writing.
#[repr(C)]
#[derive(Debug)]
pub struct Writer {
    /// Where its rings are now ([`Writer::renew`], [`Writer::part_from_writes`]).
    rings: AtomicPtr<Rings>,
    /// The clock of its rings: all have the same.
    clock: u32,
}

/// The rings of a channel as they lie in this process: sizes, and behind them a table of `cpus` and then `shared`
/// [`Ring`]s. Neither changes once a writer leads there, and neither is freed: a write goes by one of these from its
/// beginning to its end. Field offsets are known to the sequences ([`crate::arch`]).
///
/// # Invariants
/// `rings-never-change`: sizes and table do not change once a writer leads there, and are never freed.
/// `ring-never-unmapped`: `threads`, and each ring of the table, lie in a mapping of the geometry that is leaked.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) sub_mask: u64,
    pub(crate) sub_bytes: u64,
    pub(crate) ring_mask: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) cpus: u32,
    pub(crate) shared: u32,
    pub(crate) sub_bits: u32,
    pub(crate) clock: u32,
    pub(crate) mode: u32,
    /// The clock is the TSC and can be read by RDTSCP.
    ordered: bool,
    /// The table's first entry: [`TABLE_AT`] bytes behind the beginning of this.
    table: *const Ring,
    /// The mapping's first byte.
    threads: *const ThreadTable,
    /// Bytes of the mapping.
    bytes: usize,
    geometry: Geometry,
}

/// Where the table begins, for the assembly.
pub(crate) const TABLE_AT: usize = size_of::<Rings>();

// SAFETY: `ring-never-unmapped`; what the pointers lead to is accessed by atomics and restartable sequences only.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

/// Why a channel cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The sizes are out of bounds, or the file is smaller than they say, or it can shrink.
    Geometry,
    /// The kernel refused.
    System(mote_sys::Errno),
}

impl From<mote_sys::Errno> for MapError {
    fn from(errno: mote_sys::Errno) -> MapError {
        MapError::System(errno)
    }
}

impl From<BadGeometry> for MapError {
    fn from(_: BadGeometry) -> MapError {
        MapError::Geometry
    }
}

impl Rings {
    /// Lays out the sizes and the table of the rings in a mapping of `bytes` bytes that begins with `threads`; for the
    /// life of the process.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn make(
        threads: *const ThreadTable,
        bytes: usize,
        geometry: Geometry,
        ring: impl Fn(u32) -> Ring,
    ) -> mote_sys::Result<*mut Rings> {
        let table_bytes = geometry.rings() as usize * size_of::<Ring>();
        let place = Mapping::private(TABLE_AT + table_bytes)?.leak();
        let table = place.wrapping_add(TABLE_AT).cast::<Ring>();
        for index in 0..geometry.rings() {
            // SAFETY: there is room for `rings()` entries behind the sizes, and no other code has the address yet.
            unsafe { table.wrapping_add(index as usize).write(ring(index)) };
        }
        let rings = Rings {
            sub_mask: geometry.sub_bytes() - 1,
            sub_bytes: geometry.sub_bytes(),
            ring_mask: geometry.ring_bytes() - 1,
            ring_bytes: geometry.ring_bytes(),
            cpus: geometry.cpus,
            shared: geometry.shared,
            sub_bits: geometry.sub_bits,
            clock: geometry.clock as u32,
            mode: geometry.mode as u32,
            ordered: geometry.clock == Clock::Tsc && tsc::can_read_after_loads(),
            table,
            threads,
            bytes,
            geometry,
        };
        let place = place.cast::<Rings>();
        // SAFETY: fresh memory of that size, page-aligned.
        unsafe { place.write(rings) };
        Ok(place)
    }

    /// The rings in a mapping of a channel, which is leaked.
    fn of(memory: Mapping, geometry: Geometry) -> mote_sys::Result<*mut Rings> {
        let base = memory.base();
        let ring = |index| Ring {
            control: base.wrapping_add(geometry.control_offset(index) as usize).cast(),
            data: base.wrapping_add(geometry.data_offset(index) as usize),
        };
        let rings = Rings::make(base.cast_const().cast(), memory.len(), geometry, ring)?;
        memory.leak();
        Ok(rings)
    }

    /// Ring `index`; one of the first kind where there is none of that number.
    pub(crate) fn ring(&self, index: u32) -> Ring {
        let index = if index < self.cpus + self.shared { index } else { 0 };
        // SAFETY: `rings-never-change`: the table has `cpus + shared` entries, at least one.
        unsafe { self.table.wrapping_add(index as usize).read() }
    }

    /// The channel's clock, in ticks; `None` when the thread may not read it.
    #[inline]
    pub(crate) fn now(&self) -> Option<u64> {
        if self.clock != Clock::Tsc as u32 {
            return tsc::monotonic();
        }
        tsc::read().or_else(|| tsc::allow().and_then(|_allowed| tsc::read()))
    }

    /// As [`Rings::now`], read when the loads before it are done: a processor may read the counter before them.
    #[inline]
    pub(crate) fn now_after_loads(&self) -> Option<u64> {
        if self.ordered
            // SAFETY: looked up when the channel was mapped.
            && let Some(now) = unsafe { tsc::read_after_loads() }
        {
            return Some(now);
        }
        tsc::finish_loads();
        self.now()
    }

    pub(crate) fn overwrites(&self) -> bool {
        self.mode == Mode::Overwrite as u32
    }

    /// Largest payload that a sub-buffer takes; a sub-buffer is never filled to the end, and small
    /// payloads are copied in whole words.
    pub(crate) fn payload_max(&self) -> usize {
        FIELDS_MAX.min(self.sub_bytes as usize - PREFIX_BYTES - 16)
    }

    /// Counts one lost event by atomic addition, in some ring.
    #[cold]
    pub(crate) fn count_lost(&self, cause: Cause) -> Outcome {
        let ring = mote_sync::rseq::cpu_hint().filter(|cpu| *cpu < self.cpus).unwrap_or(self.cpus);
        // SAFETY: `ring-never-unmapped`.
        let control = unsafe { self.ring(ring).control() };
        if let Some(lost) = control.lost.get(cause as usize) {
            lost.fetch_add(1, Ordering::Relaxed);
        }
        Outcome::Lost(cause)
    }
}

/// The memory that a channel had before [`Writer::renew`].
#[derive(Debug)]
pub struct Former(*const Rings);

// SAFETY: as for `Writer`.
unsafe impl Send for Former {}

impl Former {
    /// Lets it go: fresh private memory is in its place from now on. A writer that still is under way there writes for
    /// no reader.
    ///
    /// # Errors
    /// `ENOMEM`; it stays as it was then.
    ///
    /// # Safety
    /// No thread expects that what is written there is read.
    pub unsafe fn forsake(&self) -> mote_sys::Result<()> {
        // SAFETY: `rings-never-change`.
        let rings = unsafe { &*self.0 };
        // SAFETY: `ring-never-unmapped`, of this size; the caller's promise.
        unsafe { Mapping::replace_by_zeros(rings.threads.cast_mut().cast(), rings.bytes) }
    }
}

impl Writer {
    /// Maps the channel in `memfd` for the rest of the process's life. The descriptor may be closed after.
    ///
    /// # Errors
    /// [`MapError`].
    pub fn map(memfd: &Fd, geometry: Geometry) -> Result<Writer, MapError> {
        Ok(Writer::over(map(memfd, geometry)?, geometry))
    }

    /// Where the address of the rings is, for the assembly.
    pub(crate) const RINGS_AT: usize = core::mem::offset_of!(Writer, rings);

    /// A writer of rings that are there, of these sizes; models have no table of threads.
    pub(crate) fn over(rings: *mut Rings, geometry: Geometry) -> Writer {
        Writer { rings: AtomicPtr::new(rings), clock: geometry.clock as u32 }
    }

    /// Which clock it is, a [`Clock`].
    #[inline(always)]
    pub(crate) fn clock(&self) -> u32 {
        self.clock
    }

    /// The rings, for one write.
    #[inline(always)]
    pub(crate) fn rings(&self) -> &Rings {
        // Acquire pairs with the release in `renew`.
        // SAFETY: `rings-never-change`.
        unsafe { &*self.rings.load(Ordering::Acquire) }
    }

    /// Goes over to another channel's memory, of any sizes but with the same clock: writes that begin from now on go
    /// there. Those that are under way end where they have begun, in the memory that is answered.
    ///
    /// # Errors
    /// [`MapError`]; all stays as it was then.
    pub fn renew(&self, memfd: &Fd, geometry: Geometry) -> Result<Former, MapError> {
        if geometry.clock as u32 != self.clock {
            return Err(MapError::Geometry);
        }
        Ok(Former(self.rings.swap(map(memfd, geometry)?, Ordering::AcqRel)))
    }

    /// Leaves a thread's name in the thread table; its time is that of now.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[cold]
    pub fn introduce(&self, tid: u32, pid: u32, comm: [u8; 16]) {
        // Without a clock the name is from the beginning on.
        let name = ThreadName { tid, pid, time: self.rings().now().unwrap_or(0), comm };
        // SAFETY: `ring-never-unmapped`: the table lies at the start of the mapping, and consists of atomics.
        let table = unsafe { &*self.rings().threads };
        // When it is full the thread is counted as nameless there.
        table.push(&name);
    }

    /// Lets the channel's memory go, for a session that has ended, or in a child of fork that is to have other rings:
    /// fresh private memory is in its place from now on. A writer that still is under way writes there, for no reader.
    ///
    /// # Errors
    /// `ENOMEM`; all stays as it was then.
    ///
    /// # Safety
    /// No thread expects that what is written is read.
    pub unsafe fn forsake(&self) -> mote_sys::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { Former(self.rings.load(Ordering::Acquire)).forsake() }
    }

    /// In a child of fork: parts it from the writes that a handler has interrupted and forked in, of which the child
    /// has a copy. Those end in private memory, which no reader sees: they are their parent's, which commits what was
    /// reserved. What begins from now on goes to the channel. Nothing is done when the thread is in no write of the
    /// atomic writer; a sequence (rseq) starts over by itself.
    ///
    /// # Errors
    /// `ENOMEM`; all stays as it was then, and what was reserved is committed twice.
    ///
    /// # Safety
    /// The calling thread is the only one, and no handler of it writes meanwhile.
    pub unsafe fn part_from_writes(&self) -> mote_sys::Result<()> {
        if writes::get() == 0 {
            return Ok(());
        }
        let before = Former(self.rings.load(Ordering::Acquire));
        let Rings { threads, bytes, geometry, .. } = *self.rings();
        // SAFETY: `ring-never-unmapped`, of this size.
        let memory = unsafe { Mapping::again(threads.cast_mut().cast(), bytes) }?;
        let rings = Rings::of(memory, geometry)?;
        // SAFETY: only a write that is interrupted still has an address in it, and no thread waits for that write.
        unsafe { before.forsake() }?;
        self.rings.store(rings, Ordering::Release);
        Ok(())
    }

    /// The channel's clock, in ticks; `None` when the calling thread may not read it.
    #[inline]
    pub fn now(&self) -> Option<u64> {
        self.rings().now()
    }

    /// Counts an event that the caller could not even begin to write.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub fn lose(&self, cause: Cause) {
        let _ = self.rings().count_lost(cause);
    }
}

/// Maps a channel for good.
fn map(memfd: &Fd, geometry: Geometry) -> Result<*mut Rings, MapError> {
    let geometry = geometry.check()?;
    // In this order: what cannot shrink any more keeps the size that is read after.
    let sealed = mote_sys::mem::cannot_shrink(memfd);
    let size = mote_sys::fd::identity(memfd.raw())?.size;
    if size < geometry.total_bytes() || !sealed {
        return Err(MapError::Geometry);
    }
    let memory = Mapping::shared(memfd, geometry.total_bytes() as usize)?;
    memory.keep_out_of_core_dumps();
    Ok(Rings::of(memory, geometry)?)
}
