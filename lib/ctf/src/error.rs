//! Errors of metadata and of packets: small, copyable, with the place of the fault.

use thiserror::Error;

/// What is wrong with metadata, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("metadata line {line}, column {column}: {kind}")]
pub struct MetadataError {
    /// The fault.
    pub kind: MetadataFault,
    /// Line, from 1; 0 where the model was built by hand or the fault has no place.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

/// Kinds of faults of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetadataFault {
    /// Neither CTF 1.8 nor CTF 2.
    #[error("not CTF metadata; give the file named `metadata` of a trace")]
    NotMetadata,
    /// There is none.
    #[error("metadata is empty")]
    Empty,
    /// A metadata packet is cut or lies about its size.
    #[error("metadata packet is broken: {0}")]
    Packet(&'static str),
    /// The metadata is not UTF-8.
    #[error("metadata is not UTF-8")]
    NotText,
    /// The text does not follow the grammar.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A name that nothing defines.
    #[error("unknown {0}")]
    Unknown(&'static str),
    /// A name that is defined twice.
    #[error("{0} defined twice")]
    Duplicate(&'static str),
    /// A property that must be there.
    #[error("missing property `{0}`")]
    Missing(&'static str),
    /// A property with a value that it cannot have.
    #[error("bad value of {0}")]
    BadValue(&'static str),
    /// Something beyond this reader.
    #[error("unsupported: {0}")]
    Unsupported(&'static str),
    /// Structures nested too deep.
    #[error("field classes nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// More fields than any real trace has.
    #[error("too many fields")]
    TooBig,
}

/// Deepest nesting of field classes that is accepted.
pub const MAX_DEPTH: u32 = 48;

impl MetadataError {
    /// A fault without a place.
    #[must_use]
    pub fn nowhere(kind: MetadataFault) -> MetadataError {
        MetadataError { kind, line: 0, column: 0 }
    }
}

/// What is wrong with a packet, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("packet, bit {bit}: {kind}")]
pub struct DecodeError {
    /// The fault.
    pub kind: DecodeFault,
    /// Offset from the start of the packet, in bits, of the field that cannot be decoded.
    pub bit: u64,
}

/// Kinds of faults of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeFault {
    /// The bytes end before the field does. Of a prefix of a packet: read more.
    #[error("data ends inside a field")]
    Truncated,
    /// The field goes beyond the packet's content.
    #[error("field goes beyond the packet's content")]
    BeyondContent,
    /// Not the magic number of a packet.
    #[error("bad magic number {0:#x}")]
    BadMagic(u32),
    /// The packet is of another trace.
    #[error("packet carries another trace's UUID")]
    ForeignUuid,
    /// No such stream class.
    #[error("unknown stream class {0}")]
    UnknownStream(u64),
    /// No such event class.
    #[error("unknown event class {0}")]
    UnknownEvent(u64),
    /// The sizes in the packet's context cannot be.
    #[error("bad packet size")]
    BadPacketSize,
    /// The packet is larger than 4 GiB.
    #[error("packet larger than 4 GiB")]
    PacketTooLarge,
    /// A selector chooses no option.
    #[error("selector {0} chooses no option")]
    NoOption(i64),
    /// A length or selector field was not decoded before it was needed.
    #[error("length or selector field is not there")]
    MissingReference,
    /// More elements than the packet can hold.
    #[error("length {0} is more than the packet holds")]
    BadLength(u64),
    /// A variable-length integer with more than 64 bits.
    #[error("variable-length integer too long")]
    BadLeb128,
    /// An event of more than [`crate::decode::MAX_VALUES`] values.
    #[error("event has too many values")]
    TooManyValues,
    /// An event that takes no bits would repeat forever.
    #[error("event takes no space")]
    EmptyEvent,
    /// [`crate::Cursor::advance`] before [`crate::Cursor::begin`], or with another schema.
    #[error("no packet begun")]
    NoPacket,
}
