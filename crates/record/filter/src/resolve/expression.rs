//! Expressions, operator by operator.

use super::published::words_name;
use super::value::{Array, Shown, Value};
use super::{Resolver, compare};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::target::Side;
use crate::typed::{Cond, Element, Float, Num, NumKind, Order};
use mote_layout::types::Scalar;

impl<'a> Resolver<'a> {
    /// Any expression; a name that is no field is an error.
    pub(super) fn value(&mut self, expr: &Expr) -> Result<Value<'a>, Diagnostic> {
        match self.value_or_label(expr)? {
            Value::Label(name) => Err(self.unknown(&name, expr.span)),
            value => Ok(value),
        }
    }

    /// Any expression; a name that is no field may be a label.
    pub(super) fn value_or_label(&mut self, expr: &Expr) -> Result<Value<'a>, Diagnostic> {
        let value = self.any_value(expr)?;
        self.value_is_here(&value, expr.span)?;
        Ok(value)
    }

    /// Whether programs of this side can have such a value.
    fn value_is_here(&self, value: &Value<'_>, span: Span) -> Result<(), Diagnostic> {
        let what = match value {
            _ if self.side == Side::User => return Ok(()),
            Value::Float(Float::Constant(_)) => return Ok(()),
            Value::Float(_) => "floats cannot be compared",
            Value::Array(array) if array.count.is_none() => "sequences cannot be read",
            _ => return Ok(()),
        };
        let problem = Diagnostic::wrong_side(self.side, span, what);
        Err(problem.label(format!("this is {}", value.what())))
    }

    fn any_value(&mut self, expr: &Expr) -> Result<Value<'a>, Diagnostic> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Integer(value) => Ok(Value::Num(Num::constant(i128::from(*value)), Shown::Plain)),
            ExprKind::Float(value) => Ok(Value::Float(Float::Constant(*value))),
            ExprKind::String(pattern) => Ok(Value::Pattern(pattern.clone())),
            ExprKind::Name(name) => Ok(self.name(name)),
            ExprKind::Context(name) => self.context(name, span),
            ExprKind::ElapsedBy(key) => self.elapsed_by(key, span),
            ExprKind::Index(array, index) => self.element(array, index),
            ExprKind::Call(name, arguments) => self.call(name, arguments, span),
            ExprKind::Unary(op, inner) => self.unary(*op, inner),
            ExprKind::And(list) => Ok(Value::Cond(Cond::And(self.conditions(list)?))),
            ExprKind::Or(list) => Ok(Value::Cond(Cond::Or(self.conditions(list)?))),
            ExprKind::In(left, members) => self.member_of(left, members).map(Value::Cond),
            ExprKind::Binary(op, left, right) => match Order::of(*op) {
                Some(order) => self.comparison(order, left, right).map(Value::Cond),
                None => self.arithmetic(*op, left, right),
            },
        }
    }

    fn conditions(&mut self, list: &[Expr]) -> Result<Vec<Cond>, Diagnostic> {
        list.iter().map(|expr| self.condition(expr)).collect()
    }

    pub(super) fn number(&mut self, expr: &Expr) -> Result<Num, Diagnostic> {
        self.value(expr)?.number(expr.span)
    }

    fn unary(&mut self, op: UnaryOp, inner: &Expr) -> Result<Value<'a>, Diagnostic> {
        if op == UnaryOp::Not {
            return Ok(Value::Cond(Cond::Not(Box::new(self.condition(inner)?))));
        }
        let value = self.value(inner)?;
        if let (UnaryOp::Minus, Value::Float(Float::Constant(value))) = (op, &value) {
            return Ok(Value::Float(Float::Constant(-value)));
        }
        if let (UnaryOp::Plus, Value::Float(_)) = (op, &value) {
            return Ok(value);
        }
        let num = value.number(inner.span)?;
        Ok(Value::Num(
            if let UnaryOp::Minus = op {
                if let ExprKind::Integer(value) = inner.kind
                    && value > i64::MIN.unsigned_abs()
                {
                    let problem = Diagnostic::mismatch(inner.span, format!("-{value} does not fit 64 bits"));
                    return Err(problem.help("the smallest number is -9223372036854775808"));
                }
                Num::neg(num)
            } else if let UnaryOp::BitNot = op {
                Num::bit_not(num)
            } else {
                num
            },
            Shown::Plain,
        ))
    }

    fn arithmetic(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Value<'a>, Diagnostic> {
        if matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor) {
            return self.bits(op, left, right);
        }
        let (a, b) = (self.number(left)?, self.number(right)?);
        if let Some(by) = b.as_constant() {
            if matches!(op, BinaryOp::Shl | BinaryOp::Shr) && !(0..=63).contains(&by) {
                let problem =
                    Diagnostic::mismatch(right.span, format!("a shift by {by} is too far for 64 bits"));
                return Err(problem.help("shift by 0 to 63"));
            }
            if matches!(op, BinaryOp::Div | BinaryOp::Mod) && by == 0 {
                return Err(Diagnostic::mismatch(right.span, "division by zero"));
            }
        }
        Ok(Value::Num(Num::binary(op, a, b), Shown::Plain))
    }

    /// `flags & O_CREAT`: a label of one side's bits may be the other side, and names what comes out of it.
    fn bits(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Value<'a>, Diagnostic> {
        let (a, b) = (self.value_or_label(left)?, self.value_or_label(right)?);
        let (a, b, shown) = match (a, b) {
            (Value::Num(num, shown @ Shown::Labels(labels)), Value::Label(label)) => {
                (num, compare::label(labels, &label, right.span)?, shown)
            }
            (Value::Label(label), Value::Num(num, shown @ Shown::Labels(labels))) => {
                (num, compare::label(labels, &label, left.span)?, shown)
            }
            (Value::Label(name), _) => return Err(self.unknown(&name, left.span)),
            (_, Value::Label(name)) => return Err(self.unknown(&name, right.span)),
            (Value::Num(a, shown @ Shown::Labels(_)), b) => (a, b.number(right.span)?, shown),
            (a, Value::Num(b, shown @ Shown::Labels(_))) => (a.number(left.span)?, b, shown),
            (a, b) => (a.number(left.span)?, b.number(right.span)?, Shown::Plain),
        };
        Ok(Value::Num(Num::binary(op, a, b), shown))
    }

    /// `array[index]`
    fn element(&mut self, array: &Expr, index: &Expr) -> Result<Value<'a>, Diagnostic> {
        if let ExprKind::Context(name) = &array.kind
            && let Some(words) = words_name(name.strip_prefix("ctx.").unwrap_or(name))
        {
            return self.shared_word(words, Some(index), index.span);
        }
        let array_value = self.value(array)?;
        let Some(place) = as_array(&array_value) else {
            let problem =
                Diagnostic::mismatch(array.span, "only arrays, sequences and strings have elements");
            return Err(problem.label(format!("this is {}", array_value.what())));
        };
        let at = self.number(index)?;
        if let Some(value) = at.as_constant() {
            compare::index_in_bounds(value, place.count, index.span)?;
        }
        let element = Element {
            word: place.word,
            count: place.count,
            bytes: place.scalar.bytes() as u32,
            signed: matches!(place.scalar, Scalar::Integer(integer) if integer.signed),
            index: at,
        };
        Ok(element_value(element, place.scalar))
    }
}

/// What has elements: also a string, which is of bytes.
pub(super) fn as_array(value: &Value<'_>) -> Option<Array> {
    match value {
        Value::Array(array) => Some(*array),
        Value::String(crate::typed::StringSource::Field(word)) => {
            Some(Array { word: *word, count: None, scalar: Scalar::unsigned(8) })
        }
        _ => None,
    }
}

fn element_value<'a>(element: Element, scalar: Scalar) -> Value<'a> {
    let kind = |element| NumKind::Element(Box::new(element));
    match scalar {
        Scalar::Integer(integer) => {
            let shown = if integer.hex { Shown::Hex } else { Shown::Plain };
            Value::Num(Num::integer(kind(element), integer.bits.into(), integer.signed), shown)
        }
        Scalar::Bool => Value::Num(Num::integer(kind(element), 8, false), Shown::Bool),
        Scalar::F32 | Scalar::F64 => Value::Float(Float::Element(Box::new(element))),
    }
}

/// A span of the rule's string, as it was written.
pub(super) fn written(source: &str, span: Span) -> String {
    source.get(span.start..span.end).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
