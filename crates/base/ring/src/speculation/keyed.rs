//! Speculations that go by a key: any thread of a process may keep records aside under one, and end it.
//!
//! Tasks of an asynchronous program go from thread to thread; what belongs together there has a number or a name in
//! common, a request's for example. The slots are those of the pool; an index behind them leads from keys to slots.
//!
//! # Parties
//! Threads of all processes of a session, of which several may append to one slot at a time; the consumer. A key
//! belongs to one process. A thread may be killed at any instruction, and all others of its process with it.
//!
//! # State of a slot
//! In one word: the state in bits 0..3, bytes that are reserved in bits 8..32, the speculation's number above.
//! `FREE` → `OPEN_BY_KEY` by compare-and-swap of a thread; → `COMMITTED_BY_KEY` or `DISCARDED_BY_KEY` by any thread of
//! the process, after which nothing is reserved any more. `len` of the slot's head counts bytes that are written.
//! Once all that is reserved is written, `COMMITTED_BY_KEY` → `FREE` by the consumer, `DISCARDED_BY_KEY` → `FREE` by
//! the thread that sees it first. What a process that is no more has left is freed by the consumer.
//!
//! # The index
//! Buckets of entries. The word of an entry says which slot and which speculation it leads to, and is 0 in a fresh one;
//! key and tag beside it are valid while the word stays the same. An entry leads nowhere as soon as its speculation has
//! ended, and is taken again then: nothing has to be removed. Several entries may lead to one speculation
//! ([`Pool::join`]). An entry that a thread was killed in stays taken; it is one of 2,048.
//!
//! # Who may touch what
//! `reserved-bytes-owned`: bytes that a thread has reserved in a slot are its alone until it has counted them as
//! written.
//!
//! A slot whose bytes are all written, and which is not open, is the consumer's, or is freed. Key and tag of an entry
//! are written by the thread that has put `TAKEN` into its word.
//!
//! # Ordering
//! C. Bytes of records happen before they are counted (`SeqCst`); the consumer, or a thread that frees it, loads that.
//! D. State and count are changed and looked at in one order (`SeqCst`): of a thread that discards and one that counts
//!    its bytes, one sees what the other has done.
//! E. Key and tag happen before the entry's word (release); what finds the word loads it with acquire, and once more
//!    behind them.
//! F. A record's time is taken between the load of the state and the compare-and-swap that reserves its bytes: no
//!    record lies behind one with a later time. The counter is read when that load is done: a processor may read it
//!    before, unless it is held up (`Rings::now_after_loads`).
//! G. That a slot is taken happens before the time at which its speculation began (release): what loads that time with
//!    acquire finds the slot taken.
//!
//! # Progress
//! To find, to begin and to end are wait-free: they look at each slot, and at each entry of a bucket, once. An append
//! starts over only when another one has reserved bytes meanwhile. A handler may do all of it in the midst of another.

use super::{COMMITTED, FREE, Head, OPEN, Pool, Refused};
use crate::atomic_writer::copy;
use crate::writer::{Record, Writer};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use mote_layout::record::{self, PREFIX_BYTES};

/// Set in states of slots that go by a key.
const BY_KEY: u64 = 4;
pub(super) const OPEN_BY_KEY: u64 = BY_KEY | OPEN;
pub(super) const COMMITTED_BY_KEY: u64 = BY_KEY | COMMITTED;
pub(super) const DISCARDED_BY_KEY: u64 = BY_KEY | 3;
/// Bits of the state.
pub(super) const STATE_MASK: u64 = 7;
const BYTES_SHIFT: u32 = 8;
const BYTES_MASK: u64 = (1 << 24) - 1;
const NUMBER_SHIFT: u32 = 32;

/// The index: a head, and buckets of entries.
pub(super) const INDEX_BYTES: usize = INDEX_HEAD_BYTES + BUCKETS * WAYS * size_of::<Entry>();
const INDEX_HEAD_BYTES: usize = 64;
const BUCKETS: usize = 256;
const WAYS: usize = 8;
const _: () = assert!(INDEX_BYTES.is_multiple_of(64) && size_of::<Entry>() == 24);

