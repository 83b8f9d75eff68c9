//! Values of attributes: numbers, words, byte orders, clocks.

use super::parser::{Parsed, Parser, Value};
use crate::error::MetadataFault;
use crate::model::{Base, ByteOrder, Encoding};

impl Parser<'_> {
    pub(super) fn narrow<T: TryFrom<i128>>(&self, value: i128) -> Parsed<T> {
        T::try_from(value).or_else(|_| self.fault_before(MetadataFault::BadValue("number")))
    }

    pub(super) fn number<T: TryFrom<i128>>(&self, value: Value) -> Parsed<T> {
        match value {
            Value::Int(value) => self.narrow(value),
            _ => self.fault_before(MetadataFault::Expected("an integer")),
        }
    }

    pub(super) fn word(&self, value: Value) -> Parsed<String> {
        match value {
            Value::Str(text) => Ok(text),
            Value::Path(path) => Ok(path.join(".")),
            Value::Int(_) => self.fault_before(MetadataFault::Expected("a word")),
        }
    }

    pub(super) fn truth(&self, value: Value) -> Parsed<bool> {
        match value {
            Value::Int(value) => Ok(value != 0),
            value => match self.word(value)?.as_str() {
                "true" | "TRUE" => Ok(true),
                "false" | "FALSE" => Ok(false),
                _ => self.fault_before(MetadataFault::BadValue("truth value")),
            },
        }
    }

    pub(super) fn byte_order(&self, value: Value) -> Parsed<ByteOrder> {
        match self.word(value)?.as_str() {
            "native" => Ok(self.order),
            "le" => Ok(ByteOrder::Little),
            "be" | "network" => Ok(ByteOrder::Big),
            _ => self.fault_before(MetadataFault::BadValue("byte_order")),
        }
    }

    pub(super) fn base(&self, value: Value) -> Parsed<Base> {
        let name = match value {
            Value::Int(base) => base.to_string(),
            value => self.word(value)?,
        };
        match name.as_str() {
            "10" | "decimal" | "dec" | "d" | "i" | "u" => Ok(Base::Decimal),
            "16" | "hexadecimal" | "hex" | "x" | "X" | "p" => Ok(Base::Hexadecimal),
            "8" | "octal" | "oct" | "o" => Ok(Base::Octal),
            "2" | "binary" | "b" => Ok(Base::Binary),
            _ => self.fault_before(MetadataFault::BadValue("base")),
        }
    }

    pub(super) fn encoding(&self, value: Value) -> Parsed<Option<Encoding>> {
        match self.word(value)?.as_str() {
            "none" => Ok(None),
            "UTF8" | "UTF-8" | "utf8" | "utf-8" | "ASCII" | "ascii" => Ok(Some(Encoding::Utf8)),
            _ => self.fault_before(MetadataFault::BadValue("encoding")),
        }
    }

    /// The index of the clock that `clock.NAME.value` names.
    pub(super) fn clock_of(&mut self, value: Value) -> Parsed<usize> {
        if let Value::Path(path) = value
            && let [clock, name, value] = &path[..]
            && clock == "clock"
            && value == "value"
        {
            return Ok(self.clock_index(name, self.before()));
        }
        self.fault_before(MetadataFault::Expected("clock.NAME.value"))
    }

    /// The index of the clock `name`, which the text names at `at`.
    pub(super) fn clock_index(&mut self, name: &str, at: usize) -> usize {
        if let Some(index) = self.clocks.get(name) {
            return *index;
        }
        let index = self.clocks.len();
        self.clocks.insert(name.to_owned(), index);
        self.clock_places.push(at);
        index
    }
}
