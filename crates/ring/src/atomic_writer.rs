//! The fallback writer: reserve and commit (Desnoyers 2009, sections 5.4.2 and 5.4.3).
//!
//! # Protocol
//! A writer reserves by compare-and-swap on `pos` (the thesis's write count), with the time read between the load
//! and the swap, in this order also for the CPU, so that times in a ring never decrease. It copies, then adds the bytes to the `commit` count of the
//! sub-buffer. A writer that leaves a sub-buffer commits the padding up to its end too. So a
//! sub-buffer is whole when its commit count has grown by its size (equation 5.2), whoever commits last.
//!
//! # Differences from the thesis
//! 1. The commit count carries, above its low 40 bits of bytes, the number of records. When a writer is
//!    killed between reserve and commit, the sub-buffer never becomes whole; the reader then knows how
//!    many good records it has to count as lost.
//! 2. The reader does not swap sub-buffers with a spare one: it copies, and then looks whether a writer
//!    has entered what it copied, as with the rseq writer.
//! 3. Rings belong to no CPU; a thread takes the one that its id selects.
//!
//! # Fork
//! A handler may interrupt a write and fork. The child returns into a copy of the write, and must not commit what its parent commits. So a thread
//! notes that it writes, and a child that was made inside of a write has zeros in the place of the rings that the write knows, and the rings
//! elsewhere ([`Writer::part_from_writes`]).
//!
//! # Progress
//! Lock-free: a compare-and-swap fails only because another succeeded. A writer that stops between
//! reserve and commit keeps its sub-buffer from being read and from being entered again (equation 5.3
//! negated): events are then lost as `Busy` or `RingFull`, and counted.

use crate::control::{Ring, Slot};
use crate::writer::{Outcome, Payload, Record, Rings, Write, Writer};
use mote_layout::Cause;
use mote_layout::record::{self, PREFIX_BYTES};
use mote_sync::atomic::{Ordering, fence};
use mote_sync::thread;

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
        let writes = thread::writes();
        thread::set_writes(writes + 1);
        // SAFETY: the caller's promise.
        let outcome = unsafe { write(channel.rings(), record) };
        thread::set_writes(writes);
        outcome
    }
}

unsafe fn write(channel: &Rings, record: Record<'_>) -> Outcome {
    let len = record.payload.len();
    if len > channel.payload_max() {
        return channel.count_lost(Cause::TooBig);
    }
    let ring = channel.ring(channel.cpus + record.thread % channel.shared);
    let total = (PREFIX_BYTES + len) as u64;
    let reserved = match reserve(channel, ring, total) {
        Ok(reserved) => reserved,
        Err(cause) => {
            // SAFETY: `ring` is of the leaked mapping.
            let control = unsafe { ring.control() };
            control.lost[cause as usize].fetch_add(1, Ordering::Relaxed);
            return Outcome::Lost(cause);
        }
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

/// Reserves `total` bytes, entering the next sub-buffer where needed (algorithms 5.1 and 5.2).
fn reserve(channel: &Rings, ring: Ring, total: u64) -> Result<Reserved, Cause> {
    // SAFETY: `ring` is of the leaked mapping.
    let control = unsafe { ring.control() };
    let mut pos = control.pos.load(Ordering::Relaxed);
    loop {
        let fits = (pos & channel.sub_mask) + total < channel.sub_bytes;
        let at = if fits { pos } else { (pos | channel.sub_mask).wrapping_add(1) };
        if !fits && let Err(cause) = may_enter(channel, ring, at) {
            let now = control.pos.load(Ordering::Relaxed);
            if now == pos {
                return Err(cause);
            }
            // Somebody has entered it meanwhile, or left it far behind.
            pos = now;
            continue;
        }
        let Some(time) = channel.now_after_loads() else { return Err(Cause::NoClock) };
        // AcqRel: the winner that enters a sub-buffer sees what was committed to it and read from it
        // (C), and others see this reservation.
        match control.pos.compare_exchange(pos, at.wrapping_add(total), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                if !fits {
                    // Release (D): a flight recorder's reader that sees a byte of this lap sees that `pos` has come
                    // around; pairs with `lapped`. No instruction on x86.
                    fence(Ordering::Release);
                    leave(channel, ring, pos, time);
                }
                return Ok(Reserved { at, time });
            }
            Err(now) => pos = now,
        }
    }
}

/// Whether the sub-buffer that begins at `at` may be entered. A refusal is true only if `pos` is still before `at`.
fn may_enter(channel: &Rings, ring: Ring, at: u64) -> Result<(), Cause> {
    // SAFETY: `ring` is of the leaked mapping.
    let control = unsafe { ring.control() };
    // Equation 5.1: less than one whole sub-buffer is free. Acquire pairs with the reader's release (C).
    let consumed = control.consumed.load(Ordering::Acquire);
    let full = at.wrapping_add(channel.sub_bytes).wrapping_sub(consumed) > channel.ring_bytes;
    if full && !channel.overwrites() {
        return Err(Cause::RingFull);
    }
    // Negation of equation 5.3: someone has not committed what he reserved there a whole lap ago.
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
    Ok(())
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
    // SAFETY: `ring` is of the leaked mapping, and the index is masked.
    unsafe { ring.slot(index) }
}

/// Writes the prefix and the payload to `to`.
///
/// # Safety
/// `to` is good for the whole record, and the payload is readable.
pub(crate) unsafe fn copy(to: *mut u8, header: u64, record: &Record<'_>) {
    // SAFETY: the caller's promise; nothing says that `to` is aligned.
    unsafe { to.cast::<u64>().write_unaligned(header) };
    // SAFETY: as above.
    unsafe { to.wrapping_add(record::HEADER_BYTES).cast::<u32>().write_unaligned(record.thread) };
    let mut to = to.wrapping_add(PREFIX_BYTES);
    match record.payload {
        // SAFETY: the caller's promise; the ring and the payload are different memory.
        Payload::Words { from, len } => unsafe { to.copy_from_nonoverlapping(from, len) },
        Payload::Fragments { list, .. } => {
            for part in list {
                // SAFETY: the caller's promise; the lengths sum up to what was reserved.
                unsafe { to.copy_from_nonoverlapping(part.from, part.len) };
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
