//! The shortest way of a small record into its ring.
//!
//! A [`Direct`] is one word: where to write, and the tag. That there is one says all that would otherwise be looked at
//! for every record: restartable sequences can be used, and the clock is the time-stamp counter. Neither changes while
//! a process lives. What may change, the rings, is loaded by each sequence when it begins.

use crate::arch;
use crate::geometry::Clock;
use crate::timing::{Moment, Timing};
use crate::writer::{Outcome, Writer};
use core::num::NonZeroU64;
use core::sync::atomic::Ordering;
use mote_sync::{rseq, thread};

/// Bits of a tag; the rest of a word has the address of a writer.
pub(crate) const TAG_BITS: u32 = 16;

/// How the two words lie in a record that [`Direct::write_two`] writes.
pub trait Shape {
    /// Bytes of the fields, at most 16.
    const LEN: usize;
    /// Where the second word begins, at most 8; what the first one has from there on does not count.
    const SECOND_AT: usize;
}

/// How many pieces a record has that [`Direct::write_pieces`] writes.
pub trait Row {
    /// Their number.
    const COUNT: usize;
}

/// A field of at most 8 bytes, ready to be stored as a whole word.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes; zeros above.
    pub value: u64,
    /// How many there are, at most 8.
    pub len: u64,
}

/// What can be written to a way, whatever its time.
pub trait WriteTo {
    /// Writes the record. False as with [`Direct::write_none`].
    fn write_to<T: Timing>(&self, to: Direct, timing: T) -> bool;
}

/// Where small records go, with their tag: a writer whose records can be written without a further look at it.
///
/// # Invariants
/// `direct-writer-lives`: the address in the word is that of a `Writer` that lives as long as the process, whose clock
/// is the time-stamp counter, in a process whose C library registers restartable sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Direct(NonZeroU64);

impl Direct {
    /// The way to `writer` for records with this tag; `None` where records need a look at how they are written.
    pub fn to(writer: &'static Writer, tag: u16) -> Option<Direct> {
        let address = (&raw const *writer).expose_provenance() as u64;
        let fits = address >> (u64::BITS - TAG_BITS) == 0;
        let is_ready = writer.clock() == Clock::Tsc as u32 && rseq::is_found();
        NonZeroU64::new(address << TAG_BITS | u64::from(tag)).filter(|_| fits && is_ready).map(Direct)
    }

    /// As a number that is not 0.
    pub fn word(self) -> u64 {
        self.0.get()
    }

    /// What [`Direct::word`] was made of; `None` for 0.
    ///
    /// # Safety
    /// The word is 0, or of a `Direct` of this process.
    #[inline(always)]
    pub unsafe fn of(word: u64) -> Option<Direct> {
        NonZeroU64::new(word).map(Direct)
    }

    /// As [`Direct::of`], of a word that is not 0.
    ///
    /// # Safety
    /// As [`Direct::of`], and the word is not 0.
    #[inline(always)]
    pub unsafe fn of_some(word: u64) -> Direct {
        // SAFETY: the caller's promise.
        Direct(unsafe { NonZeroU64::new_unchecked(word) })
    }

    /// The writer and the tag.
    pub fn parts(self) -> (&'static Writer, u16) {
        let writer: *const Writer = core::ptr::with_exposed_provenance((self.word() >> TAG_BITS) as usize);
        // SAFETY: `direct-writer-lives`.
        (unsafe { &*writer }, self.word() as u16)
    }

    /// How far the ring has come that a record would go to now.
    #[inline(always)]
    pub fn look(self) -> Moment {
        let (writer, _) = self.parts();
        let rings = writer.rings();
        let ring = rings.ring(rseq::cpu_hint().unwrap_or(0));
        // SAFETY: `ring-never-unmapped`.
        let pos = unsafe { ring.control() }.pos.load(Ordering::Acquire);
        Moment::new(ring.control, pos)
    }

    /// Writes a record without fields. False when nothing was written: [`Direct::write_otherwise`] does it then, once
    /// the thread has an id.
    ///
    /// # Signal safety
    /// Callable from a handler.
    ///
    /// # Cost
    /// Bench `event_cost`, case `none/rseq`.
    #[inline(always)]
    pub fn write_none(self, timing: impl Timing) -> bool {
        // SAFETY: `direct-writer-lives`.
        unsafe { arch::direct_none(self.word(), timing) }
    }

    /// Writes a record of the fields that are in `first` and `second`. False as with [`Direct::write_none`].
    ///
    /// # Signal safety
    /// Callable from a handler.
    ///
    /// # Cost
    /// Bench `event_cost`, case `two_ints/rseq`.
    #[inline(always)]
    pub fn write_two<S: Shape>(self, timing: impl Timing, first: u64, second: u64) -> bool {
        // SAFETY: `direct-writer-lives`.
        unsafe { arch::direct_two::<S, _>(self.word(), timing, first, second) }
    }

    /// Writes a record of one number of 8 bytes: for how long something has lasted that began at `began` on the
    /// time-stamp counter, `tick` being a tick's nanoseconds, in units of 2^-32. The record's own time is the end.
    /// False as with [`Direct::write_none`].
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn write_elapsed(self, began: u64, tick: u64) -> bool {
        // SAFETY: `direct-writer-lives`.
        unsafe { arch::direct_elapsed(self.word(), began, tick) }
    }

    /// Writes a record of the first `len` bytes of `first` and then `second`. False as with [`Direct::write_none`].
    ///
    /// # Safety
    /// `len` is at most 16.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub unsafe fn write_packed(self, first: u64, second: u64, len: usize) -> bool {
        // SAFETY: `direct-writer-lives`, and the caller's promise.
        unsafe { arch::direct_packed(self.word(), first, second, len) }
    }

    /// Writes a record of `len` bytes at `from`. False as with [`Direct::write_none`].
    ///
    /// # Safety
    /// The bytes must be readable up to the end of the last 8-byte word.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub unsafe fn write_words(self, from: *const u8, len: usize) -> bool {
        // SAFETY: `direct-writer-lives`, and the caller's promise.
        unsafe { arch::direct_words(self.word(), from, len) }
    }

    /// Writes a record of `R::COUNT` pieces at `from`. False as with [`Direct::write_none`], and where there would be
    /// no room for pieces of 8 bytes.
    ///
    /// # Safety
    /// The pieces must be readable, of 8 bytes at most each.
    ///
    /// # Signal safety
    /// Callable from a handler.
    ///
    /// # Cost
    /// Bench `event_cost`, case `nine_strings/rseq`.
    #[inline(always)]
    pub unsafe fn write_pieces<R: Row>(self, timing: impl Timing, from: *const Piece) -> bool {
        // SAFETY: `direct-writer-lives`, and the caller's promise.
        unsafe { arch::direct_pieces::<R, _>(self.word(), timing, from) }
    }

    /// Writes a record by the general way.
    ///
    /// # Safety
    /// As [`Direct::write_words`].
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub unsafe fn write_otherwise(self, from: *const u8, len: usize) -> Outcome {
        let (writer, tag) = self.parts();
        // SAFETY: the caller's promise.
        unsafe { writer.write_words(tag, thread::id(), from, len) }
    }
}
