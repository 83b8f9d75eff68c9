//! Decoded values: a flat list in preorder, and views that walk it beside the schema.
//!
//! A leaf field gives one value. A dynamic array gives [`Value::Count`] and then its elements, an optional
//! `Count(0)` or `Count(1)` and then its content, a variant [`Value::Selected`] and then the chosen option.
//! Structures and static arrays give nothing of their own.

use crate::model::{ArrayClass, FieldClass, Length, StructClass};

/// A decoded value; texts and bytes are borrowed from the packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Unsigned integer, enumeration over one, bit array.
    U64(u64),
    /// Signed integer, enumeration over one.
    I64(i64),
    /// Floating point number.
    F64(f64),
    /// Truth value.
    Bool(bool),
    /// Text without its NUL, as it stands in the packet: not checked to be valid, in the class's encoding.
    Str(&'a [u8]),
    /// Blob.
    Bytes(&'a [u8]),
    /// Number of elements that follow.
    Count(u32),
    /// Index of the chosen option in [`crate::model::VariantClass::options`]; its values follow.
    Selected(u32),
}

/// A value as the decoder keeps it: texts by place, so that no lifetime stands in the way of reuse. Kind
/// and bits lie apart, so that a fixed-size field is stored without a branch on its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slot {
    /// Integers and counts as they are, signed ones in two's complement; the bits of a double; a text's
    /// offset.
    pub(crate) bits: u64,
    /// A text's or blob's length.
    pub(crate) len: u32,
    pub(crate) tag: Tag,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    U64,
    I64,
    F64,
    Bool,
    Str,
    Bytes,
    Count,
    Selected,
}

impl Slot {
    #[inline(always)]
    pub(crate) fn new(tag: Tag, bits: u64) -> Slot {
        Slot { bits, len: 0, tag }
    }

    /// A text or blob.
    #[inline]
    pub(crate) fn span(tag: Tag, start: u64, len: usize) -> Slot {
        Slot { bits: start, len: len as u32, tag }
    }

    #[inline]
    pub(crate) fn resolve(self, bytes: &[u8]) -> Value<'_> {
        match self.tag {
            Tag::U64 => Value::U64(self.bits),
            Tag::I64 => Value::I64(self.bits.cast_signed()),
            Tag::F64 => Value::F64(f64::from_bits(self.bits)),
            Tag::Bool => Value::Bool(self.bits != 0),
            Tag::Str => Value::Str(self.cut(bytes)),
            Tag::Bytes => Value::Bytes(self.cut(bytes)),
            Tag::Count => Value::Count(self.bits as u32),
            Tag::Selected => Value::Selected(self.bits as u32),
        }
    }

    /// The number of elements, if this is a count.
    fn count(self) -> Option<u64> {
        (self.tag == Tag::Count).then_some(self.bits)
    }

    /// The bytes of a text or blob.
    #[inline]
    fn cut(self, bytes: &[u8]) -> &[u8] {
        let start = self.bits as usize;
        bytes.get(start..start + self.len as usize).unwrap_or(&[])
    }
}

/// The values of a scope (header, context, payload) or of a structure in it.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    pub(crate) class: &'a StructClass,
    pub(crate) slots: &'a [Slot],
    pub(crate) bytes: &'a [u8],
}

/// A field with its values.
#[derive(Debug, Clone, Copy)]
pub struct Field<'a> {
    /// Name of the member or option; empty for elements and contents.
    pub name: &'a str,
    /// What the metadata says of it.
    pub class: &'a FieldClass,
    pub(crate) slots: &'a [Slot],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// What the metadata says of the structure.
    #[must_use]
    pub fn class(&self) -> &'a StructClass {
        self.class
    }

    /// All values in preorder: each structure, array or variant before its parts.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let bytes = self.bytes;
        self.slots.iter().map(move |s| s.resolve(bytes))
    }

    /// The members. Costs a walk over the values of each member passed.
    #[must_use]
    pub fn iter(&self) -> Members<'a> {
        Members { class: self.class, next: 0, slots: self.slots, bytes: self.bytes }
    }

    /// The member called `name`.
    ///
    /// # Cost
    /// A walk over the members before it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Field<'a>> {
        self.iter().find(|f| f.name == name)
    }

    /// The value of the leaf member called `name`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value<'a>> {
        self.get(name)?.value()
    }

    /// The integer member called `name`.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i128> {
        self.get(name)?.integer()
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = Field<'a>;
    type IntoIter = Members<'a>;
    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

/// Iterator over the members of [`Fields`].
#[derive(Debug, Clone)]
pub struct Members<'a> {
    class: &'a StructClass,
    next: usize,
    slots: &'a [Slot],
    bytes: &'a [u8],
}