/// Kinds of entries, in the low bits of their words: it is being written; it is the key that the speculation was begun
/// with; it is one that has joined.
const TAKEN: u64 = 1;
const FIRST: u64 = 2;
const JOINED: u64 = 3;
const KIND_MASK: u64 = 3;
const SLOT_SHIFT: u32 = 8;
const SLOT_MASK: u64 = 0xffff;

#[repr(C)]
struct Entry {
    word: AtomicU64,
    value: AtomicU64,
    tag: AtomicU64,
}

/// What a speculation goes by. Two keys are the same when both words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The process, and what kind of value it is.
    tag: u64,
    value: u64,
}

impl Key {
    /// The key with this value, among those of one kind in a process.
    pub const fn new(pid: u32, kind: u32, value: u64) -> Key {
        Key { tag: (pid as u64) << 32 | kind as u64, value }
    }

    fn bucket(self) -> usize {
        // Numbers that follow one another come into different buckets (Fibonacci hashing; Knuth, volume 3, 6.4).
        let mixed = (self.value ^ self.tag.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % BUCKETS
    }
}

/// One speculation: the slot and its number, which no other one has until 2^32 have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speculation {
    /// The slot.
    pub slot: u32,
    /// The number.
    pub number: u32,
}

impl Speculation {
    fn open(self, bytes: u64) -> u64 {
        OPEN_BY_KEY | bytes << BYTES_SHIFT | u64::from(self.number) << NUMBER_SHIFT
    }

    fn entry(self, kind: u64) -> u64 {
        kind | u64::from(self.slot) << SLOT_SHIFT | u64::from(self.number) << NUMBER_SHIFT
    }

    fn of_entry(word: u64) -> Speculation {
        Speculation { slot: (word >> SLOT_SHIFT & SLOT_MASK) as u32, number: (word >> NUMBER_SHIFT) as u32 }
    }

    /// Whether the state of its slot says that it is open.
    fn is_open(self, state: u64) -> bool {
        state & STATE_MASK == OPEN_BY_KEY && state >> NUMBER_SHIFT == u64::from(self.number)
    }
}

/// Bytes that are reserved.
pub(super) const fn reserved(state: u64) -> u64 {
    state >> BYTES_SHIFT & BYTES_MASK
}

/// Whether all that is reserved is written.
pub(super) fn is_written(head: &Head, state: u64) -> bool {
    // More than is reserved is counted only by a child of fork that went on with its parent's append.
    head.len.load(Ordering::SeqCst) >= reserved(state)
}

