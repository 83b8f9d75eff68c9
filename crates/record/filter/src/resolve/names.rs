//! Fields, contexts, what was kept of the last event.

use super::published::words_name;
use super::value::{Array, Shown, Value};
use super::{Place, Resolver};
use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::target::Side;
use crate::typed::{Cond, Context, Float, Kept, Num, NumKind, StringSource};
use mote_layout::Level;
use mote_layout::parse::{FieldType, Labels};
use mote_layout::types::Scalar;

/// Names of contexts, those of LTTng included (which may have `ctx.` before them).
const CONTEXTS: [&str; 21] = [
    "level", "tid", "pid", "comm", "cpu", "exe", "delta", "elapsed", "event", "vtid", "vpid", "procname",
    "cpu_id", "last.", "flag.", "kernel.", "shared.", "thread.", "window", "target", "span",
];

impl<'a> Resolver<'a> {
    pub(super) fn place(&self, name: &str) -> Option<Place<'a>> {
        self.fields.iter().find(|place| place.field.name == name).copied()
    }

    /// A field, `true`, `false`, or else maybe a label.
    pub(super) fn name(&self, name: &str) -> Value<'a> {
        match (self.place(name), name) {
            (Some(place), _) if self.is_unknown_at_zero(name) => {
                Value::Num(Num::integer(NumKind::NotZero(place.word), 64, false), Shown::Nanos)
            }
            (Some(place), _) => place.value(),
            (None, "true") => Value::Num(Num::constant(1), Shown::Bool),
            (None, "false") => Value::Num(Num::constant(0), Shown::Bool),
            (None, _) => Value::Label(name.to_owned()),
        }
    }

    /// How long a system call took is 0 when its entry was not seen.
    fn is_unknown_at_zero(&self, name: &str) -> bool {
        let is_exit = self.event.provider == "syscalls" && self.event.name.starts_with("syscall_exit_");
        self.side == Side::Kernel && is_exit && name == "duration_ns"
    }

    /// The error for an unknown name.
    pub(super) fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let names: Vec<&str> = self.fields.iter().map(|place| place.field.name).collect();
        let event = format!("{}:{}", self.event.provider, self.event.name);
        let problem =
            Diagnostic::new(Kind::UnknownField, span, format!("event {event} has no field `{name}`"));
        if names.is_empty() { problem.help("it has no fields") } else { problem.similar(name, &names) }
    }

    /// `$name`
    pub(super) fn context(&mut self, written: &str, span: Span) -> Result<Value<'a>, Diagnostic> {
        let name = written.strip_prefix("ctx.").unwrap_or(written);
        if let Some(field) = name.strip_prefix("last.") {
            return self.last(field, span);
        }
        if let Some(published) = name.strip_prefix("kernel.") {
            return self.published(published, span);
        }
        if let Some(words) = words_name(name) {
            return self.shared_word(words, None, span);
        }
        if let Some(flag) = name.strip_prefix("flag.") {
            // Other processes write there: it may be any number.
            return Ok(Value::Num(Num::integer(NumKind::Flag(flag.to_owned()), 64, false), Shown::Bool));
        }
        let number = |context, bits, signed, shown| {
            Ok(Value::Num(Num::integer(NumKind::Context(context), bits, signed), shown))
        };
        self.context_is_here(name, span)?;
        match name {
            "target" => number(Context::Target, 64, false, Shown::Plain),
            "window" => Ok(Value::Cond(Cond::Window)),
            "tid" | "vtid" => number(Context::Tid, 32, false, Shown::Plain),
            "pid" | "vpid" => number(Context::Pid, 32, false, Shown::Plain),
            "cpu" | "cpu_id" => number(Context::Cpu, 16, false, Shown::Plain),
            "elapsed" => number(Context::Elapsed, 64, false, Shown::Nanos),
            "delta" => {
                self.keep(Kept::Time, span)?;
                number(Context::Delta, 64, false, Shown::Nanos)
            }
            "comm" | "procname" => Ok(Value::String(StringSource::Comm)),
            "exe" => Ok(Value::String(StringSource::Executable)),
            "event" => Ok(Value::Event),
            "span" => self.span(span),
            // The same for all events of a kind: a comparison with it is decided when the rule is compiled.
            "level" => {
                let level = Num::constant(i128::from(self.event.level as u8));
                Ok(Value::Num(level, Shown::Labels(Labels::new(Level::LABELS))))
            }
            _ => {
                let problem =
                    Diagnostic::new(Kind::UnknownField, span, format!("there is no context `${written}`"));
                Err(problem.similar(name, &CONTEXTS))
            }
        }
    }

    /// Whether programs of this side know a context.
    pub(super) fn context_is_here(&self, name: &str, span: Span) -> Result<(), Diagnostic> {
        let wrong =
            |message: &str, help: &str| Err(Diagnostic::wrong_side(self.side, span, message).help(help));
        match (self.side, name) {
            (Side::Kernel, "exe") => wrong(
                "there is no `$exe`",
                "the kernel's programs do not know a program's path; compare `$comm`, or choose processes with -p",
            ),
            (Side::Kernel, "level") => wrong("there is no `$level`", "events of the kernel have no level"),
            (Side::Kernel, "elapsed") => {
                wrong("there is no `$elapsed`", "only threads of traced programs speculate")
            }
            (Side::User, "window") => {
                wrong("there is no `$window`", "`$window` belongs to kernel events: use it after a -k")
            }
            (Side::User, "target") => {
                wrong("there is no `$target`", "`$target` belongs to kernel events: use it after a -k")
            }
            _ => Ok(()),
        }
    }

    /// `$last.field`
    fn last(&mut self, name: &str, span: Span) -> Result<Value<'a>, Diagnostic> {
        let Some(place) = self.place(name) else { return Err(self.unknown(name, span)) };
        match place.value() {
            Value::Num(num, shown) => {
                let kept = self.keep(Kept::Word(place.word), span)?;
                Ok(Value::Num(Num { kind: NumKind::Last(kept), ..num }, shown))
            }
            Value::Float(_) => Ok(Value::Float(Float::Last(self.keep(Kept::Word(place.word), span)?))),
            Value::String(_) => Ok(Value::LastString(self.keep(Kept::StringHash(place.word), span)?)),
            other => {
                let problem = Diagnostic::mismatch(span, format!("the last value of `{name}` is not kept"));
                Err(problem
                    .label(format!("this is {}", other.what()))
                    .help("the last values of numbers and strings are kept"))
            }
        }
    }
}

