//! What the calling thread keeps aside until a filter commits or discards it; [`by_key`] is for what all threads keep.
//!
//! # State
//! The thread's word of the session ([`word`]): 0: it does not speculate there. Else which
//! session that was, as far as [`STAMP_BITS`] bits of `Channel::joined` say (a word that a former session of this
//! number has left means nothing), above: number of its slot of the pool, plus one; or, with [`NO_ROOM`], the time
//! since which it speculates without a slot: its records are lost, and counted.
//!
//! All but the words is looked at inside of read sections.
//!
//! # Signal safety
//! A handler speculates for the thread that it interrupts. A record that it makes in the middle of another one that is
//! being kept aside goes to the ring.

use crate::channel::{self, Channel};
use crate::shared;
use core::sync::atomic::Ordering;
use mote_loss::Cause;
use mote_ring::Record;
use mote_ring::speculation::{Pool, Refused};
use mote_sys::tsc;
use mote_wire::SESSIONS_MAX;

pub(crate) mod by_key;
mod word;

/// Set in a thread's word when it has no slot; the time, in units of [`UNIT_SHIFT`], is below.
const NO_ROOM: u64 = 1 << 63;
/// Bits of the session's stamp, and where they are.
const STAMP_BITS: u32 = 15;
const STAMP_SHIFT: u32 = 48;
/// A time is in units of two to this many nanoseconds, so that it takes 48 bits.
const UNIT_SHIFT: u32 = 10;

/// A thread's slot.
struct Slot {
    pool: Pool<'static>,
    number: u32,
    tid: u32,
}

enum Kept {
    Nothing,
    Slot(Slot),
    NoRoom { since_ns: u64 },
}

fn stamp(channel: &Channel) -> u64 {
    u64::from(channel.joined) & ((1 << STAMP_BITS) - 1)
}

fn kept(channel: &Channel) -> Kept {
    let word = word::get(channel.session);
    let (stamped, rest) = (word >> STAMP_SHIFT & ((1 << STAMP_BITS) - 1), word & ((1 << STAMP_SHIFT) - 1));
    if word == 0 || stamped != stamp(channel) {
        return Kept::Nothing;
    }
    if word & NO_ROOM != 0 {
        return Kept::NoRoom { since_ns: rest << UNIT_SHIFT };
    }
    match (rest.checked_sub(1), shared::pool(channel.session)) {
        (Some(number), Some(pool)) => {
            Kept::Slot(Slot { pool, number: number as u32, tid: channel::this_thread() })
        }
        _ => Kept::Nothing,
    }
}

/// Keeps a record aside if the calling thread speculates, else writes it to the channel. In a read section.
///
/// # Safety
/// The record's bytes must be readable: for `Words` up to the end of the last 8-byte word.
///
/// # Signal safety
/// Callable from a handler.
pub(crate) unsafe fn write(channel: &Channel, record: Record<'_>) {
    let writer = &channel.writer;
    match kept(channel) {
        Kept::Nothing => {}
        Kept::NoRoom { .. } => return writer.lose(Cause::NoSpeculation),
        Kept::Slot(slot) => {
            let mut appended = Ok(());
            channel.with_stack(record, &mut |record| {
                // SAFETY: the caller's promise; a stack is readable as far as it is copied.
                appended = unsafe { slot.pool.append(slot.number, writer, &record) };
            });
            match appended {
                Ok(()) => return,
                Err(Refused::Full) => return writer.lose(Cause::SpeculationFull),
                Err(Refused::NoClock) => return writer.lose(Cause::NoClock),
                Err(Refused::Busy) => {}
                // The consumer took the thread for dead.
                Err(Refused::NotOpen) => word::set(channel.session, 0),
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { channel.write(record) };
}

/// Begins to keep the thread's records aside; what it has kept before is forgotten. False when there is no room.
pub(crate) fn begin(session: usize) -> bool {
    let Some(channel) = channel::of(session) else { return false };
    if !discard(session) && !matches!(kept(channel), Kept::Nothing) {
        return false;
    }
    // A thread without a clock speculates from the beginning of time; its events are lost all the same.
    let now = tsc::monotonic().unwrap_or(0);
    let tid = channel::this_thread();
    let pid = channel::PID.load(Ordering::Relaxed);
    let slot = shared::pool(session).and_then(|pool| pool.begin(tid, pid, now));
    let time = now >> UNIT_SHIFT & ((1 << STAMP_SHIFT) - 1);
    let word = slot.map_or(NO_ROOM | time, |slot| u64::from(slot) + 1);
    word::set(session, word | stamp(channel) << STAMP_SHIFT);
    slot.is_some()
}

/// Hands the thread's records to the session. True when it speculated.
pub(crate) fn commit(session: usize) -> bool {
    end(session, |slot| slot.pool.commit(slot.number, slot.tid))
}

/// Forgets the thread's records. True when it speculated.
pub(crate) fn discard(session: usize) -> bool {
    end(session, |slot| slot.pool.discard(slot.number, slot.tid))
}

fn end(session: usize, how: impl FnOnce(&Slot) -> bool) -> bool {
    let Some(channel) = channel::of(session) else { return false };
    match kept(channel) {
        Kept::Nothing => return false,
        // A handler cannot end what it has interrupted.
        Kept::Slot(slot) if slot.pool.is_busy(slot.number) => return false,
        Kept::Slot(slot) => {
            // In this order: a handler finds either an open slot or none.
            word::set(session, 0);
            // It is not ours any more if the consumer took the thread for dead.
            let _ = how(&slot);
        }
        Kept::NoRoom { .. } => word::set(session, 0),
    }
    true
}

/// Nanoseconds since the thread began to speculate; `None` when it does not.
pub(crate) fn elapsed(session: usize) -> Option<u64> {
    let since = match kept(channel::of(session)?) {
        Kept::Nothing => return None,
        Kept::NoRoom { since_ns } => since_ns,
        Kept::Slot(slot) => slot.pool.began(slot.number, slot.tid)?,
    };
    Some(tsc::monotonic()?.saturating_sub(since))
}

/// A child of fork begins without: what its parent has kept aside is its parent's.
pub(crate) fn forget() {
    (0..SESSIONS_MAX).for_each(|session| word::set(session, 0));
}
