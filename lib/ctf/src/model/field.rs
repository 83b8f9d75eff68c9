//! Field classes: how a field lies in the stream and what it means.
//!
//! Sizes and alignments are in bits. Alignments count from the start of the packet.

/// Order of bytes (and, for fields that do not fill bytes, of bits: little-endian fills a byte from its least
/// significant bit, big-endian from its most significant one).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
    /// As [`ByteOrder::Little`], then the bits of the whole field the other way round (CTF 2: `bit-order` is
    /// `last-to-first`).
    LittleReversed,
    /// As [`ByteOrder::Big`], then the bits of the whole field the other way round (CTF 2: `bit-order` is
    /// `first-to-last`).
    BigReversed,
}

impl ByteOrder {
    /// Fills a byte from its most significant bit.
    #[must_use]
    pub fn is_big(self) -> bool {
        matches!(self, ByteOrder::Big | ByteOrder::BigReversed)
    }

    /// The first bit in the stream is not the one that the order of bytes makes the first.
    #[must_use]
    pub fn is_reversed(self) -> bool {
        matches!(self, ByteOrder::LittleReversed | ByteOrder::BigReversed)
    }
}

/// The base in which an integer is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// `0b1011`
    Binary,
    /// `013`
    Octal,
    /// `11`
    #[default]
    Decimal,
    /// `0xB`
    Hexadecimal,
}

/// How the code units of a text become characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8, and ASCII.
    #[default]
    Utf8,
    /// UTF-16, big-endian (CTF 2).
    Utf16Be,
    /// UTF-16, little-endian (CTF 2).
    Utf16Le,
    /// UTF-32, big-endian (CTF 2).
    Utf32Be,
    /// UTF-32, little-endian (CTF 2).
    Utf32Le,
}

impl Encoding {
    /// Bytes of one code unit.
    #[must_use]
    pub fn unit(self) -> usize {
        match self {
            Encoding::Utf8 => 1,
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
        }
    }
}

/// What a field means to the reader of the packet: CTF 2 roles, and in CTF 1.8 the reserved names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Roles(pub u16);

impl Roles {
    /// A field that means nothing to the reader of packets.
    pub const NONE: Roles = Roles(0);
    /// `0xC1FC1FC1` at the start of a packet.
    pub const PACKET_MAGIC: Roles = Roles(1);
    /// UUID of the metadata stream or trace.
    pub const METADATA_UUID: Roles = Roles(1 << 1);
    /// Number of the data stream class of the packet.
    pub const STREAM_CLASS_ID: Roles = Roles(1 << 2);
    /// Number of the data stream within its class.
    pub const STREAM_ID: Roles = Roles(1 << 3);
    /// Bits of the packet that hold content.
    pub const CONTENT_LENGTH: Roles = Roles(1 << 4);
    /// Bits of the whole packet.
    pub const TOTAL_LENGTH: Roles = Roles(1 << 5);
    /// Number of the packet within its stream.
    pub const SEQUENCE_NUMBER: Roles = Roles(1 << 6);
    /// Events discarded in the stream so far.
    pub const DISCARDED: Roles = Roles(1 << 7);
    /// Sets or extends the stream's default clock.
    pub const TIMESTAMP: Roles = Roles(1 << 8);
    /// Clock value at the end of the packet.
    pub const PACKET_END_TIMESTAMP: Roles = Roles(1 << 9);
    /// Number of the event class.
    pub const EVENT_CLASS_ID: Roles = Roles(1 << 10);

    /// Has all the roles of `other`.
    #[must_use]
    pub fn contains(self, other: Roles) -> bool {
        self.0 & other.0 == other.0
    }