impl<'a> Place<'a> {
    /// The whole field.
    pub(super) fn value(&self) -> Value<'a> {
        let word = self.word;
        match self.field.ty {
            FieldType::Scalar(scalar) => scalar_value(scalar, word),
            FieldType::Enumeration(scalar, labels)
            | FieldType::Flags(scalar, labels)
            | FieldType::Labelled(scalar, labels) => match scalar_value(scalar, word) {
                Value::Num(num, _) => Value::Num(num, Shown::Labels(labels)),
                other => other,
            },
            FieldType::Str | FieldType::FixedText(_) => Value::String(StringSource::Field(word)),
            FieldType::Bytes => Value::Array(Array { word, count: None, scalar: Scalar::unsigned(8) }),
            FieldType::Sequence(scalar) => Value::Array(Array { word, count: None, scalar }),
            FieldType::Array(scalar, count) => {
                Value::Array(Array { word, count: Some(count as u32), scalar })
            }
        }
    }
}

fn scalar_value<'a>(scalar: Scalar, word: u16) -> Value<'a> {
    match scalar {
        Scalar::Integer(integer) => {
            let shown = if integer.hex { Shown::Hex } else { Shown::Plain };
            Value::Num(Num::integer(NumKind::Word(word), integer.bits.into(), integer.signed), shown)
        }
        Scalar::Bool => Value::Num(Num::new(NumKind::Word(word), 0, 1), Shown::Bool),
        Scalar::F32 | Scalar::F64 => Value::Float(Float::Word(word)),
    }
}
