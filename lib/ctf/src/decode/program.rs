//! Programs: what a scope of a packet or event is compiled to.
//!
//! Neighbouring fixed-size fields at known distances become one [`Run`], decoded with one bounds check.
//! Everything else is an operation of its own. [`super::compile`] makes programs, [`super::machine`] runs
//! them.

use crate::value::Tag;

/// A program.
pub(crate) type Program = Box<[Op]>;

/// A program of which the commonest kind, one run alone, lies in place: fewer loads stand between one
/// event's position and the next one's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Run(Run),
    Ops(Program),
}

impl From<Program> for Body {
    fn from(program: Program) -> Body {
        match <Box<[Op; 1]>>::try_from(program) {
            Ok(single) => match *single {
                [Op::Run(run)] if run.effects.is_empty() => Body::Run(run),
                ops => Body::Ops(Box::new(ops)),
            },
            Err(program) => Body::Ops(program),
        }
    }
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    /// Fixed-size fields at known distances.
    Run(Run),
    /// A fixed-size field at any bit position.
    Bits(Bits),
    /// A variable-length integer.
    Leb128 { align: u64, kind: Kind, effects: Box<[Effect]> },
    /// Moves to a multiple of so many bits.
    Align(u64),
    /// A text up to a NUL of `unit` bytes.
    Terminated { unit: u8 },
    /// A text of known length, cut at its first NUL of `unit` bytes.
    Text { length: Count, unit: u8 },
    /// Bytes of known length.
    Blob { length: Count },
    /// Reads a UUID without moving.
    PeekUuid,
    /// Elements of `body`, each of at least `min_bits`.
    Array { length: Count, min_bits: u64, body: Program },
    /// Elements that are byte-aligned scalars without gaps.
    Scalars { length: Count, scalar: Scalar, stride: u32 },
    /// One of several programs.
    Variant { selector: u16, options: Box<[Choice]> },
    /// A program that runs or not.
    Optional { selector: u16, ranges: Option<Box<[(i128, i128)]>>, body: Program },
    /// Notes the number of values so far as the end of a scope.
    EndScope(usize),
}

/// An option of [`Op::Variant`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) ranges: Box<[(i128, i128)]>,
    pub(crate) body: Program,
}

/// A count: fixed, or the value of a register.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Count {
    Static(u64),
    Register(u16),
}

/// Fields at fixed distances from a base.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    /// Alignment of the base in bits, a multiple of 8.
    pub(crate) align: u64,
    /// Bits from the base to the end of the last field.
    pub(crate) bits: u64,
    /// Bytes from the base that 8-byte loads of all fields may touch.
    pub(crate) window: usize,
    pub(crate) fields: Box<[Scalar]>,
    /// The unsigned field that tells the event's class.
    pub(crate) event_class: Option<Scalar>,
    /// The unsigned field that moves the clock, and its size.
    pub(crate) clock: Option<(Scalar, u32)>,
    /// What else to do with some of the values: index of the field, effect.
    pub(crate) effects: Box<[(u32, Effect)]>,
}

/// A fixed-size field within an 8-byte load: `(load << left) >> right` are its bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) byte: u32,
    pub(crate) left: u8,
    pub(crate) right: u8,
    pub(crate) big: bool,
    pub(crate) tag: Tag,
    /// The bits are not the value: a small floating point number.
    pub(crate) small_float: bool,
    /// The sign bit of a signed field, else 0: `(bits ^ sign) - sign` extends the sign.
    pub(crate) sign: u64,
}

/// A fixed-size field anywhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bits {
    pub(crate) align: u64,
    pub(crate) size: u32,
    pub(crate) big: bool,
    /// The first bit in the stream is the last one of the field.
    pub(crate) reversed: bool,
    pub(crate) kind: Kind,
    pub(crate) effects: Box<[Effect]>,
}

/// What a field's bits mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Unsigned,
    Signed,
    Bool,
    F16,
    F32,
    F64,
}

impl Kind {
    /// The kind of value that comes of it.
    #[inline(always)]
    pub(crate) fn tag(self) -> Tag {
        match self {
            Kind::Unsigned => Tag::U64,
            Kind::Signed => Tag::I64,
            Kind::Bool => Tag::Bool,
            Kind::F16 | Kind::F32 | Kind::F64 => Tag::F64,
        }
    }
}

/// What else happens with a decoded integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Keeps it as a length or selector.
    Save(u16),
    /// It is the low `bits` of the clock.
    Clock {
        bits: u32,
    },
    EventClass,
    Magic,
    StreamClass,
    StreamId,
    ContentBits,
    PacketBits,
    SequenceNumber,
    Discarded,
    EndClock {
        bits: u32,
    },
    Cpu,
}
