//! Decoding of packets and events.
//!
//! `compile` turns field classes to `program`s once; `machine` runs them, `bits` loads their
//! fields. A [`Cursor`] holds the state of one stream between calls.

pub(crate) mod bits;
pub(crate) mod compile;
mod cursor;
pub(crate) mod machine;
pub(crate) mod program;
mod slots;

use crate::error::DecodeError;
use crate::model::{EventClass, StreamClass};
use crate::schema::Schema;
use crate::value::Fields;

pub use cursor::Cursor;

/// The magic number at the start of packets of events.
pub const PACKET_MAGIC: u32 = 0xc1fc_1fc1;

/// Most values that one event may have (64 MiB of memory).
pub const MAX_VALUES: usize = 1 << 22;

/// What a packet says of itself; numbers as they stand in its header and context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeader {
    /// Index of the stream class in [`crate::model::TraceClass::streams`].
    pub stream: usize,
    /// Number of the stream within its class (`stream_instance_id`).
    pub stream_id: Option<u64>,
    /// Bits of content, header included; `None`: up to the end of the packet.
    pub content_bits: Option<u64>,
    /// Bits of the whole packet; `None`: up to the end of the file.
    pub packet_bits: Option<u64>,
    /// Clock at the beginning, raw cycles.
    pub timestamp_begin: Option<u64>,
    /// Clock at the end, raw cycles.
    pub timestamp_end: Option<u64>,
    /// Number of the packet in its stream.
    pub sequence_number: Option<u64>,
    /// Events discarded in the stream up to the end of this packet, counted since its start.
    pub events_discarded: Option<u64>,
    /// Number of the CPU whose events these are, from the field `cpu_id`.
    pub cpu_id: Option<u32>,
    /// The packet has the UUID of another trace. It is read all the same: a reader should say so.
    pub foreign_uuid: bool,
    /// Bits that header and context take: where the first event begins.
    pub header_bits: u64,
}

impl PacketHeader {
    /// Bytes that the whole packet takes in its file; `None`: the rest of the file.
    #[must_use]
    pub fn packet_bytes(&self) -> Option<u64> {
        self.packet_bits.map(|bits| bits / 8)
    }
}

/// An event, with its values in the cursor's memory until the next one is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What the metadata says of the event.
    pub class: &'a EventClass,
    /// What the metadata says of its stream.
    pub stream: &'a StreamClass,
    /// Clock in raw cycles, extended to 64 bits; 0 if the stream has no clock.
    pub timestamp: u64,
    /// Header, common context, specific context, payload.
    pub(crate) scopes: [Fields<'a>; 4],
}

impl<'a> Event<'a> {
    /// The event header (`id`, `timestamp`).
    #[must_use]
    pub fn header(&self) -> Fields<'a> {
        self.scopes[0]
    }

    /// The context common to the stream (`vpid`, `vtid`...); empty if there is none.
    #[must_use]
    pub fn common(&self) -> Fields<'a> {
        self.scopes[1]
    }

    /// The context of this event class; empty if there is none.
    #[must_use]
    pub fn specific(&self) -> Fields<'a> {
        self.scopes[2]
    }

    /// The payload; empty if there is none.
    #[must_use]
    pub fn payload(&self) -> Fields<'a> {
        self.scopes[3]
    }
}

/// One packet in memory with its own cursor.
#[derive(Debug)]
pub struct Packet<'a> {
    /// What the packet says of itself.
    pub header: PacketHeader,
    schema: &'a Schema,
    bytes: &'a [u8],
    cursor: Cursor,
}

impl<'a> Packet<'a> {
    /// Begins the packet at the start of `bytes`, and takes no more of them than the packet's size.
    ///
    /// # Errors
    /// As [`Cursor::begin`].
    pub fn new(schema: &'a Schema, bytes: &'a [u8]) -> Result<Packet<'a>, DecodeError> {
        let mut cursor = Cursor::new();
        let header = cursor.begin(schema, bytes)?;
        let size = header.packet_bytes().and_then(|n| usize::try_from(n).ok()).unwrap_or(bytes.len());
        Ok(Packet { header, schema, bytes: bytes.get(..size).unwrap_or(bytes), cursor })
    }

    /// Fields of the packet context; none when the stream declares no context.
    #[must_use]
    pub fn context(&self) -> Fields<'_> {
        self.cursor.packet_context(self.schema, self.bytes)
    }

    /// Decodes the next event; `None` at the end.
    ///
    /// # Errors
    /// As [`Cursor::advance`].
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, DecodeError> {
        if !self.cursor.advance(self.schema, self.bytes)? {
            return Ok(None);
        }
        Ok(self.cursor.event(self.schema, self.bytes))
    }
}