    /// True for a field that means nothing to the reader of packets.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::ops::BitOr for Roles {
    type Output = Roles;
    fn bitor(self, other: Roles) -> Roles {
        Roles(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Roles {
    fn bitor_assign(&mut self, other: Roles) {
        self.0 |= other.0;
    }
}

/// How an integer's bits are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntCoding {
    /// `size` bits.
    #[default]
    Fixed,
    /// LEB128, of any length up to 64 bits of value (CTF 2); `size` and `byte_order` mean nothing.
    Leb128,
}

/// An integer of up to 64 bits, with the base that it is shown in and what it means.
#[derive(Debug, Clone, PartialEq)]
pub struct IntClass {
    /// Bits, 1 to 64.
    pub size: u32,
    /// Alignment in bits, a power of two.
    pub align: u32,
    /// Two's complement; else unsigned.
    pub signed: bool,
    /// Whether the first byte is the least significant.
    pub byte_order: ByteOrder,
    /// The base in which values are to be shown.
    pub base: Base,
    /// Whether all values have the same length.
    pub coding: IntCoding,
    /// The integer is a character (CTF 1.8); arrays of such bytes are read as [`TextClass`].
    pub encoding: Option<Encoding>,
    /// Clock of which this is a (partial) value: index in the trace's clocks (CTF 1.8 `map`).
    pub clock: Option<usize>,
    /// What it means to the reader of packets.
    pub roles: Roles,
}

/// A floating point number, IEEE 754 binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatClass {
    /// Bits: 16, 32 or 64.
    pub size: u32,
    /// Alignment in bits, a power of two.
    pub align: u32,
    /// Whether the first byte is the least significant.
    pub byte_order: ByteOrder,
}

/// A truth value: an integer that is true when it is not 0 (CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoolClass {
    /// Bits, 1 to 64.
    pub size: u32,
    /// Alignment in bits, a power of two.
    pub align: u32,
    /// Whether the first byte is the least significant.
    pub byte_order: ByteOrder,
}

/// A fixed-length bit array, or with names of its bits a bit map (CTF 2).
#[derive(Debug, Clone, PartialEq)]
pub struct BitMapClass {
    /// Bits, 1 to 64.
    pub size: u32,
    /// Alignment in bits, a power of two.
    pub align: u32,
    /// Whether the first byte is the least significant.
    pub byte_order: ByteOrder,
    /// Names of bits: ranges of bit numbers, 0 the least significant. Empty: a bit array.
    pub flags: Vec<Mapping>,
}

/// An integer with names for values.
#[derive(Debug, Clone, PartialEq)]
pub struct EnumClass {
    /// How its values are stored.
    pub int: IntClass,
    /// Names, in the order of the metadata.
    pub mappings: Vec<Mapping>,
}

/// A name for ranges of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The name that values of these ranges have.
    pub label: String,
    /// The values that have this name; those of several labels may overlap.
    pub ranges: Vec<Range>,
}

/// The integers from `lower` to `upper`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first value of the range.
    pub lower: i128,
    /// The last value of the range.
    pub upper: i128,
}

impl Range {
    /// The range of one value.
    #[must_use]
    pub fn one(value: impl Into<i128>) -> Range {
        let value = value.into();
        Range { lower: value, upper: value }
    }

    /// True for values from `lower` to `upper`.
    #[must_use]
    pub fn contains(self, value: i128) -> bool {
        self.lower <= value && value <= self.upper
    }
}

impl EnumClass {
    /// Labels of `value`, in the order of the metadata.
    pub fn labels(&self, value: i128) -> impl Iterator<Item = &str> {
        let named = move |m: &&Mapping| m.ranges.iter().any(|r| r.contains(value));
        self.mappings.iter().filter(named).map(|m| m.label.as_str())
    }

    /// Whether the two lowest bits are how a file is opened, with 0 for reading: then a value is a set of bits
    /// even if one label names it.
    #[must_use]
    pub fn has_access_mode(&self) -> bool {
        self.mappings.first().is_some_and(|first| first.label.ends_with("RDONLY"))
    }

