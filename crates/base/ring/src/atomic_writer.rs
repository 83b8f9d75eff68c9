//! The fallback writer: reserve and commit (Desnoyers 2009, sections 5.4.2 and 5.4.3).
//!
//! # Protocol
//! A writer reserves by compare-and-swap on `pos` (the thesis's write count), with the time read between the load and
//! the swap, in this order also for the CPU, so that times in a ring never decrease. It copies, then adds the bytes to
//! the `commit` count of the sub-buffer. A writer that leaves a sub-buffer commits the padding up to its end too. So a
//! sub-buffer is whole when its commit count has grown by its size (equation 5.2), whichever thread commits last.
//!
//! # Differences from the thesis
//! 1. The commit count carries, above its low 40 bits of bytes, the number of records. When a writer is
//!    killed between reserve and commit, the sub-buffer never becomes whole; the reader then knows how
//!    many good records it has to count as lost.
//! 2. The reader does not swap sub-buffers with a spare one: it copies, and then looks whether a writer
//!    has entered what it copied, as with the rseq writer.
//! 3. Rings belong to no CPU; a thread takes the one that its id selects.
//! 4. A full ring's sub-buffer is closed before anything is counted as lost, and the count is ended before the next one
//!    is entered.
//!
//! # Gaps
//! A writer that finds the ring full closes the sub-buffer `n` (swaps `pos` to its last byte), and leaves it as if it
//! entered the next one. Then it counts: it swaps the counter, which also holds a sub-buffer's number, for one more
//! and the number `n`. A writer that enters `n + 1` first swaps the number for `n + 1`, which ends the count, then
//! notes the count in the slot of `n + 1`, then swaps `pos`. Each of the three may have been done by another writer
//! that was stopped or killed; so a writer that finds the number of a later sub-buffer in the counter has to look at
//! the ring again, and never waits. A slot is noted once a lap: `pos` goes there only when it was, and nothing is
//! counted for `n + 1` before `pos` is there, so a thread that notes it notes the same.
//!
//! # Fork
//! A handler may interrupt a write and fork. The child returns into a copy of the write, and must not commit what its
//! parent commits. So a thread notes that it writes, and a child that was made inside of a write has zeros in the place
//! of the rings that the write knows, and the rings elsewhere ([`Writer::part_from_writes`]).
//!
//! # Progress
//! Lock-free: a compare-and-swap fails only because another succeeded. A writer that stops between
//! reserve and commit keeps its sub-buffer from being read and from being entered again (equation 5.3
//! negated): events are then lost as `Busy` or `RingFull`, and counted.

use crate::control::{Control, Count, Ring, Slot};
use crate::writer::{Outcome, Payload, Record, Rings, Write, Writer};
use crate::writes;
use mote_layout::record::{self, PREFIX_BYTES};
use mote_loss::Cause;
use mote_sync::atomic::{Ordering, fence};
use mote_sys::mem;

/// Writes by compare-and-swap and atomic addition; serves every thread.
#[derive(Clone, Copy, Debug)]
pub struct AtomicWriter;

/// Bits of the commit count that hold bytes; the ones above hold records.
pub const COMMIT_BYTES_BITS: u32 = 40;
/// One record in a commit count.
pub const COMMIT_RECORD: u64 = 1 << COMMIT_BYTES_BITS;
const COMMIT_BYTES_MASK: u64 = COMMIT_RECORD - 1;

/// Reserved bytes of a ring: the thesis's slot.
struct Reserved {
    at: u64,
    time: u64,
}

impl Write for AtomicWriter {
    unsafe fn write(&self, channel: &Writer, record: Record<'_>) -> Outcome {
        // From before the ring is found until nothing of it is touched: for children of handlers that interrupt this.
        let under_way = writes::get();
        writes::set(under_way + 1);
        // SAFETY: the caller's promise.
        let outcome = unsafe { write(channel.rings(), record) };
        writes::set(under_way);
        outcome
    }
}

unsafe fn write(channel: &Rings, record: Record<'_>) -> Outcome {
    let len = record.payload.len();
    if len > channel.payload_max() {
        return channel.count_lost(Cause::TooBig);
    }
    let ring = channel.ring(channel.cpus + record.thread.checked_rem(channel.shared).unwrap_or(0));
    let total = (PREFIX_BYTES + len) as u64;
    let reserved = match reserve(channel, ring, total) {
        Ok(reserved) => reserved,
        Err(cause) => return Outcome::Lost(cause),
    };
    let to = ring.data.wrapping_add((reserved.at & channel.ring_mask) as usize);
    #[cfg(any(loom, shuttle))]
    crate::model::written(ring.data, reserved.at & channel.ring_mask, total as usize);
    // SAFETY: `reserve` made `total` bytes at `to` this writer's alone, inside one sub-buffer.
    unsafe { copy(to, record::header(reserved.time, record.tag), &record) };
    let slot = slot_of(channel, ring, reserved.at);
    // Release (A): the bytes happen before the count that covers them.
    slot.commit.fetch_add(total + COMMIT_RECORD, Ordering::Release);
    Outcome::Written
}

