//! What the restartable sequences of every processor have in common: how they end, and what they read.

use crate::control::Control;
use crate::writer::Fragment;
use core::mem::offset_of;
use mote_loss::Cause;

/// The sequence has committed.
pub(crate) const DONE: u32 = 0;
/// The record does not end inside the sub-buffer; or the ring is full, and the sub-buffer closed.
pub(crate) const NO_ROOM: u32 = 1;
/// The CPU has no ring, or the thread no registration.
pub(crate) const NO_RING: u32 = 2;
/// The time is older than the newest record's (only where the clock is not the time-stamp counter).
pub(crate) const LATE: u32 = 3;
/// The thread may not read the time-stamp counter.
pub(crate) const NO_CLOCK: u32 = 4;

/// A record of fragments, as the assembly reads it.
#[repr(C)]
pub(crate) struct Large {
    pub(crate) list: *const Fragment,
    pub(crate) end: *const Fragment,
    pub(crate) len: usize,
    pub(crate) tag: u64,
    pub(crate) thread: u64,
    /// The time; 0 where the clock is the time-stamp counter, which the sequence reads itself.
    pub(crate) now: u64,
}

/// Where events are counted that a full ring could not take: an offset in [`Control`].
pub(crate) const LOST: usize = offset_of!(Control, lost) + 8 * Cause::RingFull as usize;
