//! Types of fields, and how each lies in a record.
//!
//! | type | in the record |
//! |---|---|
//! | integers, floats | their bytes, little-endian |
//! | `bool` | one byte, 0 or 1 |
//! | `str` | its bytes up to the first NUL, then a NUL |
//! | `bytes`, sequences | `u16` count, then the elements |
//! | arrays | the elements |
//! | enumerations, flags | the integer |
//! | fixed text | so many bytes; the text ends at the first NUL, if there is one |
//!
//! Fixed texts and flags are there for events of the kernel; descriptions have them, the macros do not.

/// Number of bits and whether signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// 8, 16, 32 or 64.
    pub bits: u8,
    /// Two's complement; else unsigned.
    pub signed: bool,
    /// Shown in base 16, as addresses are.
    pub hex: bool,
}

/// A type of one value of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// An integer.
    Integer(Integer),
    /// IEEE 754 single.
    F32,
    /// IEEE 754 double.
    F64,
    /// Truth value.
    Bool,
}

impl Scalar {
    /// The unsigned integer of `bits` bits: 8, 16, 32 or 64.
    pub const fn unsigned(bits: u8) -> Scalar {
        Scalar::Integer(Integer { bits, signed: false, hex: false })
    }

    /// The signed integer of `bits` bits: 8, 16, 32 or 64.
    pub const fn signed(bits: u8) -> Scalar {
        Scalar::Integer(Integer { bits, signed: true, hex: false })
    }

    /// Bytes that a value takes in a record.
    pub const fn bytes(self) -> usize {
        match self {
            Scalar::Integer(integer) => integer.bits as usize / 8,
            Scalar::F32 => 4,
            Scalar::F64 => 8,
            Scalar::Bool => 1,
        }
    }

    /// How descriptions of events spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::Integer(Integer { bits: 8, signed: false, hex: false }) => "u8",
            Scalar::Integer(Integer { bits: 16, signed: false, hex: false }) => "u16",
            Scalar::Integer(Integer { bits: 32, signed: false, hex: false }) => "u32",
            Scalar::Integer(Integer { signed: false, hex: false, .. }) => "u64",
            Scalar::Integer(Integer { bits: 8, signed: true, .. }) => "i8",
            Scalar::Integer(Integer { bits: 16, signed: true, .. }) => "i16",
            Scalar::Integer(Integer { bits: 32, signed: true, .. }) => "i32",
            Scalar::Integer(Integer { signed: true, .. }) => "i64",
            Scalar::Integer(Integer { bits: 8, .. }) => "x8",
            Scalar::Integer(Integer { bits: 16, .. }) => "x16",
            Scalar::Integer(Integer { bits: 32, .. }) => "x32",
            Scalar::Integer(_) => "x64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
            Scalar::Bool => "bool",
        }
    }

    /// All that have a name.
    pub const ALL: [Scalar; 15] = [
        Scalar::unsigned(8),
        Scalar::unsigned(16),
        Scalar::unsigned(32),
        Scalar::unsigned(64),
        Scalar::signed(8),
        Scalar::signed(16),
        Scalar::signed(32),
        Scalar::signed(64),
        Scalar::hex(8),
        Scalar::hex(16),
        Scalar::hex(32),
        Scalar::hex(64),
        Scalar::F32,
        Scalar::F64,
        Scalar::Bool,
    ];

    /// An unsigned integer that is shown in base 16.
    pub const fn hex(bits: u8) -> Scalar {
        Scalar::Integer(Integer { bits, signed: false, hex: true })
    }
}

/// The type of a field, as a program states it at compile time.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// One value.
    Scalar(Scalar),
    /// Text.
    Str,
    /// Raw bytes.
    Bytes,
    /// A fixed number of values.
    Array(Scalar, usize),
    /// A varying number of values, at most 65,535.
    Sequence(Scalar),
    /// An integer with named values: label, first and last value that it names.
    Enumeration(Scalar, &'static [(&'static str, i64, i64)]),
}
