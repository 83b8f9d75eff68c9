//! The default writer: one record is one restartable sequence.
//!
//! # Protocol
//! The sequence takes the channel's rings as they are now, reads the CPU's number, takes that CPU's ring, loads `pos`,
//! checks that the record ends inside the sub-buffer, reads the time, writes prefix and payload behind `pos`, and
//! stores the new `pos`. That last store is the commit. Preemption, migration or a signal before it sends the thread to
//! the abort handler, which starts over; what was written is behind `pos`, where no thread reads.
//!
//! # What follows
//! - The times in a ring never decrease: an interrupted sequence reads the time again.
//! - A handler that writes a record inside an interrupted one simply goes first.
//! - A thread that is killed anywhere leaves a whole ring: nothing is reserved that is not committed.
//! - Where a full ring has lost something is exact: the sequence that counts a loss sees that the sub-buffer is closed,
//!   and no thread can enter the next one while it lasts.
//!
//! # What the sequences ask of the clock
//! The records of a ring are in the program order of one logical processor, whichever threads they are of: a thread
//! that writes to a ring runs on its CPU, and migration ends the sequence. So only this has to hold: of two readings of
//! the counter by one processor the later one is not less. Why it does without a fence stands with each processor's
//! sequences ([`crate::arch`]).
//!
//! Should a time go back all the same (a host that breaks this, a counter that was written to), it is not believed: the
//! consumer's walk stops at that record, and says that the rest of those bytes is damaged. `mote-bench torture ring`
//! looks for it, with signals and migration.
//!
//! # Progress
//! A sequence restarts only when its own thread was interrupted. It waits for no other thread.

use crate::arch::{count_ring_full, switch, write_fragments, write_words};
use crate::geometry::Clock;
use crate::sequence::{DONE, LATE, Large, NO_CLOCK, NO_RING, NO_ROOM};
use crate::writer::{Fragment, Outcome, Payload, Record, Write, Writer};
use mote_loss::Cause;
use mote_sys::tsc;

/// Writes by restartable sequences; serves threads that the C library has registered.
#[derive(Clone, Copy, Debug)]
pub struct RseqWriter;

/// So often in a row a time is never late, unless another process has written one from the future into the ring.
const LATE_MAX: u32 = 1000;

impl Write for RseqWriter {
    #[inline(always)]
    unsafe fn write(&self, channel: &Writer, record: Record<'_>) -> Outcome {
        if let Payload::Words { from, len } = record.payload
            // SAFETY: the caller's promise.
            && let Some(outcome) = unsafe { try_words(channel, record.tag, record.thread, from, len) }
        {
            return outcome;
        }
        // SAFETY: the caller's promise.
        unsafe { write_slow(channel, record) }
    }
}

/// The first try of a small record; `None` when it must be tried otherwise.
///
/// # Safety
/// As [`Writer::write_words`].
#[inline(always)]
pub(crate) unsafe fn try_words(
    channel: &Writer,
    tag: u16,
    thread: u32,
    from: *const u8,
    len: usize,
) -> Option<Outcome> {
    if channel.clock() != Clock::Tsc as u32 {
        return None;
    }
    // SAFETY: the caller's promise.
    match unsafe { write_words(channel, tag, thread, from, len) } {
        DONE => Some(Outcome::Written),
        NO_RING => Some(Outcome::NotHere),
        _ => None,
    }
}

/// Everything but the first try of a small record: large ones, other clocks, the next sub-buffer.
#[cold]
#[inline(never)]
unsafe fn write_slow(channel: &Writer, record: Record<'_>) -> Outcome {
    let len = record.payload.len();
    if len > channel.rings().payload_max() {
        return channel.rings().count_lost(Cause::TooBig);
    }
    let mut late = 0;
    let mut allowed = None;
    while late < LATE_MAX {
        // SAFETY: the caller's promise, and `len` was checked.
        let ended = match unsafe { write_any(channel, record) } {
            NO_ROOM => match switch(channel, len) {
                DONE => continue,
                // Closed. Should another thread enter the next one before this is counted, there may be room now.
                NO_ROOM => match count_ring_full(channel) {
                    DONE => return Outcome::Lost(Cause::RingFull),
                    NO_ROOM => continue,
                    ended => ended,
                },
                ended => ended,
            },
            ended => ended,
        };
        match ended {
            DONE => return Outcome::Written,
            LATE => late += 1,
            NO_CLOCK if allowed.is_none() && channel.clock() == Clock::Tsc as u32 => {
                allowed = tsc::allow();
                if allowed.is_none() {
                    return channel.rings().count_lost(Cause::NoClock);
                }
            }
            NO_CLOCK => return channel.rings().count_lost(Cause::NoClock),
            _ => return Outcome::NotHere,
        }
    }
    Outcome::NotHere
}

unsafe fn write_any(channel: &Writer, record: Record<'_>) -> u32 {
    let now = match channel.clock() == Clock::Tsc as u32 {
        true => 0,
        false => match channel.now() {
            Some(now) => now,
            None => return NO_CLOCK,
        },
    };
    let one;
    let (list, len) = match record.payload {
        Payload::Words { from, len } if now == 0 => {
            // SAFETY: the caller's promise.
            return unsafe { write_words(channel, record.tag, record.thread, from, len) };
        }
        Payload::Words { from, len } => {
            one = [Fragment { from, len }];
            (one.as_slice(), len)
        }
        Payload::Fragments { list, len } => (list, len),
    };
    let large = Large {
        list: list.as_ptr(),
        end: list.as_ptr_range().end,
        len,
        tag: u64::from(record.tag),
        thread: u64::from(record.thread),
        now,
    };
    // SAFETY: the caller's promise; `large` describes the record's fragments.
    unsafe { write_fragments(channel, &large) }
}