/// Reserves `total` bytes, entering the next sub-buffer where needed (algorithms 5.1 and 5.2). Counts the record as
/// lost where that may not be.
fn reserve(channel: &Rings, ring: Ring, total: u64) -> Result<Reserved, Cause> {
    // SAFETY: `ring-never-unmapped`.
    let control = unsafe { ring.control() };
    let mut pos = control.pos.load(Ordering::Relaxed);
    loop {
        let fits = (pos & channel.sub_mask) + total < channel.sub_mask;
        let at = if fits { pos } else { (pos | channel.sub_mask).wrapping_add(1) };
        if !fits && let Err(cause) = may_enter(channel, ring, at) {
            if refuse(channel, ring, pos, cause) {
                return Err(cause);
            }
            pos = control.pos.load(Ordering::Relaxed);
            continue;
        }
        let Some(time) = channel.now_after_loads() else {
            count(control, Cause::NoClock);
            return Err(Cause::NoClock);
        };
        // AcqRel: the winner that enters a sub-buffer sees what was committed to it and read from it
        // (C), and others see this reservation.
        match control.pos.compare_exchange(pos, at.wrapping_add(total), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                if !fits {
                    // Release (D): a flight recorder's reader that sees a byte of this lap sees that `pos` has come
                    // around; pairs with `lapped`. No instruction on x86.
                    fence(Ordering::Release);
                    if !is_closed(channel, pos) {
                        leave(channel, ring, pos, time);
                    }
                }
                return Ok(Reserved { at, time });
            }
            Err(now) => pos = now,
        }
    }
}

/// Whether the sub-buffer that begins at `at` may be entered. A refusal is true only if `pos` is still before `at`.
fn may_enter(channel: &Rings, ring: Ring, at: u64) -> Result<(), Cause> {
    // SAFETY: `ring-never-unmapped`.
    let control = unsafe { ring.control() };
    if !channel.overwrites() && is_full(channel, control, at) {
        return Err(Cause::RingFull);
    }
    // Negation of equation 5.3: a thread has not committed what it reserved there a whole lap ago.
    let before = (at >> (channel.ring_mask.trailing_ones())) << channel.sub_bits;
    let slot = slot_of(channel, ring, at);
    let base = slot.base.load(Ordering::Relaxed);
    let commit = slot.commit.load(Ordering::Acquire);
    if commit & COMMIT_BYTES_MASK != before & COMMIT_BYTES_MASK {
        return Err(Cause::Busy);
    }
    // Noted before `pos` moves, so that it holds even when this thread is killed next. A thread that was
    // stopped here for a whole lap fails: the base has grown meanwhile.
    let _ = slot.base.compare_exchange(base, commit, Ordering::AcqRel, Ordering::Relaxed);
    if !channel.overwrites() {
        note_lost(control, slot, at >> channel.sub_bits);
    }
    Ok(())
}

/// Equation 5.1: less than one whole sub-buffer is free, so that the one that begins at `at` was not read yet.
fn is_full(channel: &Rings, control: &Control, at: u64) -> bool {
    // Acquire pairs with the reader's release (C).
    let consumed = control.consumed.load(Ordering::Acquire);
    at.wrapping_add(channel.sub_bytes).wrapping_sub(consumed) > channel.ring_bytes
}

/// Counts a record that finds no room behind `pos`. False when it may find some now, or a full ring had to be closed
/// first.
#[cold]
fn refuse(channel: &Rings, ring: Ring, pos: u64, cause: Cause) -> bool {
    // SAFETY: `ring-never-unmapped`.
    let control = unsafe { ring.control() };
    if cause != Cause::RingFull {
        // Else another writer has entered it meanwhile, or left it far behind.
        let stands = control.pos.load(Ordering::Relaxed) == pos;
        if stands {
            count(control, cause);
        }
        return stands;
    }
    if is_closed(channel, pos) {
        if count_full(control, pos >> channel.sub_bits) {
            return true;
        }
        // Only in a ring that another process writes nonsense to is it full all the same.
        let stands =
            control.pos.load(Ordering::Relaxed) == pos && is_full(channel, control, pos.wrapping_add(1));
        if stands {
            count(control, cause);
        }
        return stands;
    }
    let Some(time) = channel.now_after_loads() else {
        count(control, Cause::NoClock);
        return true;
    };
    // AcqRel: as where a sub-buffer is entered.
    let closed = pos | channel.sub_mask;
    if control.pos.compare_exchange(pos, closed, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        leave(channel, ring, pos, time);
    }
    false
}

