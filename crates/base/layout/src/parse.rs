//! Reads descriptions back. The text comes from another process or from a file: nothing is trusted.

use crate::describe::VERSION;
use crate::level::Level;
use crate::types::Scalar;
use core::fmt;

/// Longest description that is accepted, in bytes.
pub const DESCRIPTION_MAX: usize = 64 << 10;

/// A checked description; parts of the text it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// First half of the event's name: the library or program that defines it.
    pub provider: &'a str,
    /// Second half of the event's name.
    pub name: &'a str,
    /// How important it is, by syslog's scale.
    pub level: Level,
    /// Source file; may be empty.
    pub file: &'a str,
    /// Source line, 0 when unknown.
    pub line: u32,
    /// What the event means; may be empty.
    pub text: &'a str,
    fields: &'a str,
}

/// One field of a description.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Name of the field, unique in its event.
    pub name: &'a str,
    /// What its bytes in a record mean.
    pub ty: FieldType<'a>,
}

/// The type of a field, as read.
#[derive(Clone, Copy, Debug)]
pub enum FieldType<'a> {
    /// One value.
    Scalar(Scalar),
    /// Text.
    Str,
    /// Raw bytes.
    Bytes,
    /// A fixed number of values.
    Array(Scalar, usize),
    /// A varying number of values.
    Sequence(Scalar),
    /// An integer with named values.
    Enumeration(Scalar, Labels<'a>),
    /// An integer whose bits have names: each label has one value, which may be of several bits.
    Flags(Scalar, Labels<'a>),
    /// An integer with named values for rules, and a plain one in the trace, where existing analyses expect that.
    Labelled(Scalar, Labels<'a>),
    /// So many bytes with a text that ends at the first NUL.
    FixedText(usize),
}

/// The labels of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// Labels as a description has them: `IDLE=0 BUSY=1..3`; what is not of this form is left out.
    pub const fn new(text: &'a str) -> Labels<'a> {
        Labels(text)
    }

    /// Label, first and last value that it names.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, i64, i64)> {
        self.0.split_ascii_whitespace().filter_map(label)
    }
}

/// What is wrong with a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Not text, or longer than [`DESCRIPTION_MAX`].
    NotText,
    /// The first line names another version.
    Version,
    /// The line with this number (from 1) is not as it must be.
    Line(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotText => write!(f, "event description is not text or is too long"),
            Error::Version => write!(
                f,
                "event description is of another version of mote; build program and tool from the same version"
            ),
            Error::Line(line) => write!(f, "event description is malformed in line {line}"),
        }
    }
}

impl core::error::Error for Error {}

/// Reads a description up to its NUL or the end of `bytes`.
///
/// # Errors
/// [`Error`], with the line.
pub fn parse(bytes: &[u8]) -> Result<Description<'_>, Error> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = bytes.get(..end).filter(|text| text.len() < DESCRIPTION_MAX);
    let text = text.and_then(|text| core::str::from_utf8(text).ok()).ok_or(Error::NotText)?;
    let (version, rest) = split_first(text, b'\n').ok_or(Error::Version)?;
    if version != VERSION {
        return Err(Error::Version);
    }
    let (full_name, rest) = split_first(rest, b'\n').ok_or(Error::Line(2))?;
    let (provider, name) = split_first(full_name, b':').ok_or(Error::Line(2))?;
    if !is_name(provider) || !is_name(name) {
        return Err(Error::Line(2));
    }
    let (place, rest) = split_first(rest, b'\n').ok_or(Error::Line(3))?;
    let (level, place) = split_first(place, b' ').ok_or(Error::Line(3))?;
    let level = level.parse().ok().and_then(Level::from_number).ok_or(Error::Line(3))?;
    let (file, line) = split_last(place, b':').ok_or(Error::Line(3))?;
    let line = line.parse().map_err(|_| Error::Line(3))?;
    let (text, fields) = split_first(rest, b'\n').ok_or(Error::Line(4))?;
    for (line, number) in lines(fields).zip(5..) {
        field(line).ok_or(Error::Line(number))?;
    }
    Ok(Description { provider, name, level, file, line, text, fields })
}

impl<'a> Description<'a> {
    /// The fields in the order in which they lie in a record.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        lines(self.fields).filter_map(field)
    }
}

/// A provider, event or field name: printable, no blanks, no quotes.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| !c.is_control() && !c.is_whitespace() && c != '"' && c != '\\')
}

fn field(line: &str) -> Option<Field<'_>> {
    let (name, ty) = split_first(line, b' ')?;
    let ty = field_type(ty)?;
    is_name(name).then_some(Field { name, ty })
}

fn field_type(text: &str) -> Option<FieldType<'_>> {
    match text {
        "str" => return Some(FieldType::Str),
        "bytes" => return Some(FieldType::Bytes),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix("enum ") {
        return labelled(rest).map(|(base, labels)| FieldType::Enumeration(base, labels));
    }
    if let Some(rest) = text.strip_prefix("flags ") {
        return labelled(rest).map(|(base, labels)| FieldType::Flags(base, labels));
    }
    if let Some(rest) = text.strip_prefix("labelled ") {
        return labelled(rest).map(|(base, labels)| FieldType::Labelled(base, labels));
    }
    if let Some(open) = text.strip_suffix(']') {
        let (element, len) = split_first(open, b'[')?;
        if len.is_empty() {
            return scalar(element).map(FieldType::Sequence);
        }
        let len = len.parse().ok().filter(|len| *len <= crate::record::FIELDS_MAX)?;
        return match element {
            "char" => Some(FieldType::FixedText(len)),
            _ => scalar(element).map(|element| FieldType::Array(element, len)),
        };
    }
    scalar(text).map(FieldType::Scalar)
}