    /// `value` as a set of bits: the labels of what is in it, in the order of the metadata, and the bits that
    /// have none.
    ///
    /// `None` when the labels do not name bits: all of them name one value, which is 0, one bit, or has a bit
    /// that is no label's alone.
    #[must_use]
    pub fn flags(&self, value: i128) -> Option<(Vec<&str>, u64)> {
        let value = u64::try_from(value).ok()?;
        let mut named = Vec::with_capacity(self.mappings.len());
        for mapping in &self.mappings {
            let [range] = mapping.ranges[..] else { return None };
            let bits = u64::try_from(range.lower).ok().filter(|_| range.lower == range.upper)?;
            named.push((mapping.label.as_str(), bits));
        }
        let single = |bits: u64| bits.is_power_of_two();
        let singles = named.iter().filter(|(_, bits)| single(*bits)).fold(0, |all, (_, bits)| all | bits);
        let are_bits = named.iter().all(|(_, bits)| *bits == 0 || single(*bits) || bits & !singles != 0);
        if !are_bits || named.is_empty() {
            return None;
        }
        let within = |bits: u64| bits != 0 && value & bits == bits;
        let more = |bits: u64| {
            named.iter().any(|(_, other)| within(*other) && *other != bits && other & bits == bits)
        };
        // How a file is opened is a number in the two lowest bits.
        let reads = |label: &str, bits: u64| bits == 0 && value & 3 == 0 && label.ends_with("RDONLY");
        let chosen =
            named.iter().filter(|(label, bits)| (within(*bits) && !more(*bits)) || reads(label, *bits));
        let known = named.iter().filter(|(_, bits)| within(*bits)).fold(0, |all, (_, bits)| all | bits);
        Some((chosen.map(|(label, _)| *label).collect(), value & !known))
    }
}

/// A text that ends with a NUL code unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StringClass {
    /// How its code units become characters.
    pub encoding: Encoding,
}

/// The length of an array, a text or a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Length {
    /// Fixed: elements of an array, bytes of a text or blob.
    Static(u64),
    /// The value of an unsigned integer field that comes before.
    Dynamic(FieldRef),
}

/// A text of known length in bytes, which ends earlier if it holds a NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextClass {
    /// Length in bytes, not in characters.
    pub length: Length,
    /// How its code units become characters.
    pub encoding: Encoding,
}

/// Bytes without a meaning that CTF knows (CTF 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobClass {
    /// Length in bytes.
    pub length: Length,
    /// IANA media type, for instance `image/png`.
    pub media_type: Option<String>,
    /// What it means to the reader of packets: a blob may be a packet's UUID.
    pub roles: Roles,
}

/// An array or, with a dynamic length, a sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayClass {
    /// Number of elements, not of bytes.
    pub length: Length,
    /// Smallest alignment of the whole, in bits (CTF 2); 1 for none.
    pub min_align: u32,
    /// Class that all elements have.
    pub element: Box<FieldClass>,
    /// Roles: the UUID of CTF 1.8 packet headers is an array.
    pub roles: Roles,
}

/// Members one after the other, each at its alignment.
#[derive(Debug, Clone, PartialEq)]
pub struct StructClass {
    /// Members in the order of the file.
    pub members: Vec<Member>,
    /// Smallest alignment of the whole, in bits; 1 for none.
    pub min_align: u32,
}

/// A member of a structure.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Name as it is shown; members of one structure have different names.
    pub name: String,
    /// What the member is.
    pub class: FieldClass,
}

/// A field of one of several classes, chosen by the value of a field that comes before.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantClass {
    /// The integer field that chooses.
    pub selector: FieldRef,
    /// The options; the selector's value chooses one of them.
    pub options: Vec<OptionClass>,
}

/// An option of a variant.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionClass {
    /// Name; may be missing in CTF 2, then empty.
    pub name: String,
    /// Values of the selector that choose this option.
    pub ranges: Vec<Range>,
    /// What the field is when this option is chosen.
    pub class: FieldClass,
}

/// A field that is there or not (CTF 2).
#[derive(Debug, Clone, PartialEq)]
pub struct OptionalClass {
    /// The boolean or integer field that tells.
    pub selector: FieldRef,
    /// Values of the selector that mean "there"; empty for a boolean selector.
    pub ranges: Vec<Range>,
    /// What the field is when it is there.
    pub class: Box<FieldClass>,
}

/// The parts of packets and events, in the order in which they are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// `trace.packet.header`
    PacketHeader,
    /// `stream.packet.context`
    PacketContext,
    /// `stream.event.header`
    EventHeader,
    /// `stream.event.context`
    CommonContext,
    /// `event.context`
    SpecificContext,
    /// `event.fields`
    Payload,
}

/// A reference to a field that was decoded before.
///
/// `path` names structure members from the scope's root. Arrays, variants and optionals on the way add no
/// element: the path goes through their current element, their chosen option, their content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRef {
    /// The part of packet or event in which the path begins.
    pub scope: Scope,
    /// Names of members, from the scope's structure to the field.
    pub path: Vec<String>,
}

