//! What the process keeps aside by keys (`mote_ring::speculation::keyed`): of tasks that go from thread to thread.
//!
//! No thread has state of its own for this. A program looks up the key of an event that is recorded, and the
//! speculation that it finds is in its verdict: what a signal handler records before the event is written changes
//! nothing about that. One that has ended by then was too late for the event, which goes where it would have gone
//! without a key.
//!
//! All of this is to be called inside of read sections.

use crate::channel::{self, Channel};
use crate::shared;
use core::sync::atomic::Ordering;
use mote_layout::context::KEPT;
use mote_layout::tracer::{KINDS_MAX, SPECULATION_JOIN, SPECULATION_LEAVE};
use mote_loss::Cause;
use mote_ring::Record;
use mote_ring::speculation::keyed::{Key, Speculation};
use mote_ring::speculation::{Pool, Refused};
use mote_sys::tsc;
use mote_wire::filter_counters;

const SLOT_SHIFT: u32 = 8;
const SLOT_MASK: u64 = 0xff;
const NUMBER_SHIFT: u32 = 16;

/// Bits of a note: slot and lowest bits of the number, 7 each.
pub(crate) const NOTE_BITS: u32 = 14;
const NOTE_MASK: u64 = (1 << 7) - 1;
/// Set in a verdict whose number is that of a note: its lowest 7 bits.
const FROM_NOTE: u64 = 1 << 48;

/// The pool, and a key of this process.
fn keyed(session: usize, kind: u64, value: u64) -> Option<(Pool<'static>, Key)> {
    let kind = u32::try_from(kind).ok().filter(|kind| *kind < KINDS_MAX)?;
    let pid = channel::PID.load(Ordering::Relaxed);
    Some((shared::pool(session)?, Key::new(pid, kind, value)))
}

/// Begins to keep the records of a key aside; what was kept of it before is forgotten. False when there is no room.
#[inline(never)]
pub(crate) fn begin(session: usize, kind: u64, value: u64) -> bool {
    let Some((pool, key)) = keyed(session, kind, value) else { return false };
    pool.discard_by(key);
    let begun = pool.begin_by(key, tsc::monotonic().unwrap_or(0)).is_some();
    if !begun {
        refuse(session);
    }
    begun
}

/// Counts a key whose records are recorded though they were to be kept aside.
pub(crate) fn refuse(session: usize) {
    shared::count(session, filter_counters::KEYS_REFUSED);
}

/// Hands the records of a key to the session. True when there was a speculation.
#[inline(never)]
pub(crate) fn commit(session: usize, kind: u64, value: u64) -> bool {
    keyed(session, kind, value).is_some_and(|(pool, key)| pool.commit_by(key))
}

/// Forgets the records of a key. True when there was a speculation.
#[inline(never)]
pub(crate) fn discard(session: usize, kind: u64, value: u64) -> bool {
    keyed(session, kind, value).is_some_and(|(pool, key)| pool.discard_by(key))
}

/// Nanoseconds since the records of a key are kept aside; `None` when they are not.
#[inline(never)]
pub(crate) fn elapsed(session: usize, kind: u64, value: u64) -> Option<u64> {
    let (pool, key) = keyed(session, kind, value)?;
    let began = pool.began_by(pool.find(key)?)?;
    Some(tsc::monotonic()?.saturating_sub(began))
}

/// The verdict for an event of a key; 0 when its records are not kept aside.
#[inline(never)]
pub(crate) fn verdict(session: usize, kind: u64, value: u64, how: u64, parent: u64) -> u64 {
    let Some((pool, key)) = keyed(session, kind, value) else { return 0 };
    let found = match pool.find(key) {
        None if how == u64::from(SPECULATION_JOIN) => join(session, &pool, kind, key, parent),
        found => found,
    };
    if how == u64::from(SPECULATION_LEAVE) && found.is_some() {
        pool.leave(key);
    }
    // Pools are not larger.
    let found = found.filter(|found| u64::from(found.slot) <= NOTE_MASK);
    found.map_or(0, |Speculation { slot, number }| {
        KEPT | u64::from(slot) << SLOT_SHIFT | u64::from(number) << NUMBER_SHIFT
    })
}

/// Lets the key belong to its parent's speculation, if there is one.
fn join(session: usize, pool: &Pool<'_>, kind: u64, key: Key, parent: u64) -> Option<Speculation> {
    let (_, parent) = keyed(session, kind, parent)?;
    let found = pool.find(parent)?;
    if !pool.join(key, found) {
        refuse(session);
    }
    Some(found)
}

/// Keeps a record aside with others of its key, as `verdict` says.
///
/// # Safety
/// The record's bytes must be readable: for `Words` up to the end of the last 8-byte word.
///
/// # Signal safety
/// Callable from a handler.
pub(crate) unsafe fn write(channel: &Channel, record: Record<'_>, verdict: u64) {
    let kept = shared::pool(channel.session).and_then(|pool| Some((pool, speculation(&pool, verdict)?)));
    if let Some((pool, speculation)) = kept {
        let mut appended = Ok(());
        channel.with_stack(record, &mut |record| {
            // SAFETY: the caller's promise; a stack is readable as far as it is copied.
            appended = unsafe { pool.append_by(speculation, &channel.writer, &record) };
        });
        match appended {
            Ok(()) => return,
            Err(Refused::Full) => return channel.writer.lose(Cause::SpeculationFull),
            Err(Refused::NoClock) => return channel.writer.lose(Cause::NoClock),
            // It has ended meanwhile.
            Err(Refused::NotOpen | Refused::Busy) => {}
        }
    }
    // SAFETY: the caller's promise.
    unsafe { super::write(channel, record) }
}

/// The speculation that a verdict means.
fn speculation(pool: &Pool<'_>, verdict: u64) -> Option<Speculation> {
    let slot = (verdict >> SLOT_SHIFT & SLOT_MASK) as u32;
    let number = (verdict >> NUMBER_SHIFT) as u32;
    if verdict & FROM_NOTE == 0 {
        return Some(Speculation { slot, number });
    }
    // As long as the slot was not taken a multiple of 128 speculations later, it is the one that was meant.
    pool.open_in(slot).filter(|open| u64::from(open.number ^ number) & NOTE_MASK == 0)
}

/// The verdict in few bits, for one that has to share a word.
pub(crate) fn note(verdict: u64) -> u64 {
    let (slot, number) = (verdict >> SLOT_SHIFT & NOTE_MASK, verdict >> NUMBER_SHIFT & NOTE_MASK);
    slot << 7 | number
}

/// The verdict of a note.
pub(crate) fn of_note(note: u64) -> u64 {
    let (slot, number) = (note >> 7 & NOTE_MASK, note & NOTE_MASK);
    KEPT | slot << SLOT_SHIFT | number << NUMBER_SHIFT | FROM_NOTE
}
