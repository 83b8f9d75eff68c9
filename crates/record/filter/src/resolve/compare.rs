//! Comparisons and lists.

use super::Resolver;
use super::expression::as_array;
use super::value::{Shown, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::string_pattern::StringPattern;
use crate::syntax::{Expr, Member};
use crate::typed::{Cond, Float, FloatSet, Num, Order, Set, StringSource};
use mote_layout::parse::Labels;

impl<'a> Resolver<'a> {
    /// `left ORDER right`
    pub(super) fn comparison(&mut self, order: Order, left: &Expr, right: &Expr) -> Result<Cond, Diagnostic> {
        let (a, b) = (self.value_or_label(left)?, self.value_or_label(right)?);
        // Constants go to the right.
        if is_constant(&a) && !is_constant(&b) {
            return self.compared(order.mirrored(), b, right.span, a, left.span);
        }
        self.compared(order, a, left.span, b, right.span)
    }

    fn compared(
        &mut self,
        order: Order,
        a: Value<'a>,
        a_span: Span,
        b: Value<'a>,
        b_span: Span,
    ) -> Result<Cond, Diagnostic> {
        match (a, b) {
            (Value::Num(num, Shown::Labels(labels)), Value::Label(label)) => {
                let set = labelled(order, labels, &StringPattern::exact(label.as_bytes()), b_span)?;
                Ok(Cond::Member(num, set))
            }
            (Value::Num(num, Shown::Labels(labels)), Value::Pattern(pattern)) => {
                Ok(Cond::Member(num, labelled(order, labels, &pattern, b_span)?))
            }
            (Value::Label(name), _) => Err(self.unknown(&name, a_span)),
            (_, Value::Label(name)) => Err(self.unknown(&name, b_span)),
            (Value::Float(a), Value::Float(b)) => floats(order, a, b, b_span),
            (Value::Float(float), Value::Num(num, _)) => float_and_number(order, float, &num, b_span),
            (Value::Num(num, _), Value::Float(float)) => {
                float_and_number(order.mirrored(), float, &num, a_span)
            }
            (Value::LastString(kept), Value::String(StringSource::Field(word)))
            | (Value::String(StringSource::Field(word)), Value::LastString(kept)) => {
                kept_string(order, word, kept, a_span.to(b_span))
            }
            (Value::LastString(_), _) | (_, Value::LastString(_)) => {
                let problem =
                    Diagnostic::mismatch(a_span.to(b_span), "only a hash of the last string is kept");
                Err(problem.help("compare it with a string field, as in `path != $last.path`"))
            }
            (a, b) => match (string_of(&a), string_of(&b)) {
                (Some(_), _) | (_, Some(_)) | (None, None) if is_string(&a) || is_string(&b) => {
                    strings(order, a, a_span, b, b_span)
                }
                _ => {
                    let (a, b) = (a.number(a_span)?, b.number(b_span)?);
                    Ok(numbers(order, a, b))
                }
            },
        }
    }

    /// `left in (..)`
    pub(super) fn member_of(&mut self, left: &Expr, members: &[Member]) -> Result<Cond, Diagnostic> {
        let value = self.value(left)?;
        if let Some(string) = string_of(&value) {
            return self.string_in(string, members);
        }
        if let Value::Float(float) = value {
            return self.float_in(&float, members);
        }
        let labels = if let Value::Num(_, Shown::Labels(labels)) = value { Some(labels) } else { None };
        let num = value.number(left.span)?;
        let mut ranges = Vec::new();
        for member in members {
            match member {
                Member::One(one) => ranges.extend_from_slice(self.constants(one, labels)?.ranges()),
                Member::Range(first, last) => {
                    let (from, to) = (self.constants(first, labels)?, self.constants(last, labels)?);
                    let ends = from.ranges().first().zip(to.ranges().last());
                    let Some((from, to)) = ends.filter(|(from, to)| from.0 <= to.1) else {
                        let problem = Diagnostic::mismatch(first.span.to(last.span), "this range is empty");
                        return Err(problem.help("write the smaller number first"));
                    };
                    ranges.push((from.0, to.1));
                }
            }
        }
        Ok(Cond::Member(num, Set::new(ranges)))
    }

    /// The values that a member of a list stands for.
    fn constants(&mut self, expr: &Expr, labels: Option<Labels<'a>>) -> Result<Set, Diagnostic> {
        match (self.value_or_label(expr)?, labels) {
            (Value::Label(label), Some(labels)) => {
                labelled(Order::Eq, labels, &StringPattern::exact(label.as_bytes()), expr.span)
            }
            (Value::Pattern(pattern), Some(labels)) => labelled(Order::Eq, labels, &pattern, expr.span),
            (Value::Label(name), None) => Err(self.unknown(&name, expr.span)),
            (value, _) => {
                let what = value.what();
                let num = crate::optimise::number(value.number(expr.span)?);
                num.as_constant().map(|value| Set::compared(Order::Eq, value)).ok_or_else(|| {
                    let problem = Diagnostic::mismatch(expr.span, "expected a constant in the list");
                    problem.label(format!("this is {what}")).help("compare fields with `==`, joined by `||`")
                })
            }
        }
    }

    fn string_in(&mut self, string: StringSource, members: &[Member]) -> Result<Cond, Diagnostic> {
        let mut patterns = Vec::new();
        for member in members {
            let (expr, range) = match member {
                Member::One(one) => (one, false),
                Member::Range(first, _) => (first, true),
            };
            match self.value_or_label(expr)? {
                Value::Pattern(pattern) if !range => patterns.push(pattern),
                _ => {
                    let problem = Diagnostic::mismatch(expr.span, "expected a string in quotes");
                    return Err(problem.label("in a list for a string"));
                }
            }
        }
        Ok(Cond::StringMatch(string, patterns))
    }

    fn float_in(&mut self, float: &Float, members: &[Member]) -> Result<Cond, Diagnostic> {
        let mut any = Vec::new();
        for member in members {
            let mut compared = |order, expr: &Expr| {
                let value = self.value(expr)?;
                self.compared(order, Value::Float(float.clone()), expr.span, value, expr.span)
            };
            any.push(match member {
                Member::One(one) => compared(Order::Eq, one)?,
                Member::Range(first, last) => {
                    Cond::And(vec![compared(Order::Ge, first)?, compared(Order::Le, last)?])
                }
            });
        }
        Ok(Cond::Or(any))
    }
}

/// Whether an index that is known is one of an array's.
pub(super) fn index_in_bounds(value: i128, count: Option<u32>, span: Span) -> Result<(), Diagnostic> {
    if value < 0 {
        return Err(Diagnostic::mismatch(span, "an index cannot be negative"));
    }
    match count {
        Some(count) if value >= i128::from(count) => {
            let problem = Diagnostic::mismatch(span, format!("the array has {count} elements"));
            Err(problem.label("indices begin at 0"))
        }
        None if value > i128::from(crate::target::INDEX_MAX) => {
            Err(Diagnostic::mismatch(span, "a sequence has at most 65535 elements"))
        }
        _ => Ok(()),
    }
}

fn is_constant(value: &Value<'_>) -> bool {
    match value {
        Value::Num(num, _) => num.as_constant().is_some(),
        Value::Float(Float::Constant(_)) | Value::Pattern(_) | Value::Label(_) => true,
        _ => false,
    }
}

fn is_string(value: &Value<'_>) -> bool {
    matches!(value, Value::Pattern(_)) || string_of(value).is_some()
}

/// A string of the event or the thread.
pub(super) fn string_of(value: &Value<'_>) -> Option<StringSource> {
    match value {
        Value::String(string) => Some(*string),
        Value::Array(array) => array.as_string(),
        _ => None,
    }
}

fn strings(order: Order, a: Value<'_>, a_span: Span, b: Value<'_>, b_span: Span) -> Result<Cond, Diagnostic> {
    let mismatch = |a: &Value<'_>, b: &Value<'_>| {
        let (culprit, span, other) = if is_string(a) { (b, b_span, "string") } else { (a, a_span, "string") };
        let message = format!("{} cannot be compared with a {other}", culprit.what());
        let problem = Diagnostic::mismatch(span, message).label(format!("this is {}", culprit.what()));
        match as_array(culprit) {
            Some(_) => problem.help("compare its elements: `a[0] == 1`"),
            None => problem,
        }
    };
    match (string_of(&a), string_of(&b), &a, &b) {
        (Some(StringSource::Field(left)), Some(StringSource::Field(right)), ..) => {
            Ok(Cond::StringCompare(order, left, right))
        }
        (Some(_), Some(_), ..) => {
            let problem =
                Diagnostic::mismatch(a_span.to(b_span), "a context can be compared with a constant only");
            Err(problem.help("for example `$comm == \"worker*\"`"))
        }
        (Some(string), _, _, Value::Pattern(pattern)) => match order {
            Order::Eq => Ok(Cond::StringMatch(string, vec![pattern.clone()])),
            Order::Ne => Ok(Cond::Not(Box::new(Cond::StringMatch(string, vec![pattern.clone()])))),
            _ => match (pattern.as_exact(), string) {
                (Some(bytes), StringSource::Field(_)) => Ok(Cond::StringOrder(order, string, bytes.to_vec())),
                (Some(_), _) => Err(Diagnostic::mismatch(a_span, "a context cannot be compared by < or >")
                    .help("compare it by `==` or `!=`")),
                (None, _) => Err(Diagnostic::mismatch(b_span, "a pattern cannot be compared by < or >")
                    .help("write `\\*` for a `*`")),
            },
        },
        (_, _, Value::Pattern(left), Value::Pattern(right)) => {
            constant_strings(order, left, right, a_span.to(b_span))
        }
        _ => Err(mismatch(&a, &b)),
    }
}

/// Two constants: the pattern may stand on either side.
fn constant_strings(
    order: Order,
    left: &StringPattern,
    right: &StringPattern,
    span: Span,
) -> Result<Cond, Diagnostic> {
    let is_same = match (left.as_exact(), right.as_exact()) {
        (Some(left), Some(right)) => return Ok(Cond::Constant(order.holds(left.cmp(right)))),
        (Some(left), None) => right.matches(left),
        (None, Some(right)) => left.matches(right),
        (None, None) => {
            let problem = Diagnostic::mismatch(span, "two patterns cannot be compared");
            return Err(problem.help("write `\\*` for a `*` that is part of a string"));
        }
    };
    match order {
        Order::Eq => Ok(Cond::Constant(is_same)),
        Order::Ne => Ok(Cond::Constant(!is_same)),
        _ => Err(Diagnostic::mismatch(span, "a pattern cannot be compared by < or >")
            .help("write `\\*` for a `*`")),
    }
}

fn numbers(order: Order, a: Num, b: Num) -> Cond {
    match b.as_constant() {
        Some(value) => Cond::Member(a, Set::compared(order, value)),
        None => Cond::Compare(order, a, b),
    }
}

fn floats(order: Order, a: Float, b: Float, b_span: Span) -> Result<Cond, Diagnostic> {
    match (&a, &b) {
        (Float::Constant(left), Float::Constant(right)) => Ok(Cond::Constant(
            FloatSet::compared(order, *right, false).contains(crate::typed::float::key(left.to_bits())),
        )),
        (_, Float::Constant(value)) => {
            let set = FloatSet::compared(order, *value, a.is_single());
            Ok(Cond::FloatMember(a, set))
        }
        _ if a.is_single() != b.is_single() => {
            let problem =
                Diagnostic::mismatch(b_span, "a 32-bit float cannot be compared with a 64-bit float");
            Err(problem.help("elements of `f32` arrays have 32 bits, all other floats have 64"))
        }
        _ => Ok(Cond::FloatCompare(order, a, b)),
    }
}

fn float_and_number(order: Order, float: Float, num: &Num, num_span: Span) -> Result<Cond, Diagnostic> {
    let num = crate::optimise::number(num.clone());
    match (float, num.as_constant()) {
        (Float::Constant(value), _) => Ok(Cond::Member(num, whole(order.mirrored(), value))),
        (float, Some(value)) => {
            let set = FloatSet::compared(order, value as f64, float.is_single());
            Ok(Cond::FloatMember(float, set))
        }
        _ => {
            let problem =
                Diagnostic::mismatch(num_span, "an integer field cannot be compared with a float field");
            Err(problem.label("this is an integer").help("compare both with constants"))
        }
    }
}

/// The integers that compare so with a float.
fn whole(order: Order, value: f64) -> Set {
    let (below, above) = (value.floor() as i128, value.ceil() as i128);
    match order {
        Order::Eq | Order::Ne if below != above => {
            let none = Set::default();
            if order == Order::Eq { none } else { none.complement() }
        }
        Order::Lt | Order::Ge => Set::compared(order, above.clamp(-(1 << 100), 1 << 100)),
        _ => Set::compared(order, below.clamp(-(1 << 100), 1 << 100)),
    }
}

fn kept_string(order: Order, word: u16, kept: u16, span: Span) -> Result<Cond, Diagnostic> {
    let same = Cond::StringKept(word, kept);
    match order {
        Order::Eq => Ok(same),
        Order::Ne => Ok(Cond::Not(Box::new(same))),
        _ => Err(Diagnostic::mismatch(span, "only a hash of the last string is kept")
            .help("compare by `==` or `!=`")),
    }
}

/// The one value of a label.
pub(super) fn label(labels: Labels<'_>, name: &str, span: Span) -> Result<Num, Diagnostic> {
    let set = labelled(Order::Eq, labels, &StringPattern::exact(name.as_bytes()), span)?;
    match set.ranges() {
        [(first, last)] if first == last => Ok(Num::constant(*first)),
        _ => Err(Diagnostic::mismatch(span, format!("the label {name} stands for several values"))
            .help("compare with it by `==`")),
    }
}

/// The values of the labels that fit.
fn labelled(
    order: Order,
    labels: Labels<'_>,
    pattern: &StringPattern,
    span: Span,
) -> Result<Set, Diagnostic> {
    let fits = labels.iter().filter(|(label, ..)| pattern.matches(label.as_bytes()));
    let ranges: Vec<_> = fits.map(|(_, first, last)| (i128::from(first), i128::from(last))).collect();
    let set = Set::new(ranges);
    let Some((&(first, _), &(_, last))) = set.ranges().first().zip(set.ranges().last()) else {
        let names: Vec<&str> = labels.iter().map(|(label, ..)| label).collect();
        let wanted = pattern.to_string();
        let problem = Diagnostic::mismatch(span, format!("the enumeration has no label {wanted}"));
        return Err(problem.similar(wanted.trim_matches('"'), &names));
    };
    Ok(match order {
        Order::Eq => set,
        Order::Ne => set.complement(),
        Order::Lt | Order::Ge => Set::compared(order, first),
        Order::Le | Order::Gt => Set::compared(order, last),
    })
}