impl FieldRef {
    /// The reference to a direct member of `scope`.
    #[must_use]
    pub fn member(scope: Scope, name: &str) -> FieldRef {
        FieldRef { scope, path: vec![name.to_owned()] }
    }
}

/// What the metadata says of a field: how its bits become a value, and how that is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldClass {
    /// See [`IntClass`].
    Int(IntClass),
    /// See [`FloatClass`].
    Float(FloatClass),
    /// See [`BoolClass`].
    Bool(BoolClass),
    /// See [`BitMapClass`].
    BitMap(BitMapClass),
    /// See [`EnumClass`].
    Enum(EnumClass),
    /// See [`StringClass`].
    String(StringClass),
    /// See [`TextClass`].
    Text(TextClass),
    /// See [`BlobClass`].
    Blob(BlobClass),
    /// See [`ArrayClass`].
    Array(ArrayClass),
    /// See [`StructClass`].
    Struct(StructClass),
    /// See [`VariantClass`].
    Variant(VariantClass),
    /// See [`OptionalClass`].
    Optional(OptionalClass),
}

impl Default for StructClass {
    fn default() -> Self {
        StructClass { members: Vec::new(), min_align: 1 }
    }
}

impl StructClass {
    /// A structure of `members` in this order, without an alignment of its own.
    #[must_use]
    pub fn new<N: Into<String>>(members: impl IntoIterator<Item = (N, FieldClass)>) -> StructClass {
        let members = members.into_iter().map(|(name, class)| Member { name: name.into(), class }).collect();
        StructClass { members, min_align: 1 }
    }

    /// The class of the member called `name`; `None` when there is none.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&FieldClass> {
        self.members.iter().find(|m| m.name == name).map(|m| &m.class)
    }
}

impl IntClass {
    /// A little-endian integer of `size` bits, byte-aligned, shown in decimal, without a role.
    #[must_use]
    pub fn new(size: u32, signed: bool) -> IntClass {
        IntClass {
            size,
            align: 8,
            signed,
            byte_order: ByteOrder::Little,
            base: Base::Decimal,
            coding: IntCoding::Fixed,
            encoding: None,
            clock: None,
            roles: Roles::NONE,
        }
    }

    /// The same with roles added.
    #[must_use]
    pub fn with_roles(mut self, roles: Roles) -> IntClass {
        self.roles |= roles;
        self
    }

    /// The same as a value of the trace's clock number `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: usize) -> IntClass {
        self.clock = Some(clock);
        self
    }

    /// The same shown in `base`.
    #[must_use]
    pub fn with_base(mut self, base: Base) -> IntClass {
        self.base = base;
        self
    }
}

impl FieldClass {
    /// An unsigned integer as [`IntClass::new`] makes it.
    #[must_use]
    pub fn uint(size: u32) -> FieldClass {
        FieldClass::Int(IntClass::new(size, false))
    }

    /// A signed integer as [`IntClass::new`] makes it.
    #[must_use]
    pub fn int(size: u32) -> FieldClass {
        FieldClass::Int(IntClass::new(size, true))
    }

    /// A little-endian, byte-aligned floating point number of 32 or 64 bits.
    #[must_use]
    pub fn float(size: u32) -> FieldClass {
        FieldClass::Float(FloatClass { size, align: 8, byte_order: ByteOrder::Little })
    }

    /// An 8-bit truth value.
    #[must_use]
    pub fn bool() -> FieldClass {
        FieldClass::Bool(BoolClass { size: 8, align: 8, byte_order: ByteOrder::Little })
    }

    /// A NUL-terminated UTF-8 text.
    #[must_use]
    pub fn string() -> FieldClass {
        FieldClass::String(StringClass::default())
    }

    /// A UTF-8 text of `length` bytes.
    #[must_use]
    pub fn text(length: Length) -> FieldClass {
        FieldClass::Text(TextClass { length, encoding: Encoding::Utf8 })
    }

    /// Bytes without a media type and without a role.
    #[must_use]
    pub fn blob(length: Length) -> FieldClass {
        FieldClass::Blob(BlobClass { length, media_type: None, roles: Roles::NONE })
    }

