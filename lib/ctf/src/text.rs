//! Text of events as babeltrace2 prints it (`{ a = 1, b = "x", c = [ [0] = 7 ] }`), character for character.
//!
//! The printer walks the schema beside the flat list of values, so each value is looked at once.
//!
//! # Cost
//! A few nanoseconds a field, no allocation but the growth of `out`.

use crate::decode::Event;
use crate::model::{
    ArrayClass, Base, BitMapClass, Encoding, EnumClass, FieldClass, IntClass, IntCoding, Length, Roles,
    StructClass,
};
use crate::value::{Field, Fields, Slot, Value};
use std::io::Write;

/// Appends `{ name = value, ... }`, or `{ }`.
pub fn fields(out: &mut Vec<u8>, fields: Fields<'_>) {
    Printer::new(out, fields.slots, fields.bytes).structure(fields.class);
}

/// Appends the value of one field, without its name.
pub fn field(out: &mut Vec<u8>, field: Field<'_>) {
    Printer::new(out, field.slots, field.bytes).field(field.class);
}

/// Appends what stands after `name: ` in babeltrace2's line: `{ cpu_id = 1 }, { vpid = 7 }, { x = 1 }`.
///
/// `packet_context` is [`crate::Cursor::packet_context`]; its members with a role (times, sizes, counters) are
/// not shown.
pub fn body(out: &mut Vec<u8>, packet_context: Fields<'_>, event: &Event<'_>) {
    let begin = out.len();
    context(out, packet_context);
    let scopes = [
        (event.stream.common_context.is_some(), event.common()),
        (event.class.specific_context.is_some(), event.specific()),
        (event.class.payload.is_some(), event.payload()),
    ];
    for (there, scope) in scopes {
        if there {
            if out.len() > begin {
                out.extend_from_slice(b", ");
            }
            fields(out, scope);
        }
    }
}

/// Appends the members of a packet context that have no role; nothing if there are none.
pub fn context(out: &mut Vec<u8>, packet_context: Fields<'_>) {
    let mut separator: &[u8] = b"{ ";
    for member in packet_context {
        if !has_role(member.class) {
            out.extend_from_slice(separator);
            out.extend_from_slice(member.name.as_bytes());
            out.extend_from_slice(b" = ");
            field(out, member);
            separator = b", ";
        }
    }
    if separator == b", " {
        out.extend_from_slice(b" }");
    }
}

fn has_role(class: &FieldClass) -> bool {
    match class {
        FieldClass::Int(int) => int.roles != Roles::NONE,
        FieldClass::Enum(class) => class.int.roles != Roles::NONE,
        _ => false,
    }
}

/// Takes values from the front of a list while it walks the schema.
struct Printer<'a, 'o> {
    out: &'o mut Vec<u8>,
    slots: std::slice::Iter<'a, Slot>,
    bytes: &'a [u8],
}

