//! The record of one event in a ring and in a packet.
//!
//! ```text
//! byte 0   header   u64   time << 16 | event id
//! byte 8   thread   u32   thread id
//! byte 12  fields, packed, little-endian
//! ```
//! Records follow one another without padding. The reader extends the 48 bits of time by the packet's.

/// Bits of the event id in the header.
pub const ID_BITS: u32 = 16;
/// Bits of the time in the header.
pub const TIME_BITS: u32 = 48;
/// Bytes of the header word: time and tag.
pub const HEADER_BYTES: usize = 8;
/// Bytes of the thread id.
pub const THREAD_BYTES: usize = 4;
/// Bytes before the fields: header word and thread id.
pub const PREFIX_BYTES: usize = HEADER_BYTES + THREAD_BYTES;
/// Most bytes of the fields of one event.
pub const FIELDS_MAX: usize = 64 << 10;
/// Event ids are below this; the id `0xffff` is never given, so that a torn header is noticed.
pub const ID_MAX: u32 = 0xffff;

/// The first word of a record: the low 48 bits of the time above, the event's id below.
#[inline(always)]
pub const fn header(time: u64, id: u16) -> u64 {
    time << ID_BITS | id as u64
}

/// Event id and the low 48 bits of the time.
pub const fn split(header: u64) -> (u16, u64) {
    (header as u16, header >> ID_BITS)
}
