//! Fields to bytes, by class: assembles packets for tests. The inverse of [`crate::decode`].

use crate::model::{ArrayClass, ByteOrder, FieldClass, IntClass, IntCoding, Length, StructClass, TextClass};
use crate::value::Value;
use thiserror::Error;

/// Why values cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// There are fewer values than the class needs.
    #[error("a value is missing")]
    Missing,
    /// There are more values than the class needs.
    #[error("values are left over")]
    LeftOver,
    /// A value is of another kind than its class.
    #[error("a value is of another kind than its class")]
    Mismatch,
    /// A text or blob is longer than its class.
    #[error("a text or blob is longer than its class")]
    TooLong,
}

/// Bytes written bit by bit; position 0 is the start of the packet, from which alignments count.
#[derive(Debug, Clone, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    bit: u64,
}

impl BitWriter {
    /// A writer at the start of a packet.
    #[must_use]
    pub fn new() -> BitWriter {
        BitWriter::default()
    }

    /// Position of the next field, in bits from the start of the packet.
    #[must_use]
    pub fn bit(&self) -> u64 {
        self.bit
    }

    /// The bytes so far; the last is filled up with zero bits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The packet as it is so far, filled up to whole bytes with zero bits.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Moves to the next multiple of `align` bits.
    pub fn align(&mut self, align: u32) {
        self.bit = self.bit.next_multiple_of(u64::from(align.max(1)));
        self.grow();
    }

    /// Moves on to byte `len`, with zeros; does nothing if it is behind.
    pub fn pad_to(&mut self, len: usize) {
        self.bit = self.bit.max(len as u64 * 8);
        self.grow();
    }

    /// Writes the low `size` bits of `value`, of which little-endian is the least significant first.
    pub fn put(&mut self, value: u64, size: u32, order: ByteOrder) {
        for index in 0..size.min(64) {
            let bit = match order {
                ByteOrder::Little | ByteOrder::BigReversed => value >> index & 1,
                ByteOrder::Big | ByteOrder::LittleReversed => value >> (size - 1 - index) & 1,
            };
            let inside = self.bit % 8;
            let place = if order.is_big() { 7 - inside } else { inside };
            self.bit += 1;
            self.grow();
            if let Some(last) = self.bytes.last_mut() {
                *last |= (bit as u8) << place;
            }
        }
    }

    /// Writes whole bytes, after moving to a byte.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.align(8);
        self.bytes.extend_from_slice(bytes);
        self.bit = self.bytes.len() as u64 * 8;
    }

    fn grow(&mut self) {
        self.bytes.resize(self.bit.div_ceil(8) as usize, 0);
    }
}