/// An integer type and its labels.
fn labelled(text: &str) -> Option<(Scalar, Labels<'_>)> {
    let (base, labels) = split_first(text, b' ').unwrap_or((text, ""));
    let base = scalar(base).filter(|scalar| matches!(scalar, Scalar::Integer(_)))?;
    labels.split_ascii_whitespace().all(|item| label(item).is_some()).then_some((base, Labels(labels)))
}

fn scalar(name: &str) -> Option<Scalar> {
    Scalar::ALL.into_iter().find(|scalar| scalar.name() == name)
}

fn label(item: &str) -> Option<(&str, i64, i64)> {
    let (label, values) = split_last(item, b'=')?;
    let (first, last) = match split_first(values, b'.') {
        Some((first, last)) => (first, last.strip_prefix('.')?),
        None => (values, values),
    };
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (is_name(label) && first <= last).then_some((label, first, last))
}

/// What stands before the first of these ASCII characters, and what behind it.
///
/// Here and below: as methods of `str` do it, which have a check in them that can panic, as far as the compiler knows.
fn split_first(text: &str, mark: u8) -> Option<(&str, &str)> {
    split_at(text, text.bytes().position(|byte| byte == mark)?)
}

/// As [`split_first`], at the last one.
fn split_last(text: &str, mark: u8) -> Option<(&str, &str)> {
    split_at(text, text.bytes().rposition(|byte| byte == mark)?)
}

fn split_at(text: &str, at: usize) -> Option<(&str, &str)> {
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let line;
        (line, rest) = split_first(rest, b'\n').or_else(|| (!rest.is_empty()).then_some((rest, "")))?;
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::describe::Spec;
    use crate::types::Type;
    use std::vec::Vec;

    const SPEC: Spec = Spec {
        provider: "net",
        name: "packet_in",
        level: Level::Info,
        file: "src/main.rs",
        line: 12,
        text: "a packet\nhas arrived",
        fields: &[
            ("len", Type::Scalar(Scalar::unsigned(32))),
            ("proto", Type::Str),
            ("state", Type::Enumeration(Scalar::signed(8), &[("IDLE", -1, -1), ("BUSY", 1, 3)])),
            ("mac", Type::Array(Scalar::unsigned(8), 6)),
            ("path", Type::Sequence(Scalar::hex(16))),
            ("min", Type::Enumeration(Scalar::signed(64), &[("MIN", i64::MIN, i64::MIN)])),
        ],
    };
    const TEXT: [u8; SPEC.rendered_len()] = SPEC.render();

    #[test]
    fn what_is_rendered_is_read_back() {
        let read = parse(&TEXT).expect("well formed");
        assert_eq!((read.provider, read.name, read.level), ("net", "packet_in", Level::Info));
        assert_eq!((read.file, read.line, read.text), ("src/main.rs", 12, "a packet has arrived"));
        let fields: Vec<_> = read.fields().collect();
        assert_eq!(fields.len(), 6);
        let FieldType::Enumeration(base, labels) = fields[2].ty else { panic!("not an enumeration") };
        assert_eq!(base, Scalar::signed(8));
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("IDLE", -1, -1), ("BUSY", 1, 3)]);
        assert!(matches!(fields[4].ty, FieldType::Sequence(element) if element == Scalar::hex(16)));
        let FieldType::Enumeration(_, labels) = fields[5].ty else { panic!("not an enumeration") };
        assert_eq!(labels.iter().next(), Some(("MIN", i64::MIN, i64::MIN)));
    }

    #[test]
    fn types_of_kernel_events() {
        let text =
            b"mote1\nsched:x\n6 :0\n\ncomm char[16]\nmode flags x32 READ=1 WRITE=2\nret labelled i64 ENOENT=-2\n";
        let read = parse(text).expect("well formed");
        let fields: Vec<_> = read.fields().collect();
        assert!(matches!(fields[0].ty, FieldType::FixedText(16)));
        let FieldType::Flags(base, labels) = fields[1].ty else { panic!("not flags") };
        assert_eq!((base, labels.iter().nth(1)), (Scalar::hex(32), Some(("WRITE", 2, 2))));
        assert!(matches!(fields[2].ty, FieldType::Labelled(base, _) if base == Scalar::signed(64)));
        for bad in ["char[]", "char[99999]", "flags f32 A=1", "flags u8 A", "labelled x", "char"] {
            let text = std::format!("mote1\nsched:x\n6 :0\n\nf {bad}\n");
            assert_eq!(parse(text.as_bytes()).err(), Some(Error::Line(5)), "{bad}");
        }
    }

    #[test]
    fn damaged_descriptions_are_refused_and_never_panic() {
        for end in 0..TEXT.len() - 1 {
            let _ = parse(&TEXT[..end]);
        }
        for at in 0..TEXT.len() {
            for bit in 0..8 {
                let mut text = TEXT;
                text[at] ^= 1 << bit;
                if let Ok(read) = parse(&text) {
                    read.fields().for_each(drop);
                }
            }
        }
        assert_eq!(parse(b"mote2\nx").err(), Some(Error::Version));
        assert_eq!(parse(b"mote1\nnet:x\n6 f:1\n\nlen u33\n").err(), Some(Error::Line(5)));
    }
}