impl<'a> Iterator for Members<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let member = self.class.members.get(self.next)?;
        self.next += 1;
        let (slots, rest) = split(&member.class, self.slots);
        self.slots = rest;
        Some(Field { name: &member.name, class: &member.class, slots, bytes: self.bytes })
    }
}

impl<'a> Field<'a> {
    /// The field's own value: of a leaf its value, of a dynamic array or optional the count, of a variant
    /// the option's index; `None` of structures and static arrays.
    #[must_use]
    pub fn value(&self) -> Option<Value<'a>> {
        match self.class {
            FieldClass::Struct(_) | FieldClass::Array(ArrayClass { length: Length::Static(_), .. }) => None,
            _ => self.slots.first().map(|s| s.resolve(self.bytes)),
        }
    }

    /// The value, if it is an integer, enumeration, bit array or truth value.
    #[must_use]
    pub fn integer(&self) -> Option<i128> {
        match self.value()? {
            Value::U64(v) => Some(v.into()),
            Value::I64(v) => Some(v.into()),
            Value::Bool(v) => Some(v.into()),
            _ => None,
        }
    }

    /// The first label of an enumeration's value.
    #[must_use]
    pub fn label(&self) -> Option<&'a str> {
        match self.class {
            FieldClass::Enum(class) => class.labels(self.integer()?).next(),
            _ => None,
        }
    }

    /// The fields inside: members of a structure, elements of an array, the chosen option, the content.
    #[must_use]
    pub fn children(&self) -> Children<'a> {
        let (left, slots) = match (self.class, self.slots) {
            (FieldClass::Struct(c), slots) => (c.members.len() as u64, slots),
            (FieldClass::Array(ArrayClass { length: Length::Static(n), .. }), slots) => (*n, slots),
            (FieldClass::Array(_) | FieldClass::Optional(_), [first, slots @ ..]) => {
                (first.count().unwrap_or(0), slots)
            }
            (FieldClass::Variant(_), [_, slots @ ..]) => (1, slots),
            _ => (0, &[][..]),
        };
        Children { of: *self, index: 0, left, slots }
    }
}

/// Iterator over the fields inside a field.
#[derive(Debug, Clone)]
pub struct Children<'a> {
    of: Field<'a>,
    index: usize,
    left: u64,
    slots: &'a [Slot],
}

impl<'a> Iterator for Children<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (name, class) = match (self.of.class, self.of.slots.first()) {
            (FieldClass::Struct(c), _) => c.members.get(self.index).map(|m| (m.name.as_str(), &m.class))?,
            (FieldClass::Array(c), _) => ("", &*c.element),
            (FieldClass::Optional(c), _) => ("", &*c.class),
            (FieldClass::Variant(c), Some(selected)) => {
                c.options.get(selected.bits as usize).map(|o| (o.name.as_str(), &o.class))?
            }
            _ => return None,
        };
        self.index += 1;
        let (slots, rest) = split(class, self.slots);
        self.slots = rest;
        Some(Field { name, class, slots, bytes: self.of.bytes })
    }
}

/// Cuts the values of one field of `class` from the front of `slots`.
fn split<'a>(class: &FieldClass, slots: &'a [Slot]) -> (&'a [Slot], &'a [Slot]) {
    let rest = skip(class, slots);
    slots.split_at(slots.len() - rest.len())
}

/// What follows one field of `class` in `slots`.
fn skip<'a>(class: &FieldClass, slots: &'a [Slot]) -> &'a [Slot] {
    let after = slots.get(1..).unwrap_or(&[]);
    match (class, slots.first()) {
        (FieldClass::Struct(c), _) => c.members.iter().fold(slots, |rest, m| skip(&m.class, rest)),
        (FieldClass::Array(ArrayClass { length: Length::Static(n), element, .. }), _) => {
            skip_many(element, *n, slots)
        }
        (FieldClass::Array(c), Some(slot)) => skip_many(&c.element, slot.count().unwrap_or(0), after),
        (FieldClass::Optional(c), Some(slot)) => skip_many(&c.class, slot.count().unwrap_or(0), after),
        (FieldClass::Variant(c), Some(slot)) => {
            c.options.get(slot.bits as usize).map_or(after, |o| skip(&o.class, after))
        }
        _ => after,
    }
}

fn skip_many<'a>(class: &FieldClass, count: u64, slots: &'a [Slot]) -> &'a [Slot] {
    let mut rest = slots;
    for _ in 0..count {
        if rest.is_empty() {
            break;
        }
        rest = skip(class, rest);
    }
    rest
}
