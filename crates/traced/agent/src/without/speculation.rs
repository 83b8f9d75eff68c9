//! Nothing is kept aside: only filters begin that.

use crate::channel::Channel;
use mote_ring::Record;

/// Writes a record to the channel.
///
/// # Safety
/// The record's bytes must be readable: for `Words` up to the end of the last 8-byte word.
///
/// # Signal safety
/// Callable from a handler.
pub(crate) unsafe fn write(channel: &Channel, record: Record<'_>) {
    // SAFETY: the caller's promise. What became of the record is counted in the ring.
    unsafe { channel.write(record) };
}

/// Nothing is there to be forgotten.
pub(crate) fn forget() {}

pub(crate) mod by_key {
    //! Verdicts that name a speculation, which none does.

    use crate::channel::Channel;
    use mote_layout::context::RECORD;
    use mote_ring::Record;

    /// Bits of a note.
    pub(crate) const NOTE_BITS: u32 = 14;

    /// Counts nothing: there are no keys.
    pub(crate) fn refuse(_session: usize) {}

    /// Writes a record to the channel.
    ///
    /// # Safety
    /// As [`super::write`].
    pub(crate) unsafe fn write(channel: &Channel, record: Record<'_>, _verdict: u64) {
        // SAFETY: the caller's promise.
        unsafe { super::write(channel, record) };
    }

    /// The verdict in few bits.
    pub(crate) fn note(_verdict: u64) -> u64 {
        0
    }

    /// The verdict of a note.
    pub(crate) fn of_note(_note: u64) -> u64 {
        RECORD
    }
}
