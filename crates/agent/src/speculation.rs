//! What the calling thread keeps aside until a filter commits or discards it.
//!
//! # State
//! The thread's word (`mote_sync::thread::aside`): 0: it does not speculate; number of its slot of the pool, plus one; or, with
//! [`NO_ROOM`], the time since which it speculates without a slot: its records are lost, and counted.
//!
//! # Signal safety
//! A handler speculates for the thread that it interrupts. A record that it makes in the middle of another one that is being kept
//! aside goes to the ring.

use crate::session;
use crate::shared;
use core::sync::atomic::Ordering;
use mote_layout::Cause;
use mote_ring::speculation::{Pool, Refused};
use mote_ring::{Record, Writer};
use mote_sync::thread;
use mote_sys::time::{ClockId, clock_gettime};

/// Set in a thread's word when it has no slot; the time, in nanoseconds, is below.
const NO_ROOM: u64 = 1 << 63;

/// A thread's slot.
struct Slot {
    pool: Pool<'static>,
    number: u32,
    tid: u32,
}

enum Aside {
    Nothing,
    Slot(Slot),
    NoRoom { since_ns: u64 },
}

fn aside() -> Aside {
    let word = thread::aside();
    if word & NO_ROOM != 0 {
        return Aside::NoRoom { since_ns: word & !NO_ROOM };
    }
    match (word.checked_sub(1), shared::pool()) {
        (Some(number), Some(pool)) => {
            Aside::Slot(Slot { pool, number: number as u32, tid: session::this_thread() })
        }
        _ => Aside::Nothing,
    }
}

/// Keeps a record aside if the calling thread speculates, else writes it to the channel.
///
/// # Safety
/// The record's bytes must be readable: for `Words` up to the end of the last 8-byte word.
///
/// # Signal safety
/// Callable from a handler.
#[cold]
#[inline(never)]
pub unsafe fn write_aside(channel: &Writer, record: Record<'_>) {
    match aside() {
        Aside::Nothing => {}
        Aside::NoRoom { .. } => return channel.lose(Cause::NoSpeculation),
        Aside::Slot(slot) => {
            // SAFETY: the caller's promise.
            match unsafe { slot.pool.append(slot.number, channel, &record) } {
                Ok(()) => return,
                Err(Refused::Full) => return channel.lose(Cause::SpeculationFull),
                Err(Refused::Busy) => {}
                // The consumer took the thread for dead.
                Err(Refused::NotOpen) => thread::set_aside(0),
            }
        }
    }
    // SAFETY: the caller's promise. What became of the record is counted in the ring.
    let _ = unsafe { channel.write(record) };
}

/// Begins to keep the thread's records aside; what it has kept before is forgotten. False when there is no room.
pub(crate) fn begin() -> bool {
    if !discard() && thread::aside() != 0 {
        return false;
    }
    let now = clock_gettime(ClockId::Monotonic);
    let tid = session::this_thread();
    let pid = session::PID.load(Ordering::Relaxed);
    let slot = shared::pool().and_then(|pool| pool.begin(tid, pid, now));
    thread::set_aside(slot.map_or(NO_ROOM | now, |slot| u64::from(slot) + 1));
    slot.is_some()
}

/// Hands the thread's records to the session. True when it speculated.
pub(crate) fn commit() -> bool {
    end(|slot| slot.pool.commit(slot.number, slot.tid))
}

/// Forgets the thread's records. True when it speculated.
pub(crate) fn discard() -> bool {
    end(|slot| slot.pool.discard(slot.number, slot.tid))
}

fn end(how: impl FnOnce(&Slot) -> bool) -> bool {
    match aside() {
        Aside::Nothing => return false,
        // A handler cannot end what it has interrupted.
        Aside::Slot(slot) if slot.pool.is_busy(slot.number) => return false,
        Aside::Slot(slot) => {
            // In this order: a handler finds either an open slot or none.
            thread::set_aside(0);
            // It is not ours any more if the consumer took the thread for dead.
            let _ = how(&slot);
        }
        Aside::NoRoom { .. } => thread::set_aside(0),
    }
    true
}

/// Nanoseconds since the thread began to speculate; `None` when it does not.
pub(crate) fn elapsed() -> Option<u64> {
    let since = match aside() {
        Aside::Nothing => return None,
        Aside::NoRoom { since_ns } => since_ns,
        Aside::Slot(slot) => slot.pool.began(slot.number, slot.tid)?,
    };
    Some(clock_gettime(ClockId::Monotonic).saturating_sub(since))
}

/// A child of fork begins without: what its parent has kept aside is its parent's.
pub(crate) fn forget() {
    thread::set_aside(0);
}
