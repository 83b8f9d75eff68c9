//! Records that are kept aside until it is known whether they are wanted.
//!
//! A thread that speculates takes a slot of a pool in shared memory and appends its records there instead of to a ring.
//! When it commits, the consumer takes them out; when it discards, the slot is free again. As DTrace's speculations,
//! which live in buffers beside the principal ones. Speculations that go by a key, of whatever thread, have slots of
//! the same pool ([`keyed`] has their protocol).
//!
//! # Parties
//! Threads of all the traced processes of a session, each of which has at most one slot open; the consumer. Neither
//! side trusts the other's bytes. A thread may be killed at any instruction.
//!
//! # State of a slot
//! `FREE` → `OPEN` by compare-and-swap of a thread; → `FREE` (discard) or `COMMITTED` (commit) by that thread; from
//! there → `FREE` by the consumer. The word holds the thread's id too. A slot of a thread that is no more is freed by
//! the consumer ([`Reader::reap`]).
//!
//! # Who may touch what
//! `open-slot-owned`: while a slot is `OPEN`, everything in it but the state belongs to its thread.
//!
//! While it is `COMMITTED`, everything belongs to the consumer.
//!
//! # Ordering
//! A. Records and their length happen before `COMMITTED` (release); the consumer loads it with acquire.
//! B. The consumer's copies happen before its `FREE` (release); a thread takes the slot with acquire.
//!
//! # Progress
//! All operations of threads are wait-free: they look at each slot once at most. A handler that appends inside of an
//! append of the same thread is told `Busy`.

use crate::atomic_writer::copy;
use crate::writer::{Record, Writer};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use mote_layout::record::{self, PREFIX_BYTES};
use mote_sys::mem::{self, Mapping};

pub mod keyed;

use keyed::{COMMITTED_BY_KEY, DISCARDED_BY_KEY, OPEN_BY_KEY, STATE_MASK, is_written};

/// Most slots of a pool.
pub const SLOTS_MAX: u32 = 4096;
/// Least and most bytes of a slot, powers of two.
pub const SLOT_BYTES_MIN: u32 = 4096;
/// Most bytes of a slot, 16 MiB.
pub const SLOT_BYTES_MAX: u32 = 16 << 20;

/// What a slot's bytes begin with.
#[repr(C, align(64))]
struct Head {
    /// State in the low three bits, thread id (of keyed ones: number) in the upper half.
    state: AtomicU64,
    /// When the speculation began, in nanoseconds of `CLOCK_MONOTONIC`.
    began: AtomicU64,
    /// Bytes of records; of keyed ones those that are written.
    len: AtomicU64,
    /// Process id.
    pid: AtomicU32,
    /// 1 while a record is being appended.
    busy: AtomicU32,
}
const HEAD_BYTES: usize = size_of::<Head>();
const _: () = assert!(HEAD_BYTES == 64);

const FREE: u64 = 0;
const OPEN: u64 = 1;
const COMMITTED: u64 = 2;

const fn word(state: u64, tid: u32) -> u64 {
    state | (tid as u64) << 32
}

/// How many slots a pool has, and how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// How many speculations can be open at a time.
    pub slots: u32,
    /// Bytes of a slot with its head; a power of two.
    pub slot_bytes: u32,
}

impl Sizes {
    /// Whether a pool can have these sizes.
    pub const fn are_sound(self) -> bool {
        self.slots <= SLOTS_MAX
            && self.slot_bytes.is_power_of_two()
            && self.slot_bytes >= SLOT_BYTES_MIN
            && self.slot_bytes <= SLOT_BYTES_MAX
    }

    /// Bytes of the pool: of its slots and of the index of keys. 0 without slots.
    pub const fn bytes(self) -> usize {
        let index = if self.slots == 0 { 0 } else { keyed::INDEX_BYTES };
        self.slots as usize * self.slot_bytes as usize + index
    }
}

/// Why a record was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The slot has no room for it.
    Full,
    /// A signal has interrupted an append of this thread.
    Busy,
    /// The slot is not this thread's any more.
    NotOpen,
    /// The thread may not read the channel's clock.
    NoClock,
}

/// A pool as threads and the consumer have it mapped. Zero bytes are a pool of free slots.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'m> {
    base: *mut u8,
    sizes: Sizes,
    memory: PhantomData<&'m Mapping>,
}

