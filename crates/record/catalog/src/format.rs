//! Reads the `format` file of a trace event: how its record lies in memory, and what names its values have.
//!
//! ```text
//! name: softirq_entry
//! ID: 223
//! format:
//!         field:unsigned int vec; offset:8;       size:4; signed:0;
//!
//! print fmt: "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })
//! ```
//! The layout is always read, never assumed: it changes between kernels.

use crate::event::{Field, Origin, Step, TEXT_MAX, Type};
use crate::print::{self, Names};
use mote_layout::types::Scalar;

/// Longest array that is recorded, in bytes; what is longer is left out.
const ARRAY_MAX: u32 = 512;

/// A trace event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name.
    pub name: String,
    /// Its number, for perf_event_open(2).
    pub id: u64,
    /// Its own fields, without the `common_` ones, with the C type of each.
    pub fields: Vec<(Field, String)>,
}

/// What is wrong with a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It has no such line.
    #[error("its format has no line `{0}`")]
    Missing(&'static str),
    /// A line that says of a field cannot be read.
    #[error("its format has a field that cannot be read: `{0}`")]
    Field(String),
}

/// Reads a format.
///
/// # Errors
/// [`Error`].
pub fn parse(text: &str) -> Result<Format, Error> {
    let value = |key| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let name = value("name:").filter(is_name).ok_or(Error::Missing("name:"))?;
    let id = value("ID:").and_then(|id| id.parse().ok()).ok_or(Error::Missing("ID:"))?;
    let names = value("print fmt:").map(print::names).unwrap_or_default();
    let hexadecimal = value("print fmt:").map(print::hexadecimal).unwrap_or_default();
    let lines = text.lines().map(str::trim_start).take_while(|line| !line.starts_with("print fmt:"));
    let mut fields = Vec::new();
    for line in lines.filter(|line| line.starts_with("field:")) {
        let declared = declared(line).ok_or_else(|| Error::Field(line.to_owned()))?;
        if !declared.name.starts_with("common_")
            && let Some(mut field) = declared.field(&names)
        {
            if hexadecimal.contains(&field.name) {
                field.ty = in_base_16(field.ty);
            }
            fields.push((field, declared.ty.to_owned()));
        }
    }
    Ok(Format { name: name.to_owned(), id, fields })
}

/// A `field:` line.
#[derive(Clone, Copy, Debug)]
struct Declared<'a> {
    name: &'a str,
    /// C type, without brackets.
    ty: &'a str,
    array: bool,
    offset: u32,
    size: u32,
    signed: bool,
}

/// `field:TYPE NAME[N]; offset:O; size:S; signed:B;`
fn declared(line: &str) -> Option<Declared<'_>> {
    let (declaration, rest) = line.strip_prefix("field:")?.split_once(';')?;
    let number = |key: &str| -> Option<u32> {
        let at = rest.split(';').find_map(|part| part.trim().strip_prefix(key))?;
        at.trim().parse().ok()
    };
    // `char comm[16]`, but `__data_loc char[] cmd`.
    let declaration = declaration.trim();
    let (declaration, array) = match declaration.split_once('[') {
        Some((before, after)) if after.ends_with(']') => (before.trim_end(), true),
        _ => (declaration, declaration.contains('[')),
    };
    let start = declaration.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
    let (ty, name) = declaration.split_at_checked(start)?;
    let ty = ty.trim().trim_end_matches("[]").trim_end();
    // Offsets and sizes of a record are below 64 KiB (PERF_MAX_TRACE_SIZE is less).
    let (offset, size) = (number("offset:")?, number("size:")?);
    let fits = offset <= 0xffff && size <= 0xffff && !name.is_empty() && !ty.is_empty();
    fits.then_some(Declared { name, ty, array, offset, size, signed: number("signed:") == Some(1) })
}

