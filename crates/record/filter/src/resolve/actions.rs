//! Actions and their keys.

use super::Resolver;
use super::compare::string_of;
use super::expression::written;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::maps::KeyType;
use crate::rule::Rule;
use crate::session::Emitted;
use crate::syntax::{self, ActionKind, Argument, Expr, ExprKind};
use crate::target::{COMM_BYTES, EXECUTABLE_BYTES, Side};
use crate::typed::{Action, EmittedField, KeyPlan, KeyValue, Num, StringSource};
use mote_layout::parse::FieldType;
use std::fmt::Write;

/// Bytes that a string has in a key, unless the rule says otherwise: what a map hashes and compares has its price, 18
/// ns an event with these, 35 with 64.
const TEXT_BYTES: u32 = 32;
/// Bytes of a string in an event that is emitted.
const EMITTED_TEXT_BYTES: u32 = 128;
/// Most bytes of a key or of kept fields: they are put together on the stack.
const KEY_BYTES_MAX: u32 = 256;
/// Most bytes of an event that is emitted.
const EMIT_BYTES_MAX: u32 = 256;

impl<'a> Resolver<'a> {
    pub(super) fn action(&mut self, action: &syntax::Action, rule: &Rule) -> Result<Action, Diagnostic> {
        let (span, source) = (action.span, rule.source.as_str());
        self.action_is_here(&action.kind, span)?;
        let name = || rule.title_of(action);
        Ok(match &action.kind {
            ActionKind::Record => Action::Record,
            ActionKind::OpenKernel { ns, of } => Action::OpenKernel { ns: *ns, of: *of },
            ActionKind::Count { by } => Action::Count { name: name(), keys: self.keys(by, source, span)? },
            ActionKind::Histogram { value, by } => {
                let keys = self.keys(by, source, span)?;
                let value = self.measured(value, source)?;
                Action::Histogram { name: name(), value, keys }
            }
            ActionKind::Last { entries, fields } => Action::Last {
                name: name(),
                entries: *entries,
                fields: self.last_fields(fields, source, span)?,
            },
            ActionKind::Set(flag) => Action::Set(flag.clone()),
            ActionKind::Clear(flag) => Action::Clear(flag.clone()),
            ActionKind::Emit { name, fields } => self.emitted(name, fields, span)?,
            ActionKind::Snapshot => Action::Snapshot,
            ActionKind::SnapshotPackets { ns } => Action::SnapshotPackets { ns: *ns },
            ActionKind::Profile { ns } => Action::Profile { ns: *ns },
            ActionKind::SampleFunctions { pattern, ns } => {
                Action::SampleFunctions { pattern: pattern.clone(), ns: *ns }
            }
            ActionKind::Threshold { syscall, ns } => Action::Threshold { syscall: *syscall, ns: *ns },
            ActionKind::Speculate(key) => Action::Speculate(self.speculation_key_of(key)?),
            ActionKind::Commit(key) => Action::Commit(self.speculation_key_of(key)?),
            ActionKind::Discard(key) => Action::Discard(self.speculation_key_of(key)?),
        })
    }

    /// Whether programs of this side can do it.
    fn action_is_here(&self, action: &ActionKind, span: Span) -> Result<(), Diagnostic> {
        let (what, help) = match action {
            _ if self.side == Side::User => return Ok(()),
            ActionKind::Emit { .. } => {
                ("events cannot be emitted", "use `count`, `hist` or `last`, or record the event")
            }
            ActionKind::Speculate(_) | ActionKind::Commit(_) | ActionKind::Discard(_) => (
                "records are not kept aside",
                "use a flag instead: `set NAME`, and `$flag.NAME` in other rules",
            ),
            ActionKind::Threshold { .. } => (
                "thresholds cannot be set",
                "set them in rules of program events, or for the session: `mote latency --threshold`",
            ),
            ActionKind::OpenKernel { .. } => (
                "windows cannot be opened",
                "use a flag instead: `set NAME`, and `$flag.NAME` in other rules",
            ),
            _ => return Ok(()),
        };
        Err(Diagnostic::wrong_side(self.side, span, what).help(help))
    }

    fn keys(&mut self, by: &[Expr], source: &str, span: Span) -> Result<Vec<KeyPlan>, Diagnostic> {
        let keys = by.iter().map(|expr| self.key(expr, source)).collect::<Result<Vec<_>, _>>()?;
        fits(&keys, span)?;
        Ok(keys)
    }

