//! Functions.

use super::Resolver;
use super::compare::text_of;
use super::expression::as_array;
use super::value::{Shown, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::{Argument, Expr, ExprKind};
use crate::target::{Side, TEXT_LEN_MAX};
use crate::text_pattern::TextPattern;
use crate::tree::{Cond, Kept, Num, NumKind, Order};

/// Names and what they take.
const FUNCTIONS: [(&str, &str); 10] = [
    ("starts_with", "starts_with(path, \"/usr/\")"),
    ("ends_with", "ends_with(path, \".log\")"),
    ("contains", "contains(path, \"tmp\")"),
    ("matches", "matches(path, \"/usr/*/bin\")"),
    ("len", "len(path)"),
    ("changed", "changed(state)"),
    ("every", "every(1000)"),
    ("first", "first(10)"),
    ("limit", "limit(100/s)"),
    ("sample", "sample(1%)"),
];

impl<'a> Resolver<'a> {
    /// `name(arguments)`
    pub(super) fn call(
        &mut self,
        name: &str,
        arguments: &[Argument],
        span: Span,
    ) -> Result<Value<'a>, Diagnostic> {
        let Some((_, example)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let names = FUNCTIONS.map(|(known, _)| known);
            return Err(
                Diagnostic::mismatch(span, format!("there is no function `{name}`")).near(name, &names)
            );
        };
        let wrong = |span| {
            let problem = Diagnostic::mismatch(span, format!("`{name}` takes other arguments"));
            Err(problem.help(format!("for example `{example}`")))
        };
        match (name, arguments) {
            (
                "starts_with" | "ends_with" | "contains" | "matches",
                [Argument::Expr(text), Argument::Expr(pattern)],
            ) => self.text_function(name, text, pattern).map(Value::Cond),
            ("len", [Argument::Expr(of)]) => self.length(of),
            ("changed", [Argument::Expr(of)]) => self.changed(of).map(Value::Cond),
            ("every" | "first", [Argument::Expr(Expr { kind: ExprKind::Integer(n @ 1..), .. })]) => {
                let counter = self.counter(span)?;
                let make = if name == "every" { Cond::Every } else { Cond::First };
                Ok(Value::Cond(make(*n, counter)))
            }
            ("limit", [Argument::Rate(n, ns, at)]) => {
                let Some(n) = u32::try_from(*n).ok().filter(|n| (1..1 << 31).contains(n)) else {
                    return Err(Diagnostic::mismatch(*at, "a limit is from 1 to 2147483647"));
                };
                Ok(Value::Cond(Cond::Limit(n, *ns, self.counter(span)?)))
            }
            ("sample", [Argument::Percent(percent, at)]) => {
                if !(0.0..=100.0).contains(percent) {
                    return Err(Diagnostic::mismatch(*at, "a part is from 0% to 100%"));
                }
                Ok(Value::Cond(Cond::Sample((percent / 100.0 * (1u64 << 32) as f64).round() as u64)))
            }
            (_, [first, ..]) => wrong(first.span().to(arguments.last().map_or(span, Argument::span))),
            (_, []) => wrong(span),
        }
    }

    fn text_function(&mut self, name: &str, text: &Expr, pattern: &Expr) -> Result<Cond, Diagnostic> {
        let value = self.value(text)?;
        let Some(subject) = text_of(&value) else {
            let problem = Diagnostic::mismatch(text.span, format!("`{name}` looks into texts"));
            return Err(problem.label(format!("this is {}", value.what())));
        };
        let Value::Pattern(pattern) = self.value_or_label(pattern)? else {
            return Err(Diagnostic::mismatch(pattern.span, "expected a text in quotes"));
        };
        let pattern: TextPattern = match name {
            "starts_with" => pattern.open_end(),
            "ends_with" => pattern.open_start(),
            "contains" => pattern.open_end().open_start(),
            _ => pattern,
        };
        Ok(Cond::Text(subject, vec![pattern]))
    }

    /// Most bytes of a text or a sequence.
    fn bytes_max(&self) -> i128 {
        if self.side == Side::Kernel { TEXT_LEN_MAX.into() } else { i64::MAX.into() }
    }

    /// How many elements, or bytes of a text.
    fn length(&mut self, of: &Expr) -> Result<Value<'a>, Diagnostic> {
        let value = self.value(of)?;
        let Some(array) = as_array(&value) else {
            let problem = Diagnostic::mismatch(of.span, "only texts, sequences and arrays have a length");
            return Err(problem.label(format!("this is {}", value.what())));
        };
        let num = match array.count {
            Some(count) => Num::constant(count.into()),
            // The verifier's contract: an end is at most `isize::MAX` behind its start.
            None => Num::new(
                NumKind::Length(array.word, array.scalar.bytes() as u32),
                0,
                self.bytes_max() / array.scalar.bytes() as i128,
            ),
        };
        Ok(Value::Num(num, Shown::Plain))
    }

    /// Whether a field differs from the last one in this thread, or there was none.
    fn changed(&mut self, of: &Expr) -> Result<Cond, Diagnostic> {
        let place = if let ExprKind::Name(name) = &of.kind { self.place(name) } else { None };
        let Some(place) = place else {
            self.value(of)?;
            return Err(Diagnostic::mismatch(of.span, "`changed` takes the name of a field"));
        };
        let same = match place.value() {
            Value::Num(num, _) => {
                let kept = self.keep(Kept::Word(place.word), of.span)?;
                let last = Num { kind: NumKind::Last(kept), ..num.clone() };
                Cond::Compare(Order::Eq, num, last)
            }
            // Of a float the bits are compared: so NaN does not change all the time.
            Value::Float(_) => {
                let kept = self.keep(Kept::Word(place.word), of.span)?;
                let bits = |kind| Num::integer(kind, 64, false);
                Cond::Compare(Order::Eq, bits(NumKind::Word(place.word)), bits(NumKind::Last(kept)))
            }
            Value::Text(_) => Cond::TextKept(place.word, self.keep(Kept::TextHash(place.word), of.span)?),
            other => {
                let problem = Diagnostic::mismatch(of.span, "of this field nothing is kept");
                return Err(problem
                    .label(format!("this is {}", other.what()))
                    .help("numbers and texts are kept"));
            }
        };
        let first = Cond::Not(Box::new(Cond::HasLast));
        Ok(Cond::Or(vec![first, Cond::Not(Box::new(same))]))
    }
}
