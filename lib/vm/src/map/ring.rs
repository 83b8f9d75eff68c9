//! The ring buffer: records of any length, many writers, one reader.
//!
//! # Parties
//! Writers: threads of any number of processes. Reader: one, elsewhere. Any of them may be killed at any instruction or
//! write nonsense; no thread believes a length or a position that does not fit.
//!
//! # Memory
//! `PRODUCED` and `CONSUMED` in the header count bytes, ever. A record begins at a multiple of 8 with a header word; it
//! never goes round the end: what is left there becomes a record that is discarded.
//!
//! # State word
//! The record's header. Bits 0..32: its bytes. Bit 63 `BUSY`: its writer, the thread of bits 32..62, is at it. Bit 62
//! `DISCARDED`: it is skipped. Before it is claimed, the header of position `p` is [`untouched`]`(p)`: another one in
//! each round, so that a writer that slept for a round claims nothing.
//!
//! # Transitions
//! untouched → `BUSY` (`claim`, by exchange; only then `PRODUCED` moves over the record, and any thread that finds it
//! claimed moves it) → finished or `DISCARDED` (its writer; or the reader, when it knows that the writer is gone) →
//! untouched of the next round (reader, all words of the record, before it moves `CONSUMED`).
//!
//! # Ordering
//! A. A record's bytes happen before its header is finished (release), and that before the reader copies them
//!    (acquire).
//! B. Words are untouched before `CONSUMED` moves over them (release); a writer looks at a header after that (acquire).
//!
//! # Progress
//! Writers are lock-free: a killed one leaves a claimed header, over which the others move `PRODUCED`. They give up
//! after [`TRIES_MAX`] lost exchanges. The reader waits for a record that is `BUSY`, until its user says that no thread
//! will finish it. Room that a dead writer holds is lost until then.

use super::hash::TRIES_MAX;
use super::memory::Memory;
use super::place::{CONSUMED, HEADER, PRODUCED};

const BUSY: u64 = 1 << 63;
const DISCARDED: u64 = 1 << 62;
const LEN: u64 = u32::MAX as u64;
/// Bytes of a record's header.
const HEAD: u64 = 8;

/// A ring buffer in its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<M> {
    pub(crate) memory: M,
    /// A power of two.
    pub(crate) bytes: u64,
}

/// What lies at the reader's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A record: the word where its bytes begin, and how many there are.
    Record(usize, u32),
    /// Nothing yet.
    Empty,
    /// A record that this thread has not finished.
    Busy(u32),
    /// Positions or lengths that no writer of ours makes.
    Damaged,
}

impl<M: Memory> Ring<M> {
    fn header(&self, position: u64) -> usize {
        HEADER + (position & (self.bytes - 1)) as usize / 8
    }

    fn untouched(&self, position: u64) -> u64 {
        if position < self.bytes { 0 } else { position & !7 }
    }

    /// Reserves a record; `None` when there is no room. The word where its bytes begin.
    pub(crate) fn reserve(&self, len: u32, thread: u32) -> Option<usize> {
        let need = HEAD + u64::from(len).next_multiple_of(8);
        if need > self.bytes {
            return None;
        }
        let claimed = BUSY | u64::from(thread & 0x3fff_ffff) << 32 | u64::from(len);
        for _ in 0..TRIES_MAX {
            let position = self.memory.load(PRODUCED);
            let rest = self.bytes - (position & (self.bytes - 1) & !7);
            let (header, size) =
                if need <= rest { (claimed, need) } else { (DISCARDED | (rest - HEAD), rest) };
            let taken = position.wrapping_sub(self.memory.load(CONSUMED));
            if self.memory.load(PRODUCED) != position {
                // The reader may be past this position already.
                continue;
            }
            if taken >= self.bytes {
                return None;
            }
            let at = self.header(position);
            let was = self.memory.load(at);
            if was != self.untouched(position) {
                self.advance(position, was);
                continue;
            }
            if taken + size > self.bytes {
                return None;
            }
            if self.memory.swap_if(at, was, header) {
                self.advance(position, header);
                if size == need && header == claimed {
                    return Some(at + 1);
                }
            }
        }
        None
    }

    /// Moves `PRODUCED` over the claimed record at `position`; nothing, if another thread did.
    fn advance(&self, position: u64, header: u64) {
        let size = HEAD + (header & LEN).next_multiple_of(8);
        let _ = self.memory.swap_if(PRODUCED, position, position.wrapping_add(size));
    }

    /// What the reader finds at `position`, its own.
    pub(crate) fn look(&self, position: u64) -> Look {
        let at = self.header(position);
        if self.memory.load(PRODUCED) == position {
            let header = self.memory.load(at);
            if header == self.untouched(position) {
                return Look::Empty;
            }
            self.advance(position, header);
        }
        let produced = self.memory.load(PRODUCED).wrapping_sub(position);
        let header = self.memory.load(at);
        let size = HEAD + (header & LEN).next_multiple_of(8);
        let rest = self.bytes - (position & (self.bytes - 1));
        if produced > self.bytes || size > produced || size > rest {
            return Look::Damaged;
        }
        if header & BUSY != 0 {
            return Look::Busy((header >> 32) as u32 & 0x3fff_ffff);
        }
        Look::Record(at + 1, (header & LEN) as u32)
    }

    /// Whether the record at `position` is to be skipped.
    pub(crate) fn is_discarded(&self, position: u64) -> bool {
        self.memory.load(self.header(position)) & DISCARDED != 0
    }

    /// The reader is done with a record of `len` bytes at `position`; the next position.
    pub(crate) fn release(&self, position: u64, len: u32) -> u64 {
        let size = HEAD + u64::from(len).next_multiple_of(8);
        let next = position.wrapping_add(size);
        for offset in (0..size).step_by(8) {
            let word = position.wrapping_add(offset);
            self.memory.put(self.header(word), self.untouched(word.wrapping_add(self.bytes)));
        }
        self.memory.publish(CONSUMED, next);
        next
    }

    /// Makes the unfinished record at `position` a discarded one.
    pub(crate) fn abandon(&self, position: u64) {
        let at = self.header(position);
        let header = self.memory.load(at);
        if header & BUSY != 0 {
            let _ = self.memory.swap_if(at, header, finished(header, true));
        }
    }

    /// Where the reader before left off.
    pub(crate) fn consumed(&self) -> u64 {
        self.memory.load(CONSUMED) & !7
    }
}

/// The header of a finished record, of what it was; the same, when it was not a writer's.
pub(crate) fn finished(header: u64, discard: bool) -> u64 {
    if header & BUSY == 0 {
        return header;
    }
    header & LEN | if discard { DISCARDED } else { 0 }
}
