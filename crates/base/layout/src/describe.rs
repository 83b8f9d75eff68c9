//! The description of an event as text, made at compile time.
//!
//! ```text
//! mote1
//! net:packet_in
//! 6 src/main.rs:12
//! a packet has arrived
//! len u32
//! proto str
//! state enum u8 IDLE=0 BUSY=1..3
//! mac u8[6]
//! path u16[]
//! comm char[16]
//! mode flags x32 READ=1 WRITE=2
//! ret labelled i64 ENOENT=-2 EINTR=-4
//! ```
//! Line 1 is the version, then provider and name, level and place, an optional text, and one line for
//! each field. The same text lies in the program's read-only data (where `mote list` finds it), goes over the
//! wire, and is what C's macros make by string concatenation. It ends with a NUL.

use crate::level::Level;
use crate::types::{Scalar, Type};

/// First line of every description.
pub const VERSION: &str = "mote1";

/// What a program says of one event.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// First half of the event's name: the library or program that defines it.
    pub provider: &'static str,
    /// Name, unique in the provider.
    pub name: &'static str,
    /// How important it is, by syslog's scale.
    pub level: Level,
    /// Source file, as the compiler names it.
    pub file: &'static str,
    /// Source line, from 1.
    pub line: u32,
    /// What the event means; may be empty.
    pub text: &'static str,
    /// Name and type of the fields, in order.
    pub fields: &'static [(&'static str, Type)],
}

impl Spec {
    /// Length of the rendered text with its NUL.
    pub const fn rendered_len(&self) -> usize {
        let mut counter = Out { to: &mut [], at: 0 };
        self.render_to(&mut counter);
        counter.at
    }

    /// The text; `N` is [`Spec::rendered_len`].
    pub const fn render<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        let mut out = Out { to: &mut bytes, at: 0 };
        self.render_to(&mut out);
        bytes
    }

    const fn render_to(&self, out: &mut Out<'_>) {
        out.text(VERSION);
        out.text("\n");
        out.line_text(self.provider);
        out.text(":");
        out.line_text(self.name);
        out.text("\n");
        out.number(self.level as i64);
        out.text(" ");
        out.line_text(self.file);
        out.text(":");
        out.number(self.line as i64);
        out.text("\n");
        out.line_text(self.text);
        out.text("\n");
        let mut fields = self.fields;
        while let [(name, ty), rest @ ..] = fields {
            out.field(name, *ty);
            fields = rest;
        }
        out.byte(0);
    }
}

/// A counting or writing sink that works in constant evaluation.
struct Out<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    const fn byte(&mut self, byte: u8) {
        if let Some((_, rest)) = self.to.split_at_mut_checked(self.at)
            && let Some(place) = rest.first_mut()
        {
            *place = byte;
        }
        self.at += 1;
    }

    const fn text(&mut self, text: &str) {
        let mut bytes = text.as_bytes();
        while let [byte, rest @ ..] = bytes {
            self.byte(*byte);
            bytes = rest;
        }
    }

    /// Text that must not end its line or the description.
    const fn line_text(&mut self, text: &str) {
        let mut bytes = text.as_bytes();
        while let [byte, rest @ ..] = bytes {
            self.byte(if *byte < b' ' { b' ' } else { *byte });
            bytes = rest;
        }
    }

    const fn number(&mut self, number: i64) {
        if number < 0 {
            self.byte(b'-');
        }
        let mut rest = number.unsigned_abs();
        let mut scale = 1u64;
        while let Some(10..) = rest.checked_div(scale) {
            scale *= 10;
        }
        while let (Some(digit), Some(left)) = (rest.checked_div(scale), rest.checked_rem(scale)) {
            self.byte(b'0' + digit as u8);
            (rest, scale) = (left, scale / 10);
        }
    }

    const fn field(&mut self, name: &str, ty: Type) {
        self.line_text(name);
        self.byte(b' ');
        match ty {
            Type::Scalar(scalar) => self.text(scalar.name()),
            Type::Str => self.text("str"),
            Type::Bytes => self.text("bytes"),
            Type::Array(scalar, len) => {
                self.text(scalar.name());
                self.byte(b'[');
                self.number(len as i64);
                self.byte(b']');
            }
            Type::Sequence(scalar) => {
                self.text(scalar.name());
                self.text("[]");
            }
            Type::Enumeration(scalar, labels) => self.enumeration(scalar, labels),
        }
        self.byte(b'\n');
    }

    const fn enumeration(&mut self, scalar: Scalar, mut labels: &[(&str, i64, i64)]) {
        self.text("enum ");
        self.text(scalar.name());
        while let [(label, first, last), rest @ ..] = labels {
            self.byte(b' ');
            self.line_text(label);
            self.byte(b'=');
            self.number(*first);
            if *last != *first {
                self.text("..");
                self.number(*last);
            }
            labels = rest;
        }
    }
}
