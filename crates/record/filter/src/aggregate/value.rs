//! One value out of the bytes of a key.

use crate::maps::{Key, KeyType, Maps};
use std::fmt;

/// A part of a key, or a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A signed number.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// A number in base 16.
    Hex(u64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A time span in ns.
    Nanos(u64),
    /// A string; what is not UTF-8 is replaced.
    String {
        /// Its beginning.
        text: String,
        /// It filled its space, so there may have been more.
        cut: bool,
    },
    /// An integer with its label, if it has one.
    Label(Option<String>, i64),
}

/// The 8 bytes at `offset`, 0 where they are not.
pub(super) fn word(bytes: &[u8], offset: u32) -> u64 {
    let at = offset as usize;
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |word| u64::from_le_bytes(*word))
}

/// The value of a key.
pub(super) fn read(key: &Key, bytes: &[u8], maps: &Maps) -> Value {
    let word = word(bytes, key.offset);
    match &key.ty {
        KeyType::Signed => Value::Signed(word as i64),
        KeyType::Unsigned => Value::Unsigned(word),
        KeyType::Hex => Value::Hex(word),
        KeyType::Float => Value::Float(f64::from_bits(word)),
        KeyType::Bool => Value::Bool(word != 0),
        KeyType::Nanos => Value::Nanos(word),
        KeyType::Labels(labels) => {
            let number = word as i64;
            let label = labels.iter().find(|(_, first, last)| (*first..=*last).contains(&number));
            Value::Label(label.map(|(label, ..)| label.clone()), number)
        }
        KeyType::String(size) => text(bytes, key.offset as usize, *size as usize),
        KeyType::Event => {
            let name = maps.event(word).map_or_else(|| format!("event {word}"), str::to_owned);
            Value::String { text: name, cut: false }
        }
    }
}

fn text(bytes: &[u8], offset: usize, size: usize) -> Value {
    let bytes = bytes.get(offset..).unwrap_or_default();
    let bytes = &bytes[..size.min(bytes.len())];
    let end = bytes.iter().position(|byte| *byte == 0);
    let kept = &bytes[..end.unwrap_or(bytes.len())];
    // A character may have been cut in two.
    let whole = match (end, kept.utf8_chunks().last()) {
        (None, Some(last)) if !last.invalid().is_empty() && last.invalid().len() < 4 => {
            &kept[..kept.len() - last.invalid().len()]
        }
        _ => kept,
    };
    Value::String { text: String::from_utf8_lossy(whole).into_owned(), cut: end.is_none() }
}

impl Value {
    /// Whether it stands at the right side of its column.
    pub(super) fn is_number(&self) -> bool {
        !matches!(self, Value::String { .. } | Value::Label(..) | Value::Bool(_))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Signed(value) => write!(f, "{value}"),
            Value::Unsigned(value) => write!(f, "{value}"),
            Value::Hex(value) => write!(f, "{value:#x}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Nanos(u64::MAX) => write!(f, "never"),
            Value::Nanos(value) => write!(f, "{}", nanos(*value)),
            Value::String { text, cut } => {
                // A terminal must not be steered by what a traced program says.
                for c in text.chars() {
                    if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
                }
                f.write_str(if *cut { "…" } else { "" })
            }
            Value::Label(Some(label), _) => write!(f, "{label}"),
            Value::Label(None, value) => write!(f, "{value}"),
        }
    }
}

/// A time span in a unit that suits it.
pub(super) fn nanos(ns: u64) -> String {
    let (unit, factor) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let text = format!("{:.3}", ns as f64 / factor);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}