    /// An array of `length` elements, without an alignment of its own and without a role.
    #[must_use]
    pub fn array(length: Length, element: FieldClass) -> FieldClass {
        FieldClass::Array(ArrayClass { length, min_align: 1, element: Box::new(element), roles: Roles::NONE })
    }

    /// An enumeration over `int`, with labels for single values.
    #[must_use]
    pub fn enumeration<L: Into<String>>(
        int: IntClass,
        labels: impl IntoIterator<Item = (L, i64)>,
    ) -> FieldClass {
        let mapping =
            |(label, value): (L, i64)| Mapping { label: label.into(), ranges: vec![Range::one(value)] };
        FieldClass::Enum(EnumClass { int, mappings: labels.into_iter().map(mapping).collect() })
    }

    /// Alignment of the field in bits, from its own and its parts' alignments (CTF 1.8 section 4).
    #[must_use]
    pub fn align(&self) -> u32 {
        match self {
            FieldClass::Int(c) => c.effective_align(),
            FieldClass::Enum(c) => c.int.effective_align(),
            FieldClass::Float(c) => c.align,
            FieldClass::Bool(c) => c.align,
            FieldClass::BitMap(c) => c.align,
            FieldClass::String(_) | FieldClass::Text(_) | FieldClass::Blob(_) => 8,
            FieldClass::Array(c) => c.min_align.max(c.element.align()),
            FieldClass::Struct(c) => c.align(),
            FieldClass::Variant(_) | FieldClass::Optional(_) => 1,
        }
    }
}

impl IntClass {
    /// The alignment in force: variable-length integers lie on bytes.
    pub(crate) fn effective_align(&self) -> u32 {
        match self.coding {
            IntCoding::Fixed => self.align,
            IntCoding::Leb128 => self.align.max(8),
        }
    }
}

impl StructClass {
    /// Alignment of the structure in bits: the largest of its members and its own smallest.
    #[must_use]
    pub fn align(&self) -> u32 {
        self.members.iter().map(|m| m.class.align()).fold(self.min_align, u32::max)
    }
}

/// The values that an integer can have.
pub(crate) fn int_limits(int: &IntClass) -> Range {
    let bits = int.size.clamp(1, 64);
    if int.signed {
        Range { lower: -(1 << (bits - 1)), upper: (1 << (bits - 1)) - 1 }
    } else {
        Range { lower: 0, upper: (1 << bits) - 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_as_a_set_of_bits() {
        let class = |labels: &[(&str, i128)]| {
            let mapping = |(label, value): &(&str, i128)| Mapping {
                label: (*label).to_owned(),
                ranges: vec![Range::one(*value)],
            };
            EnumClass { int: IntClass::new(32, false), mappings: labels.iter().map(mapping).collect() }
        };
        let open = class(&[
            ("O_RDONLY", 0),
            ("O_WRONLY", 1),
            ("O_CREAT", 0x40),
            ("O_DSYNC", 0x1000),
            ("O_CLOEXEC", 0x80000),
            ("O_SYNC", 0x101000),
        ]);
        let prot = class(&[("PROT_NONE", 0), ("PROT_READ", 1), ("PROT_WRITE", 2)]);
        assert_eq!(open.flags(0x80000), Some((vec!["O_RDONLY", "O_CLOEXEC"], 0)));
        assert_eq!(open.flags(0x1041), Some((vec!["O_WRONLY", "O_CREAT", "O_DSYNC"], 0)));
        assert_eq!(open.flags(0x101041), Some((vec!["O_WRONLY", "O_CREAT", "O_SYNC"], 0)));
        assert_eq!(open.flags(0x241), Some((vec!["O_WRONLY", "O_CREAT"], 0x200)));
        assert_eq!(prot.flags(3), Some((vec!["PROT_READ", "PROT_WRITE"], 0)));
        assert_eq!(prot.flags(8), Some((vec![], 8)));
        assert_eq!(class(&[("A", 1), ("B", 2), ("C", 3)]).flags(5), None, "3 is no bit");
        assert_eq!((prot.flags(-1), class(&[]).flags(1)), (None, None));
    }
}