// SAFETY: what it points to is accessed by atomics, and by copies that others may disturb (`mem::copy_shared`).
unsafe impl Send for Pool<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pool<'_> {}

impl<'m> Pool<'m> {
    /// The pool that begins `offset` bytes, a multiple of 64, into shared memory; `None` when the sizes are not sound
    /// or it does not fit. Nothing else may be kept in those bytes.
    pub fn of(memory: &'m Mapping, offset: usize, sizes: Sizes) -> Option<Pool<'m>> {
        let end = offset.checked_add(sizes.bytes())?;
        let fits = sizes.are_sound() && offset.is_multiple_of(HEAD_BYTES) && end <= memory.len();
        fits.then(|| Pool { base: memory.base().wrapping_add(offset), sizes, memory: PhantomData })
    }

    /// Number of slots and their size.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn slot(&self, slot: u32) -> Option<&Head> {
        if slot >= self.sizes.slots {
            return None;
        }
        let at = self.base.wrapping_add(slot as usize * self.sizes.slot_bytes as usize);
        // SAFETY: `slot` is below `slots`, so that `at` is inside of the mapping (`Pool::of`), and aligned as `Head`
        // asks; the type consists of atomics only.
        Some(unsafe { &*at.cast::<Head>() })
    }

    fn data(&self, slot: u32) -> *mut u8 {
        self.base.wrapping_add(slot as usize * self.sizes.slot_bytes as usize + HEAD_BYTES)
    }

    fn room(&self) -> usize {
        self.sizes.slot_bytes as usize - HEAD_BYTES
    }

    /// Opens a slot for the calling thread; `None` when all are taken.
    ///
    /// # Signal safety
    /// Callable from a handler. A thread must not open a second slot.
    pub fn begin(&self, tid: u32, pid: u32, now_ns: u64) -> Option<u32> {
        let slots = self.sizes.slots;
        (0..slots).map(|step| tid.wrapping_add(step) % slots).find(|slot| {
            let Some(head) = self.slot(*slot) else { return false };
            // Acquire (B).
            let taken =
                head.state.compare_exchange(FREE, word(OPEN, tid), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                return false;
            }
            head.pid.store(pid, Ordering::Relaxed);
            head.began.store(now_ns, Ordering::Relaxed);
            head.len.store(0, Ordering::Relaxed);
            head.busy.store(0, Ordering::Relaxed);
            true
        })
    }

    /// When the thread's speculation began; `None` when the slot is not its own.
    pub fn began(&self, slot: u32, tid: u32) -> Option<u64> {
        let head = self.slot(slot)?;
        let open = head.state.load(Ordering::Relaxed) == word(OPEN, tid);
        open.then(|| head.began.load(Ordering::Relaxed))
    }

    /// Appends a record with the time of now, by the clock of `channel`.
    ///
    /// # Errors
    /// [`Refused`]; nothing is appended then.
    ///
    /// # Safety
    /// The payload's bytes must be readable.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub unsafe fn append(&self, slot: u32, channel: &Writer, record: &Record<'_>) -> Result<(), Refused> {
        let head = self.slot(slot).ok_or(Refused::NotOpen)?;
        if head.state.load(Ordering::Relaxed) != word(OPEN, record.thread) {
            return Err(Refused::NotOpen);
        }
        // Against handlers of this thread only: program order is enough.
        if head.busy.load(Ordering::Relaxed) != 0 {
            return Err(Refused::Busy);
        }
        head.busy.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let total = PREFIX_BYTES + record.payload.len();
        let len = head.len.load(Ordering::Relaxed) as usize;
        let fits = len.checked_add(total).is_some_and(|end| end <= self.room());
        let appended = match channel.now() {
            _ if !fits => Err(Refused::Full),
            None => Err(Refused::NoClock),
            Some(now) => {
                let header = record::header(now, record.tag);
                // SAFETY: `len + total` is at most the slot's room; `open-slot-owned` makes it this thread's.
                unsafe { copy(self.data(slot).wrapping_add(len), header, record) };
                head.len.store((len + total) as u64, Ordering::Relaxed);
                Ok(())
            }
        };
        compiler_fence(Ordering::SeqCst);
        head.busy.store(0, Ordering::Relaxed);
        appended
    }

    /// Whether a record is being appended to the slot: true only in a handler that has interrupted its thread in that.
    /// The slot must not be ended then.
    pub fn is_busy(&self, slot: u32) -> bool {
        self.slot(slot).is_some_and(|head| head.busy.load(Ordering::Relaxed) != 0)
    }

    /// Hands the thread's records to the consumer. False when the slot is not its own.
    pub fn commit(&self, slot: u32, tid: u32) -> bool {
        self.end(slot, tid, word(COMMITTED, tid))
    }

    /// Forgets the thread's records. False when the slot is not its own.
    pub fn discard(&self, slot: u32, tid: u32) -> bool {
        self.end(slot, tid, FREE)
    }

    fn end(&self, slot: u32, tid: u32, state: u64) -> bool {
        let Some(head) = self.slot(slot) else { return false };
        // Release (A). Compare-and-swap, because the consumer may have taken us for dead.
        head.state.compare_exchange(word(OPEN, tid), state, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// The consumer's side of a pool.
#[derive(Debug)]
pub struct Reader<'m> {
    pool: Pool<'m>,
}

/// Records that were committed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Id of the thread that kept them; 0 when it was several, by a key.
    pub tid: u32,
    /// Process id, as the process sees it.
    pub pid: u32,
}

