//! Functions.

use super::Resolver;
use super::compare::string_of;
use super::expression::as_array;
use super::value::{Shown, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::string_pattern::StringPattern;
use crate::syntax::{Argument, Expr, ExprKind};
use crate::target::{STRING_LEN_MAX, Side};
use crate::typed::{Cond, Kept, Num, NumKind, Order};

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
                Diagnostic::mismatch(span, format!("there is no function `{name}`")).similar(name, &names)
            );
        };
        let wrong = |span| {
            let problem = Diagnostic::mismatch(span, format!("`{name}` does not take these arguments"));
            Err(problem.help(format!("for example `{example}`")))
        };
        match (name, arguments) {
            (
                "starts_with" | "ends_with" | "contains" | "matches",
                [Argument::Expr(string), Argument::Expr(pattern)],
            ) => self.string_function(name, string, pattern).map(Value::Cond),
            ("len", [Argument::Expr(of)]) => self.length(of),
            ("changed", [Argument::Expr(of)]) => self.changed(of).map(Value::Cond),
            ("every" | "first", [Argument::Expr(Expr { kind: ExprKind::Integer(n @ 1..), .. })]) => {
                let counter = self.counter(span)?;
                let make = if name == "every" { Cond::Every } else { Cond::First };
                Ok(Value::Cond(make(*n, counter)))
            }
            ("limit", [Argument::Rate(n, ns, at)]) => {
                let Some(n) = u32::try_from(*n).ok().filter(|n| (1..1 << 31).contains(n)) else {
                    return Err(Diagnostic::mismatch(*at, "a limit must be from 1 to 2147483647"));
                };
                Ok(Value::Cond(Cond::Limit(n, *ns, self.counter(span)?)))
            }
            ("sample", [Argument::Percent(percent, at)]) => {
                if !(0.0..=100.0).contains(percent) {
                    return Err(Diagnostic::mismatch(*at, "a part must be from 0% to 100%"));
                }
                Ok(Value::Cond(Cond::Sample((percent / 100.0 * (1u64 << 32) as f64).round() as u64)))
            }
            (_, [first, ..]) => wrong(first.span().to(arguments.last().map_or(span, Argument::span))),
            (_, []) => wrong(span),
        }
    }

    fn string_function(&mut self, name: &str, string: &Expr, pattern: &Expr) -> Result<Cond, Diagnostic> {
        let value = self.value(string)?;
        let Some(subject) = string_of(&value) else {
            let problem = Diagnostic::mismatch(string.span, format!("`{name}` takes a string"));
            return Err(problem.label(format!("this is {}", value.what())));
        };
        let Value::Pattern(pattern) = self.value_or_label(pattern)? else {
            return Err(Diagnostic::mismatch(pattern.span, "expected a string in quotes"));
        };
        let pattern: StringPattern = match name {
            "starts_with" => pattern.open_end(),
            "ends_with" => pattern.open_start(),
            "contains" => pattern.open_end().open_start(),
            _ => pattern,
        };
        Ok(Cond::StringMatch(subject, vec![pattern]))
    }

    /// Most bytes of a string or a sequence.
    fn bytes_max(&self) -> i128 {
        if self.side == Side::Kernel { STRING_LEN_MAX.into() } else { i64::MAX.into() }
    }

    /// How many elements, or bytes of a string.
    fn length(&mut self, of: &Expr) -> Result<Value<'a>, Diagnostic> {
        let value = self.value(of)?;
        let Some(array) = as_array(&value) else {
            let problem = Diagnostic::mismatch(of.span, "only strings, sequences and arrays have a length");
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
            Value::String(_) => {
                Cond::StringKept(place.word, self.keep(Kept::StringHash(place.word), of.span)?)
            }
            other => {
                let problem = Diagnostic::mismatch(of.span, "this field's last value is not kept");
                return Err(problem
                    .label(format!("this is {}", other.what()))
                    .help("the last values of numbers and strings are kept"));
            }
        };
        let first = Cond::Not(Box::new(Cond::HasLast));
        Ok(Cond::Or(vec![first, Cond::Not(Box::new(same))]))
    }
}
