//! Errors and warnings about metadata, errors of packets: small, copyable, with their place.
//!
//! Metadata that could change how a byte is read is refused ([`MetadataError`]); what else breaks the
//! specification is read, with a [`MetadataWarning`].

use std::fmt;
use thiserror::Error;

/// What is wrong with metadata, and where. Such metadata is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub struct MetadataError {
    /// What is wrong there.
    pub kind: MetadataFault,
    /// Line in the metadata's text, from 1; 0 where a model was built by hand.
    pub line: u32,
    /// Column in bytes, from 1; 0 where a model was built by hand.
    pub column: u32,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_placed(f, self.line, self.column, &self.kind)
    }
}

/// What is odd about metadata, and where. Such metadata is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataWarning {
    /// What is odd, and how it is read.
    pub kind: Oddity,
    /// Line in the metadata's text, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

impl fmt::Display for MetadataWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_placed(f, self.line, self.column, &self.kind)
    }
}

fn fmt_placed(f: &mut fmt::Formatter<'_>, line: u32, column: u32, kind: &dyn fmt::Display) -> fmt::Result {
    match line {
        0 => write!(f, "metadata: {kind}"),
        _ => write!(f, "metadata line {line}, column {column}: {kind}"),
    }
}

/// Kinds of oddities that do not change how a byte is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Oddity {
    /// A named type is declared, and no `;` follows.
    #[error("`;` is missing after the declaration; read as if it were there")]
    MissingSemicolon,
    /// An attribute of a block that CTF 1.8 does not know.
    #[error("unknown attribute of {0}; it is not used")]
    UnknownAttribute(&'static str),
    /// A timestamp that is mapped to no clock, in a trace with one clock.
    #[error("a timestamp is mapped to no clock; read as a value of the trace's only clock")]
    UnmappedTime,
    /// A timestamp that is mapped to no clock, in a trace without clocks.
    #[error("a timestamp is mapped to no clock, and there is none; read as nanoseconds")]
    TimeWithoutClock,
    /// A timestamp that is mapped to no clock, in a trace with several clocks.
    #[error("a timestamp is mapped to none of the trace's clocks; events of this stream have no time")]
    AmbiguousTime,
    /// A label of an enumeration for values that its integer cannot have.
    #[error("the enumeration's integer cannot have this value; the label is never shown")]
    UnreachableLabel,
    /// CTF 2: a UUID as text.
    #[error("the UUID is text and not 16 integers; read as the usual form of a UUID")]
    TextUuid,
    /// CTF 2: the cycles of a clock's offset are as many as its frequency, or more.
    #[error("the clock's offset has a second or more in cycles; seconds and cycles are added")]
    LargeCycles,
    /// The metadata's packets have the byte order that the trace has not.
    #[error("metadata packets are of another byte order than the trace; the trace's is used for events")]
    PacketByteOrder,
}

/// Most warnings that are kept of one trace's metadata.
pub const MAX_WARNINGS: usize = 100;

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
    /// A property of an object, or attribute of a type, that the specification does not know.
    #[error("unknown property of {0}; check its spelling")]
    UnknownProperty(&'static str),
    /// A name that is defined twice.
    #[error("{0} defined twice")]
    Duplicate(&'static str),
    /// A property that must be there.
    #[error("missing property `{0}`")]
    Missing(&'static str),
    /// A property with a value that it cannot have.
    #[error("bad value of {0}")]
    BadValue(&'static str),
    /// A role, or a reserved name, of a field that cannot have it.
    #[error("{0}")]
    BadRole(&'static str),
    /// Ranges of two options of a variant overlap: a selector would choose both.
    #[error("two options of a variant have a selector's value in common")]
    AmbiguousOption,
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
    /// A fault of a model that was built by hand: it has no line.
    #[must_use]
    pub fn nowhere(kind: MetadataFault) -> MetadataError {
        MetadataError { kind, line: 0, column: 0 }
    }
}

/// What is wrong with a packet, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("packet, bit {bit}: {kind}")]
pub struct DecodeError {
    /// What is wrong there.
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
