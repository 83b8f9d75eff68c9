//! How the fields of an event lie in the context of a filter: 8-byte words, in the order of the fields.
//!
//! | field | words |
//! |---|---|
//! | integers, enumerations | the value, extended to 64 bits by its sign or by zeros |
//! | `bool` | 0 or 1 |
//! | floats | the value as a double's bits |
//! | `str` | where it begins, where it ends (without a NUL) |
//! | `bytes`, sequences | where the first element begins, where the last one ends |
//! | arrays | where the first element begins |
//! | fixed texts | as `str`; the end is at the first NUL, or behind the last byte |
//!
//! Both the probe, which fills the words, and the compiler of filters, which reads them, go by this.
//!
//! # What a filter answers
//! [`DROP`], [`RECORD`], [`SPECULATE`] or what the helper `speculation` has returned ([`KEPT`]) in `r0`; any other
//! number is taken as [`RECORD`].

use crate::parse::{Description, FieldType};
use crate::types::{Scalar, Type};
use mote_bpf::Word;

/// The event is not recorded.
pub const DROP: u64 = 0;
/// The event is recorded in the ring.
pub const RECORD: u64 = 1;
/// The event is kept aside with the others of its thread's speculation; recorded in the ring when none is open.
pub const SPECULATE: u64 = 2;
/// The event is kept aside with others of the same key: the lowest byte of the verdict. The slot of the speculation is
/// in bits 8..16, its number in bits 16..48.
pub const KEPT: u64 = 3;

/// The words of a field; the second one is there for texts and sequences only.
pub fn words_of(ty: &FieldType<'_>) -> (Word, Option<Word>) {
    match *ty {
        FieldType::Scalar(scalar)
        | FieldType::Enumeration(scalar, _)
        | FieldType::Flags(scalar, _)
        | FieldType::Labelled(scalar, _) => (number(scalar), None),
        FieldType::Array(scalar, count) => (Word::Bytes((scalar.bytes() * count) as u32), None),
        FieldType::Str | FieldType::Bytes | FieldType::Sequence(_) | FieldType::FixedText(_) => {
            (Word::Start, Some(Word::End))
        }
    }
}

/// The words of all fields of an event, in order.
pub fn words<'a>(event: &Description<'a>) -> impl Iterator<Item = Word> + use<'a> {
    event.fields().flat_map(|field| {
        let (first, second) = words_of(&field.ty);
        core::iter::once(first).chain(second)
    })
}

/// How many words a field has.
pub const fn count(ty: &Type) -> usize {
    match ty {
        Type::Scalar(_) | Type::Enumeration(..) | Type::Array(..) => 1,
        Type::Str | Type::Bytes | Type::Sequence(_) => 2,
    }
}

fn number(scalar: Scalar) -> Word {
    match scalar {
        Scalar::Integer(integer) => Word::Number { bits: integer.bits, signed: integer.signed },
        Scalar::Bool => Word::Number { bits: 8, signed: false },
        Scalar::F32 | Scalar::F64 => Word::Number { bits: 64, signed: false },
    }
}