impl Pool<'_> {
    /// Opens a speculation for a key; `None` when all slots are taken, or the index has no room for the key. One of the
    /// same key that is open is to be ended before.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub fn begin_by(&self, key: Key, now_ns: u64) -> Option<Speculation> {
        // 0 is no number: an entry's word is never that of a fresh one.
        let number = match self.numbers()?.fetch_add(1, Ordering::Relaxed) as u32 {
            0 => self.numbers()?.fetch_add(1, Ordering::Relaxed) as u32,
            number => number,
        };
        let slots = self.sizes().slots;
        let taken = (0..slots).map(|step| number.wrapping_add(step) % slots).find_map(|slot| {
            let (head, speculation) = (self.slot(slot)?, Speculation { slot, number });
            // Acquire (B): what was in the slot has been taken out.
            let open = speculation.open(0);
            let taken = head.state.compare_exchange(FREE, open, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok().then_some((head, speculation))
        });
        let (head, speculation) = taken?;
        head.pid.store((key.tag >> 32) as u32, Ordering::Relaxed);
        // Release (G).
        head.began.store(now_ns, Ordering::Release);
        head.len.store(0, Ordering::Relaxed);
        head.busy.store(0, Ordering::Relaxed);
        if self.enter(key, speculation, FIRST) {
            return Some(speculation);
        }
        // No entry leads to it: it is still ours, unless the consumer has taken its process for dead.
        let _ = head.state.compare_exchange(speculation.open(0), FREE, Ordering::Release, Ordering::Relaxed);
        None
    }

    /// The open speculation of a key.
    pub fn find(&self, key: Key) -> Option<Speculation> {
        self.entries(key).find_map(|entry| {
            let word = self.leads(entry, key)?;
            Some(Speculation::of_entry(word))
        })
    }

    /// The open speculation in a slot.
    pub fn open_in(&self, slot: u32) -> Option<Speculation> {
        let state = self.slot(slot)?.state.load(Ordering::Relaxed);
        let speculation = Speculation { slot, number: (state >> NUMBER_SHIFT) as u32 };
        speculation.is_open(state).then_some(speculation)
    }

    /// Lets one more key lead to an open speculation. False when the index has no room for it.
    pub fn join(&self, key: Key, speculation: Speculation) -> bool {
        self.enter(key, speculation, JOINED)
    }

    /// Lets a key that has joined lead nowhere. The key that a speculation was begun with stays.
    pub fn leave(&self, key: Key) {
        for entry in self.entries(key) {
            if let Some(word) = self.leads(entry, key).filter(|word| word & KIND_MASK == JOINED) {
                // The entry is one of the same key still, or was taken again: then the word is another one.
                let _ = entry.word.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// When a speculation began, in nanoseconds of `CLOCK_MONOTONIC`; `None` when it has ended.
    pub fn began_by(&self, speculation: Speculation) -> Option<u64> {
        let head = self.slot(speculation.slot)?;
        // Acquire (G).
        let began = head.began.load(Ordering::Acquire);
        speculation.is_open(head.state.load(Ordering::Relaxed)).then_some(began)
    }

    /// Appends a record with the time of now, by the clock of `channel`.
    ///
    /// # Errors
    /// [`Refused`], but never `Busy`; nothing is appended then.
    ///
    /// # Safety
    /// The payload's bytes must be readable.
    ///
    /// # Signal safety
    /// Callable from a handler, also from one that has interrupted an append.
    pub unsafe fn append_by(
        &self,
        speculation: Speculation,
        channel: &Writer,
        record: &Record<'_>,
    ) -> Result<(), Refused> {
        let head = self.slot(speculation.slot).ok_or(Refused::NotOpen)?;
        let total = PREFIX_BYTES + record.payload.len();
        let mut state = head.state.load(Ordering::SeqCst);
        let now = loop {
            if !speculation.is_open(state) {
                return Err(Refused::NotOpen);
            }
            let end = reserved(state) + total as u64;
            if end > self.room() as u64 {
                return Err(Refused::Full);
            }
            // F.
            let now = channel.rings().now_after_loads().ok_or(Refused::NoClock)?;
            let next = speculation.open(end);
            match head.state.compare_exchange(state, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break now,
                Err(found) => state = found,
            }
        };
        let at = reserved(state) as usize;
        let header = record::header(now, record.tag);
        // SAFETY: `at + total` is at most the slot's room; `reserved-bytes-owned` makes the bytes this thread's.
        unsafe { copy(self.data(speculation.slot).wrapping_add(at), header, record) };
        // C, D.
        head.len.fetch_add(total as u64, Ordering::SeqCst);
        self.free_discarded(head, speculation);
        Ok(())
    }

    /// Hands the records of a key to the consumer. False when none is open.
    pub fn commit_by(&self, key: Key) -> bool {
        self.end_by(key, COMMITTED_BY_KEY)
    }

    /// Forgets the records of a key. False when none is open.
    pub fn discard_by(&self, key: Key) -> bool {
        self.end_by(key, DISCARDED_BY_KEY)
    }

    /// Ends all speculations of a key: two threads that have begun one at the same time have two.
    fn end_by(&self, key: Key, how: u64) -> bool {
        let mut ended = false;
        for entry in self.entries(key) {
            if let Some(word) = self.leads(entry, key) {
                ended |= self.end_one(Speculation::of_entry(word), how);
            }
        }
        ended
    }

    fn end_one(&self, speculation: Speculation, how: u64) -> bool {
        let Some(head) = self.slot(speculation.slot) else { return false };
        let mut state = head.state.load(Ordering::SeqCst);
        while speculation.is_open(state) {
            let ended = state & !STATE_MASK | how;
            match head.state.compare_exchange(state, ended, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    self.free_discarded(head, speculation);
                    return true;
                }
                Err(found) => state = found,
            }
        }
        false
    }

    /// Frees the slot if it is discarded and all that was reserved is written (D).
    fn free_discarded(&self, head: &Head, speculation: Speculation) {
        let state = head.state.load(Ordering::SeqCst);
        let is_it = state >> NUMBER_SHIFT == u64::from(speculation.number);
        if state & STATE_MASK == DISCARDED_BY_KEY && is_it && is_written(head, state) {
            let _ = head.state.compare_exchange(state, FREE, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// The word of an entry that has this key and leads to an open speculation.
    fn leads(&self, entry: &Entry, key: Key) -> Option<u64> {
        // Acquire (E).
        let word = entry.word.load(Ordering::Acquire);
        if !matches!(word & KIND_MASK, FIRST | JOINED) {
            return None;
        }
        let found =
            Key { tag: entry.tag.load(Ordering::Relaxed), value: entry.value.load(Ordering::Relaxed) };
        // E: what was read belongs to the word if it is there still.
        fence(Ordering::Acquire);
        let is_same = found == key && entry.word.load(Ordering::Relaxed) == word;
        (is_same && self.is_open(Speculation::of_entry(word))).then_some(word)
    }

    fn is_open(&self, speculation: Speculation) -> bool {
        let head = self.slot(speculation.slot);
        head.is_some_and(|head| speculation.is_open(head.state.load(Ordering::Acquire)))
    }

    /// Puts a key into the index.
    fn enter(&self, key: Key, speculation: Speculation, kind: u64) -> bool {
        self.entries(key).any(|entry| {
            let word = entry.word.load(Ordering::Acquire);
            let is_used = match word & KIND_MASK {
                0 => false,
                TAKEN => true,
                _ => self.is_open(Speculation::of_entry(word)),
            };
            let taken = speculation.entry(TAKEN);
            if is_used
                || entry.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).is_err()
            {
                return false;
            }
            // E, for a thread that has read the old word: it is gone before key and tag change.
            fence(Ordering::Release);
            entry.value.store(key.value, Ordering::Relaxed);
            entry.tag.store(key.tag, Ordering::Relaxed);
            // Release (E).
            entry.word.store(speculation.entry(kind), Ordering::Release);
            true
        })
    }

    /// The entries of a key's bucket; none in a pool without slots.
    fn entries(&self, key: Key) -> impl Iterator<Item = &Entry> {
        let ways = if self.sizes().slots == 0 { 0 } else { WAYS };
        let bucket = self.index().wrapping_add(INDEX_HEAD_BYTES + key.bucket() * WAYS * size_of::<Entry>());
        (0..ways).map(move |way| {
            let at = bucket.wrapping_add(way * size_of::<Entry>());
            // SAFETY: the bucket is below `BUCKETS`, so that the entry is inside of the index, which is inside of the
            // mapping (`Pool::of`), and aligned as its words ask; the type consists of atomics only.
            unsafe { &*at.cast::<Entry>() }
        })
    }

    /// How many speculations have begun; `None` in a pool without slots.
    fn numbers(&self) -> Option<&AtomicU64> {
        if self.sizes().slots == 0 {
            return None;
        }
        // SAFETY: the index's head is inside of the mapping (`Pool::of`), and aligned.
        Some(unsafe { &*self.index().cast::<AtomicU64>() })
    }

    /// Where the index begins: behind the slots.
    fn index(&self) -> *mut u8 {
        self.base.wrapping_add(self.sizes.slots as usize * self.sizes.slot_bytes as usize)
    }
}