/// How many speculations were found of threads or processes that are no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// That were neither committed nor discarded.
    pub open: u32,
    /// That were committed, while a record was being written that now never will be: their records are lost.
    pub torn: u32,
}

impl<'m> Reader<'m> {
    /// The consumer of a pool. There must be one only.
    pub fn new(pool: Pool<'m>) -> Reader<'m> {
        Reader { pool }
    }

    /// Takes the records of one slot that was committed, into `records`, and frees it; `None` when there is none. The
    /// bytes are as untrusted as those of a ring.
    pub fn take(&self, records: &mut [u8]) -> Option<(Committed, usize)> {
        (0..self.pool.sizes.slots).find_map(|slot| {
            let head = self.pool.slot(slot)?;
            // Acquire (A).
            let state = head.state.load(Ordering::Acquire);
            let (tid, len) = match state & STATE_MASK {
                COMMITTED => ((state >> 32) as u32, head.len.load(Ordering::Relaxed)),
                // C: all that is reserved is written.
                COMMITTED_BY_KEY if is_written(head, state) => (0, keyed::reserved(state)),
                _ => return None,
            };
            let room = self.pool.room().min(records.len());
            let len = len.min(room as u64) as usize;
            let committed = Committed { tid, pid: head.pid.load(Ordering::Relaxed) };
            // SAFETY: `len` is at most the slot's room and that of `records`; a writer here meanwhile is hostile, and
            // damages its own bytes.
            unsafe { mem::copy_shared(records.as_mut_ptr(), self.pool.data(slot), len) };
            // Release (B).
            head.state.store(FREE, Ordering::Release);
            Some((committed, len))
        })
    }

    /// Most bytes that [`Reader::take`] gives.
    pub fn room(&self) -> usize {
        self.pool.room()
    }

    /// Frees the slots of threads that are no more, as `is_alive(pid, tid, began)` says, and those of keys whose
    /// process is no more, of which it is asked with the process's first thread. Returns what was freed.
    pub fn reap(&self, mut is_alive: impl FnMut(u32, u32, u64) -> bool) -> Reaped {
        let mut reaped = Reaped::default();
        for head in (0..self.pool.sizes.slots).filter_map(|slot| self.pool.slot(slot)) {
            let state = head.state.load(Ordering::Acquire);
            let (pid, began) = (head.pid.load(Ordering::Relaxed), head.began.load(Ordering::Relaxed));
            let tid = match state & STATE_MASK {
                OPEN => (state >> 32) as u32,
                OPEN_BY_KEY | DISCARDED_BY_KEY => pid,
                COMMITTED_BY_KEY if !is_written(head, state) => pid,
                _ => continue,
            };
            if is_alive(pid, tid, began)
                || head.state.compare_exchange(state, FREE, Ordering::Release, Ordering::Relaxed).is_err()
            {
                continue;
            }
            match state & STATE_MASK {
                COMMITTED_BY_KEY => reaped.torn += 1,
                _ => reaped.open += 1,
            }
        }
        reaped
    }
}