impl<'a, 'o> Printer<'a, 'o> {
    fn new(out: &'o mut Vec<u8>, slots: &'a [Slot], bytes: &'a [u8]) -> Self {
        Printer { out, slots: slots.iter(), bytes }
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn decimal(&mut self, value: impl itoa::Integer) {
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn structure(&mut self, class: &StructClass) {
        self.put("{");
        let mut separator = " ";
        for member in &class.members {
            self.put(separator);
            self.put(&member.name);
            self.put(" = ");
            self.field(&member.class);
            separator = ", ";
        }
        self.put(" }");
    }

    fn field(&mut self, class: &FieldClass) {
        match class {
            FieldClass::Struct(class) => return self.structure(class),
            FieldClass::Array(class) => return self.array(class),
            _ => {}
        }
        let Some(slot) = self.slots.next() else { return };
        match (class, slot.resolve(self.bytes)) {
            (FieldClass::Int(int), value) => self.integer(int, value),
            (FieldClass::Enum(class), value) => self.enumeration(class, value),
            (FieldClass::BitMap(class), Value::U64(value)) => self.bit_map(class, value),
            (FieldClass::Float(_), Value::F64(value)) => float(self.out, value),
            (FieldClass::Bool(_), Value::Bool(value)) => self.put(if value { "true" } else { "false" }),
            (FieldClass::String(class), Value::Str(text)) => self.text(text, class.encoding),
            (FieldClass::Text(class), Value::Str(text)) => self.text(text, class.encoding),
            (FieldClass::Blob(_), Value::Bytes(bytes)) => self.blob(bytes),
            (FieldClass::Optional(class), Value::Count(1)) => {
                self.put("{ ");
                self.field(&class.class);
                self.put(" }");
            }
            (FieldClass::Optional(_), _) => self.put("<none>"),
            (FieldClass::Variant(class), Value::Selected(index)) => {
                self.put("{ ");
                if let Some(option) = class.options.get(index as usize) {
                    self.field(&option.class);
                }
                self.put(" }");
            }
            _ => {}
        }
    }

    fn array(&mut self, class: &ArrayClass) {
        let count = match class.length {
            Length::Static(n) => n,
            Length::Dynamic(_) => self.slots.next().map_or(0, |slot| slot.bits),
        };
        self.put("[");
        for index in 0..count {
            self.put(if index == 0 { " [" } else { ", [" });
            self.decimal(index);
            self.put("] = ");
            self.field(&class.element);
        }
        self.put(" ]");
    }

    #[inline]
    fn integer(&mut self, class: &IntClass, value: Value<'_>) {
        match (class.base, value) {
            (Base::Decimal, Value::U64(value)) => self.decimal(value),
            (Base::Decimal, Value::I64(value)) => self.decimal(value),
            (base, Value::U64(value)) => self.based(base, value, class),
            (base, Value::I64(value)) => self.based(base, value.cast_unsigned(), class),
            _ => {}
        }
    }

    /// Other bases: negative numbers as two's complement of as many bits as whole digits need.
    fn based(&mut self, base: Base, value: u64, class: &IntClass) {
        let size = if class.coding == IntCoding::Leb128 { 64 } else { class.size.clamp(1, 64) };
        let keep = |bits: u32| if bits >= 64 { value } else { value & ((1 << bits) - 1) };
        let printed = match base {
            Base::Hexadecimal => write!(self.out, "0x{:X}", keep(size.next_multiple_of(4))),
            Base::Octal => write!(self.out, "0{:o}", keep(size.next_multiple_of(3))),
            Base::Binary => write!(self.out, "0b{:0width$b}", keep(size), width = size as usize),
            Base::Decimal => write!(self.out, "{value}"),
        };
        debug_assert!(printed.is_ok(), "writing to a vector cannot fail");
    }

    fn enumeration(&mut self, class: &EnumClass, value: Value<'_>) {
        let wide = match value {
            Value::U64(value) => i128::from(value),
            Value::I64(value) => i128::from(value),
            _ => return,
        };
        self.put("( ");
        let mut labels = class.labels(wide).peekable();
        if labels.peek().is_none() {
            self.put("<unknown>");
        }
        for (index, label) in labels.enumerate() {
            if index > 0 {
                self.put(", ");
            }
            quote(self.out, label.as_bytes());
        }
        self.put(" : container = ");
        self.integer(&class.int, value);
        self.put(" )");
    }

    /// A bit array, or the names of the bits that are set.
    fn bit_map(&mut self, class: &BitMapClass, value: u64) {
        let set = |m: &&crate::model::Mapping| {
            (0..64_u32).any(|bit| value >> bit & 1 == 1 && m.ranges.iter().any(|r| r.contains(bit.into())))
        };
        if class.flags.is_empty() {
            return self.hexadecimal(value);
        }
        self.put("( ");
        for (index, flag) in class.flags.iter().filter(set).enumerate() {
            if index > 0 {
                self.put(", ");
            }
            quote(self.out, flag.label.as_bytes());
        }
        self.put(" : container = ");
        self.hexadecimal(value);
        self.put(" )");
    }

    fn hexadecimal(&mut self, value: u64) {
        let printed = write!(self.out, "0x{value:X}");
        debug_assert!(printed.is_ok(), "writing to a vector cannot fail");
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], encoding: Encoding) {
        if encoding == Encoding::Utf8 {
            quote(self.out, bytes);
        } else {
            quote(self.out, transcode(bytes, encoding).as_bytes());
        }
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.put("{ ");
        for byte in bytes {
            let printed = write!(self.out, "{byte:02x} ");
            debug_assert!(printed.is_ok(), "writing to a vector cannot fail");
        }
        self.put("}");
    }
}

/// Appends `text` in quotes, control characters and `" ' \ ?` escaped as in C; other bytes as they are.
pub fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut rest = text;
    while let Some(place) = rest.iter().position(|b| ESCAPED[usize::from(*b)]) {
        out.extend_from_slice(&rest[..place]);
        escape(out, rest[place]);
        rest = &rest[place + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Bytes that [`quote`] escapes.
const ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 32 {
        table[byte] = true;
        byte += 1;
    }
    table[0x7f] = true;
    table[b'"' as usize] = true;
    table[b'\'' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'?' as usize] = true;
    table
};

fn escape(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        0x1b => b'e',
        b'"' | b'\'' | b'\\' | b'?' => byte,
        _ => {
            let printed = write!(out, "\\x{byte:02x}");
            debug_assert!(printed.is_ok(), "writing to a vector cannot fail");
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// UTF-16 and UTF-32 to UTF-8; what is no character becomes U+FFFD.
#[must_use]
pub fn transcode(bytes: &[u8], encoding: Encoding) -> String {
    let pair = |c: &[u8]| [c[0], c[1]];
    let quad = |c: &[u8]| [c[0], c[1], c[2], c[3]];
    let utf16 = |units: &mut dyn Iterator<Item = u16>| {
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    let utf32 = |unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
    match encoding {
        Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
        Encoding::Utf16Be => utf16(&mut bytes.chunks_exact(2).map(|c| u16::from_be_bytes(pair(c)))),
        Encoding::Utf16Le => utf16(&mut bytes.chunks_exact(2).map(|c| u16::from_le_bytes(pair(c)))),
        Encoding::Utf32Be => bytes.chunks_exact(4).map(|c| utf32(u32::from_be_bytes(quad(c)))).collect(),
        Encoding::Utf32Le => bytes.chunks_exact(4).map(|c| utf32(u32::from_le_bytes(quad(c)))).collect(),
    }
}

/// Appends a number as C's `%g` prints it: six significant digits, no zeros at the end.
pub fn float(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        let name = if value.is_nan() { "nan" } else { "inf" };
        out.extend_from_slice(sign.as_bytes());
        return out.extend_from_slice(name.as_bytes());
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        let fixed = format!("{value:.decimals$}");
        return out.extend_from_slice(trim_zeros(&fixed).as_bytes());
    }
    out.extend_from_slice(trim_zeros(mantissa).as_bytes());
    let sign = if exponent < 0 { '-' } else { '+' };
    let printed = write!(out, "e{sign}{:02}", exponent.abs());
    debug_assert!(printed.is_ok(), "writing to a vector cannot fail");
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_percent_g() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.25, "1.25"),
            (1_234_565.0, "1.23456e+06"),
            (12345.65, "12345.6"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (999_999.5, "1e+06"),
            (100_000.0, "100000"),
            (1e100, "1e+100"),
            (0.000_123_456_75, "0.000123457"),
            (2.5, "2.5"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            let mut out = Vec::new();
            float(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn quotes_escape_as_babeltrace2() {
        let mut out = Vec::new();
        quote(&mut out, b"\x01\x07\x1b\n\x7f\"'\\?\xff plain");
        assert_eq!(out, b"\"\\x01\\a\\e\\n\\x7f\\\"\\'\\\\\\?\xff plain\"");
    }

    #[test]
    fn transcodes() {
        let text = "aé😀";
        let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(transcode(&utf16, Encoding::Utf16Le), text);
        let utf32: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
        assert_eq!(transcode(&utf32, Encoding::Utf32Be), text);
        assert_eq!(transcode(&[0xd8], Encoding::Utf16Be), "");
    }
}