/// Writes a structure from its values in preorder, in the form in which [`crate::Fields::values`] gives them.
///
/// A dynamic array takes its number of elements from its `Count`; that the length field before it says the
/// same is the caller's part.
///
/// # Errors
/// Values that do not fit the class.
pub fn encode_struct(
    class: &StructClass,
    values: &[Value<'_>],
    out: &mut BitWriter,
) -> Result<(), EncodeError> {
    let mut encoder = Encoder { values: values.iter(), out };
    encoder.structure(class)?;
    if encoder.values.len() == 0 { Ok(()) } else { Err(EncodeError::LeftOver) }
}

struct Encoder<'a, 'w> {
    values: std::slice::Iter<'a, Value<'a>>,
    out: &'w mut BitWriter,
}

impl<'a> Encoder<'a, '_> {
    fn next(&mut self) -> Result<Value<'a>, EncodeError> {
        self.values.next().copied().ok_or(EncodeError::Missing)
    }

    fn structure(&mut self, class: &StructClass) -> Result<(), EncodeError> {
        self.out.align(class.align());
        class.members.iter().try_for_each(|member| self.field(&member.class))
    }

    fn field(&mut self, class: &FieldClass) -> Result<(), EncodeError> {
        match class {
            FieldClass::Struct(class) => return self.structure(class),
            FieldClass::Array(class) => return self.array(class),
            _ => {}
        }
        match (class, self.next()?) {
            (FieldClass::Int(int), value) => self.integer(int, value),
            (FieldClass::Enum(class), value) => self.integer(&class.int, value),
            (FieldClass::Bool(c), Value::Bool(value)) => {
                self.fixed(u64::from(value), c.size, c.align, c.byte_order)
            }
            (FieldClass::BitMap(c), Value::U64(value)) => self.fixed(value, c.size, c.align, c.byte_order),
            (FieldClass::Float(c), Value::F64(value)) => {
                self.fixed(float_bits(value, c.size), c.size, c.align, c.byte_order)
            }
            (FieldClass::String(class), Value::Str(text)) => {
                self.out.put_bytes(text);
                self.out.put_bytes(&[0; 4][..class.encoding.unit()]);
                Ok(())
            }
            (FieldClass::Text(TextClass { length, .. }), Value::Str(bytes)) => self.bytes(length, bytes),
            (FieldClass::Blob(class), Value::Bytes(bytes)) => self.bytes(&class.length, bytes),
            (FieldClass::Variant(class), Value::Selected(index)) => {
                self.field(&class.options.get(index as usize).ok_or(EncodeError::Mismatch)?.class)
            }
            (FieldClass::Optional(_), Value::Count(0)) => Ok(()),
            (FieldClass::Optional(class), Value::Count(1)) => self.field(&class.class),
            _ => Err(EncodeError::Mismatch),
        }
    }

    fn array(&mut self, class: &ArrayClass) -> Result<(), EncodeError> {
        let count = match &class.length {
            Length::Static(n) => *n,
            Length::Dynamic(_) => match self.next()? {
                Value::Count(n) => u64::from(n),
                _ => return Err(EncodeError::Mismatch),
            },
        };
        self.out.align(class.min_align.max(class.element.align()));
        (0..count).try_for_each(|_| self.field(&class.element))
    }

    fn integer(&mut self, int: &IntClass, value: Value<'_>) -> Result<(), EncodeError> {
        let raw = match value {
            Value::U64(value) if !int.signed => value,
            Value::I64(value) if int.signed => value.cast_unsigned(),
            _ => return Err(EncodeError::Mismatch),
        };
        match int.coding {
            IntCoding::Fixed => self.fixed(raw, int.size, int.align, int.byte_order),
            IntCoding::Leb128 => {
                self.out.align(int.effective_align());
                self.leb128(raw, int.signed);
                Ok(())
            }
        }
    }

    fn leb128(&mut self, raw: u64, signed: bool) {
        let mut rest = if signed { i128::from(raw.cast_signed()) } else { i128::from(raw) };
        loop {
            let low = (rest & 0x7f) as u8;
            rest >>= 7;
            let done = if signed { rest == -i128::from(low >> 6) } else { rest == 0 };
            self.out.put_bytes(&[if done { low } else { low | 0x80 }]);
            if done {
                return;
            }
        }
    }

    fn fixed(&mut self, raw: u64, size: u32, align: u32, order: ByteOrder) -> Result<(), EncodeError> {
        self.out.align(align);
        self.out.put(raw, size, order);
        Ok(())
    }

    /// Bytes of a text or blob, filled up with zeros to a static length.
    fn bytes(&mut self, length: &Length, bytes: &[u8]) -> Result<(), EncodeError> {
        self.out.put_bytes(bytes);
        if let Length::Static(length) = length {
            let missing = length.checked_sub(bytes.len() as u64).ok_or(EncodeError::TooLong)?;
            let end = self.out.bytes.len().saturating_add(usize::try_from(missing).unwrap_or(usize::MAX));
            self.out.pad_to(end);
        }
        Ok(())
    }
}

/// The bits of a number in a format of `size` bits.
fn float_bits(value: f64, size: u32) -> u64 {
    match size {
        16 => half_bits(value),
        32 => u64::from((value as f32).to_bits()),
        _ => value.to_bits(),
    }
}

/// The nearest IEEE 754 binary16 to `value`, by way of the distance between its neighbours.
fn half_bits(value: f64) -> u64 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    let exponent = (magnitude.log2().floor()).clamp(-14.0, 15.0) as i32;
    let steps = (magnitude / 2.0_f64.powi(exponent - 10)).round_ties_even() as u64;
    // Normal numbers have 1024 to 2047 steps; 2048 steps carry into the exponent, fewer than 1024 are
    // subnormal.
    sign | (((exponent + 14) as u64) * 1024 + steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_lie_as_the_byte_order_says() {
        let mut out = BitWriter::new();
        out.put(0b101, 3, ByteOrder::Little);
        out.put(0x1ff, 9, ByteOrder::Little);
        assert_eq!(out.as_bytes(), [0b1111_1101, 0b0000_1111]);
        let mut out = BitWriter::new();
        out.put(0b101, 3, ByteOrder::Big);
        out.put(0x1fe, 9, ByteOrder::Big);
        assert_eq!(out.as_bytes(), [0b1011_1111, 0b1110_0000]);
    }

    #[test]
    fn half_floats() {
        for (value, bits) in [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (1e9, 0x7c00),
            (2.0_f64.powi(-24), 1),
            (0.0, 0),
        ] {
            assert_eq!(half_bits(value), bits, "{value}");
        }
    }

    #[test]
    fn wrong_values_are_errors() {
        let class = StructClass::new([("a", FieldClass::uint(8)), ("b", FieldClass::string())]);
        let mut out = BitWriter::new();
        assert_eq!(encode_struct(&class, &[Value::U64(1)], &mut out), Err(EncodeError::Missing));
        assert_eq!(
            encode_struct(&class, &[Value::I64(1), Value::Str(b"")], &mut out),
            Err(EncodeError::Mismatch)
        );
        let three = [Value::U64(1), Value::Str(b""), Value::U64(1)];
        assert_eq!(encode_struct(&class, &three, &mut out), Err(EncodeError::LeftOver));
    }
}