    fn key(&mut self, expr: &Expr, source: &str) -> Result<KeyPlan, Diagnostic> {
        let name = written(source, expr.span);
        if let ExprKind::Call(function, arguments) = &expr.kind
            && function == "prefix"
        {
            return self.prefix(name, arguments, expr.span);
        }
        let value = self.value(expr)?;
        if let Some(string) = string_of(&value) {
            return Ok(string_key(name, string, self.key_bytes(string)));
        }
        match value {
            Value::Num(num, shown) => {
                Ok(KeyPlan { name, ty: shown.key_type(&num), value: KeyValue::Number(num) })
            }
            Value::Cond(_) => {
                let num = value.number(expr.span)?;
                Ok(KeyPlan { name, ty: KeyType::Bool, value: KeyValue::Number(num) })
            }
            Value::Float(float) if !float.is_single() => {
                Ok(KeyPlan { name, ty: KeyType::Float, value: KeyValue::Float(float) })
            }
            Value::Event => Ok(KeyPlan { name, ty: KeyType::Event, value: KeyValue::Event }),
            other => {
                let problem = Diagnostic::mismatch(expr.span, "this cannot be a key");
                Err(problem.label(format!("this is {}", other.what())))
            }
        }
    }

    /// Bytes that a string has in a key: a fixed string has no more than it can be long.
    fn key_bytes(&self, string: StringSource) -> u32 {
        let field = self
            .fields
            .iter()
            .find(|place| string == StringSource::Field(place.word))
            .map(|place| place.field.ty);
        match field {
            Some(FieldType::FixedText(bytes @ 1..)) => TEXT_BYTES.min(bytes as u32),
            _ => TEXT_BYTES,
        }
    }

    /// `prefix(string, bytes)`: a key of fewer bytes, or more.
    fn prefix(&mut self, name: String, arguments: &[Argument], span: Span) -> Result<KeyPlan, Diagnostic> {
        let wrong = || {
            Diagnostic::mismatch(span, "`prefix` takes a string and a number")
                .help("for example `prefix(path, 16)`")
        };
        let [Argument::Expr(string), Argument::Expr(Expr { kind: ExprKind::Integer(bytes), span: at, .. })] =
            arguments
        else {
            return Err(wrong());
        };
        let subject = string_of(&self.value(string)?).ok_or_else(wrong)?;
        match u32::try_from(*bytes) {
            Ok(bytes @ 1..=KEY_BYTES_MAX) => Ok(string_key(name, subject, bytes)),
            _ => Err(Diagnostic::mismatch(*at, format!("a key has 1 to {KEY_BYTES_MAX} bytes of a string"))),
        }
    }

    /// What a histogram is of.
    fn measured(&mut self, expr: &Expr, source: &str) -> Result<KeyPlan, Diagnostic> {
        let key = self.key(expr, source)?;
        match (&key.value, &key.ty) {
            (KeyValue::Number(_), _) => Ok(key),
            (KeyValue::Float(_), _) => {
                Err(Diagnostic::mismatch(expr.span, "a histogram takes integers").label("this is a float"))
            }
            _ => Err(Diagnostic::mismatch(expr.span, "a histogram takes numbers")
                .help("for a string: `hist len(path)`")),
        }
    }

    /// The fields that are kept.
    fn last_fields(&mut self, fields: &[Expr], source: &str, span: Span) -> Result<Vec<KeyPlan>, Diagnostic> {
        let mut keys = if fields.is_empty() { self.all_fields() } else { self.keys(fields, source, span)? };
        // Those that have no room are left out when they were not asked for.
        while fields.is_empty() && fits(&keys, span).is_err() {
            keys.pop();
        }
        fits(&keys, span)?;
        Ok(keys)
    }