/// Counts a record that is lost.
fn count(control: &Control, cause: Cause) {
    if let Some(lost) = control.lost.get(cause as usize) {
        lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether nothing fits behind `pos`, because the ring was full.
fn is_closed(channel: &Rings, pos: u64) -> bool {
    pos & channel.sub_mask == channel.sub_mask
}

/// Counts a record that a full ring has lost behind the closed sub-buffer `number`; false when the next one is being
/// entered.
fn count_full(control: &Control, number: u64) -> bool {
    let counter = control.full();
    // Acquire (E): a writer that sees the count ended also sees `consumed` as the one that has ended it.
    let mut now = Count(counter.load(Ordering::Acquire));
    while now.ahead_of(number) <= 0 {
        let more = Count::new(number, now.events() + 1);
        // Release: hands on what an ended count before has published.
        match counter.compare_exchange(now.0, more.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(other) => now = Count(other),
        }
    }
    false
}

/// Ends the count before sub-buffer `number`, which may be entered, and notes it in its slot.
#[cold]
fn note_lost(control: &Control, slot: &Slot, number: u64) {
    let counter = control.full();
    // Acquire (E): before the counter. When no thread has noted it since, `pos` is still before the sub-buffer.
    let noted = Count(slot.lost.load(Ordering::Acquire));
    if noted.ahead_of(number) == 0 {
        return;
    }
    let mut now = Count(counter.load(Ordering::Acquire));
    while now.ahead_of(number) < 0 {
        let ended = Count::new(number, now.events());
        // Release (E): the load of `consumed` happens before.
        match counter.compare_exchange(now.0, ended.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => now = ended,
            Err(other) => now = Count(other),
        }
    }
    if now.ahead_of(number) == 0 {
        // Release (B): for the reader that finds `pos` behind it.
        let _ = slot.lost.compare_exchange(noted.0, now.0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Closes the sub-buffer in which `pos` lies: notes where its content ends and commits the padding.
fn leave(channel: &Rings, ring: Ring, pos: u64, time: u64) {
    let slot = slot_of(channel, ring, pos);
    slot.end.store(pos, Ordering::Relaxed);
    slot.time_end.store(time, Ordering::Relaxed);
    let padding = channel.sub_bytes - (pos & channel.sub_mask);
    // Release (B): `end` and `time_end` happen before the count that makes the sub-buffer whole.
    slot.commit.fetch_add(padding, Ordering::Release);
}

fn slot_of(channel: &Rings, ring: Ring, pos: u64) -> &'static Slot {
    let index = (pos & channel.ring_mask) >> channel.sub_bits;
    // SAFETY: `ring-never-unmapped`, and `position-masked`.
    unsafe { ring.slot(index) }
}

/// Writes the prefix and the payload to `to`.
///
/// # Safety
/// `to` is good for the whole record, and the payload is readable.
pub(crate) unsafe fn copy(to: *mut u8, header: u64, record: &Record<'_>) {
    // SAFETY: the caller's promise; a number is readable.
    unsafe { mem::copy_shared(to, header.to_le_bytes().as_ptr(), record::HEADER_BYTES) };
    let thread = record.thread.to_le_bytes();
    // SAFETY: as above.
    unsafe { mem::copy_shared(to.wrapping_add(record::HEADER_BYTES), thread.as_ptr(), thread.len()) };
    let mut to = to.wrapping_add(PREFIX_BYTES);
    match record.payload {
        // SAFETY: the caller's promise; the ring and the payload are different memory.
        Payload::Words { from, len } => unsafe { mem::copy_shared(to, from, len) },
        Payload::Fragments { list, .. } => {
            for part in list {
                // SAFETY: the caller's promise; the lengths sum up to what was reserved.
                unsafe { mem::copy_shared(to, part.from, part.len) };
                to = to.wrapping_add(part.len);
            }
        }
    }
}

/// A commit count, taken apart: what the lap that begins at position `start` has added to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lap {
    /// Bytes committed before the lap, the whole number.
    before: u64,
}

impl Lap {
    /// The lap of the sub-buffer that begins at `start`.
    pub(crate) fn at(start: u64, sub_bits: u32, ring_bits: u32) -> Lap {
        Lap { before: (start >> ring_bits) << sub_bits }
    }

    /// Bytes committed in it.
    pub(crate) fn bytes(self, commit: u64) -> u64 {
        commit.wrapping_sub(self.before) & COMMIT_BYTES_MASK
    }

    /// Records committed in it, modulo 2^24, given the count at its beginning.
    pub(crate) fn records(self, commit: u64, base: u64) -> u64 {
        let total = |commit: u64, bytes: u64| commit.wrapping_sub(self.before + bytes) >> COMMIT_BYTES_BITS;
        total(commit, self.bytes(commit)).wrapping_sub(total(base, 0)) & 0xff_ffff
    }
}