impl Declared<'_> {
    /// The field that is recorded; `None`: of no kind that a record has.
    fn field(&self, names: &[(String, Names)]) -> Option<Field> {
        let (ty, from) = if let Some(element) = self.ty.strip_prefix("__data_loc ") {
            self.located(element, false)?
        } else if let Some(element) = self.ty.strip_prefix("__rel_loc ") {
            self.located(element, true)?
        } else if self.array {
            (self.array()?, Origin::Record(self.offset))
        } else {
            let ty = self.value(names)?;
            let word = Origin::Record(self.offset);
            match self.ty == "pid_t" && self.size == 4 && self.signed {
                true => (ty, Origin::Made { from: Box::new(word), steps: vec![Step::RecorderTid] }),
                false => (ty, word),
            }
        };
        Some(Field { name: self.name.to_owned(), ty, from })
    }

    /// What lies elsewhere in the record.
    fn located(&self, element: &str, relative: bool) -> Option<(Type, Origin)> {
        let from = Origin::Location { offset: self.offset, relative };
        let element = element.trim_end_matches("[]").trim();
        if self.size != 4 {
            return None;
        }
        if is_char(element) {
            return Some((Type::Text, from));
        }
        let scalar = element_type(element, self.signed);
        let most = TEXT_MAX / scalar.bytes() as u32;
        Some((Type::Sequence(scalar, most as u16), from))
    }

    fn array(&self) -> Option<Type> {
        if self.size == 0 || self.size > ARRAY_MAX {
            return None;
        }
        if is_char(self.ty) {
            return Some(Type::FixedText(self.size as u16));
        }
        let scalar = element_type(self.ty, self.signed);
        let (count, rest) = (self.size / scalar.bytes() as u32, self.size % scalar.bytes() as u32);
        // Of an unknown type: its bytes.
        Some(if rest == 0 {
            Type::Array(scalar, count as u16)
        } else {
            Type::Array(Scalar::hex(8), self.size as u16)
        })
    }

    fn value(&self, names: &[(String, Names)]) -> Option<Type> {
        if !matches!(self.size, 1 | 2 | 4 | 8) {
            // A structure: its bytes.
            let some = self.size > 0 && self.size <= ARRAY_MAX;
            return some.then(|| Type::Array(Scalar::hex(8), self.size as u16));
        }
        if self.ty == "bool" && self.size == 1 {
            return Some(Type::Scalar(Scalar::Bool));
        }
        let bits = (self.size * 8) as u8;
        let scalar = match () {
            () if self.ty.contains('*') => Scalar::hex(bits),
            () if self.signed => Scalar::signed(bits),
            () => Scalar::unsigned(bits),
        };
        let named = names.iter().find(|(name, _)| name == self.name).map(|(_, names)| names);
        Some(match named {
            Some(Names::Values(labels)) => Type::Enumeration(scalar, labels.clone()),
            Some(Names::Bits(labels)) => Type::Flags(scalar, labels.clone()),
            None => Type::Scalar(scalar),
        })
    }
}

/// Unsigned integers without names.
fn in_base_16(ty: Type) -> Type {
    match ty {
        Type::Scalar(Scalar::Integer(integer)) if !integer.signed => Type::Scalar(Scalar::hex(integer.bits)),
        other => other,
    }
}

fn is_char(ty: &str) -> bool {
    matches!(ty, "char" | "const char")
}

/// Type of an array's elements; bytes when it is not known.
fn element_type(ty: &str, signed: bool) -> Scalar {
    let plain = ty.trim_start_matches("const ").trim_start_matches("struct ");
    let bits = match plain {
        "short" | "unsigned short" | "u16" | "__u16" | "s16" | "__be16" | "__le16" | "uint16_t" => 16,
        "int" | "unsigned int" | "unsigned" | "u32" | "__u32" | "s32" | "__be32" | "__le32" | "uint32_t"
        | "pid_t" | "dev_t" => 32,
        "long" | "unsigned long" | "u64" | "__u64" | "s64" | "long long" | "unsigned long long"
        | "size_t" | "uint64_t" | "cpumask_t" => 64,
        _ if plain.contains('*') => 64,
        _ => return Scalar::hex(8),
    };
    match plain {
        "cpumask_t" => Scalar::hex(bits),
        _ if plain.contains('*') => Scalar::hex(bits),
        _ if signed => Scalar::signed(bits),
        _ => Scalar::unsigned(bits),
    }
}