    /// All fields that can be kept.
    fn all_fields(&mut self) -> Vec<KeyPlan> {
        let key = |place: &super::Place<'a>| {
            let name = place.field.name.to_owned();
            let value = place.value();
            match (string_of(&value), value) {
                (Some(string), _) => Some(string_key(name, string, self.key_bytes(string))),
                (_, Value::Num(num, shown)) => {
                    Some(KeyPlan { name, ty: shown.key_type(&num), value: KeyValue::Number(num) })
                }
                (_, Value::Float(float)) => {
                    Some(KeyPlan { name, ty: KeyType::Float, value: KeyValue::Float(float) })
                }
                _ => None,
            }
        };
        self.fields.iter().filter_map(key).collect()
    }

    fn emitted(&mut self, name: &str, fields: &[(String, Expr)], span: Span) -> Result<Action, Diagnostic> {
        let (provider, name) = name.split_once(':').unwrap_or((self.event.provider, name));
        let version = mote_layout::describe::VERSION;
        let mut description = format!("{version}\n{provider}:{name}\n{} :0\n\n", self.event.level as u8);
        let mut packed: Vec<(u8, String, EmittedField, u32)> = Vec::new();
        for (field, expr) in fields {
            let (ty, plan, size) = self.emitted_field(expr)?;
            if ty == "str" && packed.iter().any(|(order, ..)| *order == 2) {
                let problem = Diagnostic::mismatch(expr.span, "an emitted event can have one string only");
                return Err(problem.label("a second string"));
            }
            // On the stack, 8 bytes lie at multiples of 8; a string has no fixed end.
            let order = if ty == "str" { 2 } else { u8::from(size < 8) };
            packed.push((order, format!("{field} {ty}"), plan, size));
        }
        packed.sort_by_key(|(order, ..)| *order);
        packed.iter().for_each(|(_, line, ..)| _ = writeln!(description, "{line}"));
        let bytes: u32 = packed.iter().map(|(.., size)| size).sum();
        let names_are_sound = mote_layout::parse::parse(description.as_bytes()).is_ok();
        if bytes > EMIT_BYTES_MAX || !names_are_sound {
            let message = format!(
                "an emitted event can have at most {EMIT_BYTES_MAX} bytes, and names of letters, digits and _"
            );
            return Err(Diagnostic::new(Kind::TooLarge, span, message));
        }
        let event = Emitted { provider: provider.to_owned(), name: name.to_owned(), description };
        Ok(Action::Emit { event, fields: packed.into_iter().map(|(_, _, plan, _)| plan).collect(), span })
    }

    /// Its type in a description, what it is made of, how many bytes it has at most.
    fn emitted_field(&mut self, expr: &Expr) -> Result<(String, EmittedField, u32), Diagnostic> {
        let value = self.value(expr)?;
        if let Some(string) = string_of(&value) {
            let bytes = string_bytes(string, EMITTED_TEXT_BYTES);
            return Ok(("str".to_owned(), EmittedField::String(string, bytes), bytes));
        }
        match value {
            Value::Num(num, shown) => {
                let ty = emitted_type(&num, matches!(shown, super::value::Shown::Hex));
                Ok((ty, EmittedField::Number(num, 8), 8))
            }
            Value::Float(float) if !float.is_single() => {
                Ok(("f64".to_owned(), EmittedField::Float(float), 8))
            }
            Value::Cond(_) => {
                let num = value.number(expr.span)?;
                Ok(("bool".to_owned(), EmittedField::Number(num, 1), 1))
            }
            other => {
                let problem = Diagnostic::mismatch(expr.span, "this cannot be emitted");
                Err(problem.label(format!("this is {}", other.what())))
            }
        }
    }
}

fn emitted_type(num: &Num, hex: bool) -> String {
    match (num.is_signed(), hex) {
        (_, true) => "x64",
        (true, _) => "i64",
        (false, _) => "u64",
    }
    .to_owned()
}

fn string_bytes(string: StringSource, most: u32) -> u32 {
    match string {
        StringSource::Field(_) => most,
        StringSource::Comm => most.min(COMM_BYTES),
        StringSource::Executable => most.min(EXECUTABLE_BYTES),
    }
}

fn string_key(name: String, string: StringSource, bytes: u32) -> KeyPlan {
    let bytes = string_bytes(string, bytes);
    KeyPlan { name, ty: KeyType::String(bytes), value: KeyValue::String(string, bytes) }
}

fn fits(keys: &[KeyPlan], span: Span) -> Result<(), Diagnostic> {
    let bytes: u32 = keys.iter().map(|key| key.ty.bytes()).sum();
    if bytes <= KEY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the keys take {bytes} bytes; the most is {KEY_BYTES_MAX}");
    Err(Diagnostic::new(Kind::TooLarge, span, message)
        .help("take fewer bytes of strings: `prefix(path, 16)`"))
}
