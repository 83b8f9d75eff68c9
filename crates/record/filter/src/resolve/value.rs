//! What an expression is, before it is known what it is wanted as.

use crate::diagnostic::{Diagnostic, Span};
use crate::maps::KeyType;
use crate::string_pattern::StringPattern;
use crate::typed::{Cond, Float, FloatSet, Num, NumKind, Order, Set, StringSource};
use mote_layout::parse::Labels;
use mote_layout::types::Scalar;

/// An expression with its type.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Num(Num, Shown<'a>),
    Float(Float),
    String(StringSource),
    /// A string field of the event's last one in this thread: only compared with a string.
    LastString(u16),
    /// A string in quotes.
    Pattern(StringPattern),
    Cond(Cond),
    /// All of an array or a sequence.
    Array(Array),
    /// A name that is no field: a label, if what it is compared with has labels.
    Label(String),
    /// The event itself.
    Event,
}

/// How a number is shown when it is a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'a> {
    Plain,
    Hex,
    Bool,
    Nanos,
    Labels(Labels<'a>),
}

/// An array or a sequence, or the bytes of a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub(super) word: u16,
    /// How many elements; `None`: the next word says where it ends.
    pub(super) count: Option<u32>,
    pub(super) scalar: Scalar,
}

impl Array {
    /// As a string, when it is of bytes and says where it ends.
    pub(super) fn as_string(self) -> Option<StringSource> {
        let bytes = matches!(self.scalar, Scalar::Integer(integer) if integer.bits == 8);
        (bytes && self.count.is_none()).then_some(StringSource::Field(self.word))
    }
}

impl Value<'_> {
    /// In words, with its article.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Value::Num(num, _) if num.as_constant().is_some() => "a number",
            Value::Num(_, Shown::Labels(_)) => "an enumeration",
            Value::Num(..) => "an integer",
            Value::Float(_) => "a float",
            Value::String(_) | Value::LastString(_) | Value::Pattern(_) => "a string",
            Value::Cond(_) => "a truth value",
            Value::Array(_) => "an array",
            Value::Label(_) => "a label",
            Value::Event => "the event's name",
        }
    }

    /// As something that holds or not.
    pub(super) fn truth(self, span: Span) -> Result<Cond, Diagnostic> {
        match self {
            Value::Cond(cond) => Ok(cond),
            Value::Num(num, _) => Ok(Cond::Member(num, Set::compared(Order::Ne, 0))),
            Value::Float(Float::Constant(value)) => Ok(Cond::Constant(value != 0.0)),
            Value::Float(float) => {
                let set = FloatSet::compared(Order::Ne, 0.0, float.is_single());
                Ok(Cond::FloatMember(float, set))
            }
            other => {
                let problem = Diagnostic::mismatch(span, "this is not a condition");
                Err(problem
                    .label(format!("this is {}", other.what()))
                    .help("compare it, for example with `==`"))
            }
        }
    }

    /// As an integer.
    pub(super) fn number(self, span: Span) -> Result<Num, Diagnostic> {
        match self {
            Value::Num(num, _) => Ok(num),
            Value::Cond(cond) => Ok(Num::new(NumKind::Truth(Box::new(cond)), 0, 1)),
            Value::Float(_) => {
                let problem = Diagnostic::mismatch(span, "floats have no arithmetic");
                Err(problem.label("this is a float").help("floats can be compared: `load > 0.5`"))
            }
            other => {
                let problem = Diagnostic::mismatch(span, "expected a number");
                Err(problem.label(format!("this is {}", other.what())))
            }
        }
    }
}

impl Shown<'_> {
    /// How a key of such numbers is shown.
    pub(super) fn key_type(self, num: &Num) -> KeyType {
        match self {
            Shown::Hex => KeyType::Hex,
            Shown::Bool => KeyType::Bool,
            Shown::Nanos => KeyType::Nanos,
            Shown::Labels(labels) => KeyType::Labels(
                labels.iter().map(|(label, first, last)| (label.to_owned(), first, last)).collect(),
            ),
            Shown::Plain if num.is_signed() => KeyType::Signed,
            Shown::Plain => KeyType::Unsigned,
        }
    }
}
