//! What is known of a register, or of what was spilled to the stack.

use super::rejection::{Known, Pointee};
use super::scalar::Scalar;

/// What a register holds: a number, or what it points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nothing that may be read.
    #[default]
    Nothing = 0,
    /// A number.
    Number = 1,
    /// A pointer into the context.
    Context = 2,
    /// A map itself.
    Map = 3,
    /// A pointer into a value of a map.
    Value = 4,
    /// A pointer into the stack of a frame.
    Stack = 5,
    /// A pointer into the memory that the program was entered with.
    Memory = 6,
    /// A pointer into the bytes of a context word.
    Bytes = 7,
    /// A pointer into a text or sequence, known by its distance from the start.
    Start = 8,
    /// A pointer into a text or sequence, known by its distance from the end.
    End = 9,
    /// A pointer into a record.
    Record = 10,
}

impl Kind {
    /// All of them by their numbers.
    pub(crate) const ALL: [Kind; 11] = [
        Kind::Nothing,
        Kind::Number,
        Kind::Context,
        Kind::Map,
        Kind::Value,
        Kind::Stack,
        Kind::Memory,
        Kind::Bytes,
        Kind::Start,
        Kind::End,
        Kind::Record,
    ];
}

/// What is known of a register.
///
/// # Texts and sequences
/// A `Start` pointer is `base + since`: the base is the start itself while `id` is 0, else a place at a distance that
/// is not known exactly, which all pointers of this `id` share. From the base on, `range` bytes are known to be there
/// (-1: not even that the base is not behind the end). `number` is the distance from the start. An `End` pointer is
/// `number` (a constant) behind the end; `range` bytes are known to lie before the end.
///
/// A number with an `object` is the length of the text or sequence of word `object - 1`, less `since`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Whether it is a number, or what it points to.
    pub kind: Kind,
    /// True if it may be null instead.
    pub or_null: bool,
    /// Index of the map, number of the frame, index of the word, or bytes of the record.
    pub object: u32,
    /// Values of the same id, when it is not 0, are the same (numbers), have the same base (`Start`), come from the
    /// same call (others).
    pub id: u32,
    /// Distance from the base, in bytes.
    pub since: i32,
    /// Bytes known to be there, from the base or before the end.
    pub range: i32,
    /// The number, or the offset of the pointer.
    pub number: Scalar,
}

impl Value {
    /// Nothing that may be read.
    pub(crate) const NOTHING: Value = Value {
        kind: Kind::Nothing,
        or_null: false,
        object: 0,
        id: 0,
        since: 0,
        range: 0,
        number: Scalar::ZEROS,
    };

    /// The value of a register that holds a number of which so much is known.
    pub(crate) const fn number(number: Scalar) -> Value {
        Value { kind: Kind::Number, number, ..Value::NOTHING }
    }

    /// A pointer to the beginning of something.
    pub(crate) const fn pointer(kind: Kind, object: u32) -> Value {
        Value { kind, object, number: Scalar::constant(0), ..Value::NOTHING }
    }

    /// Whether it is a pointer, or null.
    pub const fn is_pointer(&self) -> bool {
        !matches!(self.kind, Kind::Nothing | Kind::Number)
    }

    /// Whether it is a number.
    pub const fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number)
    }

    /// The same in the words of a rejection, for people.
    pub fn known(&self) -> Known {
        let object = self.object;
        let to = match self.kind {
            Kind::Nothing => return Known::Uninitialised,
            Kind::Number => return known_number(&self.number),
            Kind::Context => Pointee::Context,
            Kind::Map => Pointee::Map(object),
            Kind::Value => Pointee::Value(object),
            Kind::Stack => Pointee::Stack(object),
            Kind::Memory => Pointee::Memory,
            Kind::Bytes => Pointee::Bytes(object),
            Kind::Start => Pointee::Start(object),
            Kind::End => Pointee::End(object),
            Kind::Record => Pointee::Record(object),
        };
        let offset = self.number.wide;
        Known::Pointer { to, or_null: self.or_null, min: offset.smin, max: offset.smax }
    }
}

fn known_number(number: &Scalar) -> Known {
    let wide = number.wide;
    match number.as_constant() {
        Some(value) => Known::Constant(value),
        None if wide.umax < u64::MAX && wide.umax - wide.umin <= wide.smax.abs_diff(wide.smin) => {
            Known::Unsigned(wide.umin, wide.umax)
        }
        None if wide.smin > i64::MIN || wide.smax < i64::MAX => Known::Signed(wide.smin, wide.smax),
        None if wide.umin > 0 => Known::Unsigned(wide.umin, wide.umax),
        None => Known::Number,
    }
}
