//! From an event's fields to a record in a ring.

use crate::fields::Fields;
use crate::packer::Packer;
use core::mem::MaybeUninit;
use mote_agent::Event;
use mote_ring::writer::Payload;
use mote_ring::{Fragment, Record, Writer};

/// Fields of up to this many bytes together are packed on the stack and copied in words; larger ones are
/// copied from where they lie.
const SMALL_BYTES: usize = 256;

/// Space for the packed fields: what they take, and whole words for the copy.
type Small = MaybeUninit<[u64; SMALL_BYTES / 8 + 2]>;

/// Records an event with these fields, if it is on.
///
/// Never inlined, and cold: a function with an event in it needs neither the stack nor the registers of this one while the
/// event is off, and events with the same types of fields share its code.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Bench `event_cost`. No allocation, no system call but for a thread's first event.
#[cold]
#[inline(never)]
pub fn emit<F: Fields>(event: &Event, fields: F) {
    if fields.size_max() <= SMALL_BYTES {
        let mut small = Small::uninit();
        let start = small.as_mut_ptr().cast::<u64>();
        // SAFETY: the fields put at most `size_max` bytes, `Fields` being sealed; `Small` has room for `SMALL_BYTES`
        // and more than a word behind them.
        let packer = unsafe { Packer::new(start) };
        let len = fields.pack(packer).finish();
        // SAFETY: `len` bytes are written, rounded up to whole words.
        unsafe { record(event, start.cast(), len) };
    } else {
        emit_large(event, fields);
    }
}

/// Records an event whose packed fields are `len` bytes at `from`.
///
/// This is what every event of every language goes through.
///
/// # Safety
/// `len` bytes at `from`, rounded up to whole 8-byte words, must be readable.
///
/// # Signal safety
/// Callable from a handler.
#[inline(never)]
pub unsafe fn record(event: &Event, from: *const u8, len: usize) {
    let Some((channel, tag)) = event.destination() else { return };
    let thread = this_thread(channel);
    // SAFETY: the caller's promise. What became of the record is counted in the ring.
    let _ = unsafe { channel.write_words(tag, thread, from, len) };
}

#[inline(always)]
fn this_thread(channel: &Writer) -> u32 {
    match mote_sync::thread::id() {
        0 => channel.introduce_thread(),
        id => id,
    }
}

unsafe fn write_fragments(event: &Event, list: &[Fragment], len: usize) {
    let Some((channel, tag)) = event.destination() else { return };
    let record = Record { tag, thread: this_thread(channel), payload: Payload::Fragments { list, len } };
    // SAFETY: the caller's promise. What became of the record is counted in the ring.
    let _ = unsafe { channel.write(record) };
}

#[cold]
#[inline(never)]
fn emit_large<F: Fields>(event: &Event, fields: F) {
    let mut list = F::Fragments::default();
    let list = fields.fragments(&mut list);
    let len = list.iter().map(|fragment| fragment.len).sum();
    // SAFETY: the fragments are of `fields` and of what they borrow.
    unsafe { write_fragments(event, list, len) };
}

/// Records an event of fragments, `len` bytes together. For the C interface.
///
/// # Safety
/// Every fragment must be readable.
#[inline(never)]
pub unsafe fn record_fragments(event: &Event, list: &[Fragment], len: usize) {
    // SAFETY: the caller's promise.
    unsafe { write_fragments(event, list, len) };
}
