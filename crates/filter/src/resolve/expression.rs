//! Expressions, operator by operator.

use super::value::{Array, Shown, Value};
use super::{Resolver, compare};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::tree::{Cond, Element, Float, Num, NumKind, Order};
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
        let span = expr.span;
        match &expr.kind {
            ExprKind::Integer(value) => Ok(Value::Num(Num::constant(i128::from(*value)), Shown::Plain)),
            ExprKind::Float(value) => Ok(Value::Float(Float::Constant(*value))),
            ExprKind::Text(pattern) => Ok(Value::Pattern(pattern.clone())),
            ExprKind::Name(name) => Ok(self.name(name)),
            ExprKind::Context(name) => self.context(name, span),
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
        let (a, b) = (self.number(left)?, self.number(right)?);
        if let Some(by) = b.as_constant() {
            if matches!(op, BinaryOp::Shl | BinaryOp::Shr) && !(0..=63).contains(&by) {
                let problem =
                    Diagnostic::mismatch(right.span, format!("a number has 64 bits to shift, not {by}"));
                return Err(problem.help("shift by 0 to 63"));
            }
            if matches!(op, BinaryOp::Div | BinaryOp::Mod) && by == 0 {
                return Err(Diagnostic::mismatch(right.span, "division by zero"));
            }
        }
        Ok(Value::Num(Num::binary(op, a, b), Shown::Plain))
    }

    /// `array[index]`
    fn element(&mut self, array: &Expr, index: &Expr) -> Result<Value<'a>, Diagnostic> {
        let array_value = self.value(array)?;
        let Some(place) = as_array(&array_value) else {
            let problem = Diagnostic::mismatch(array.span, "only arrays, sequences and texts have elements");
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

/// What has elements: also a text, which is of bytes.
pub(super) fn as_array(value: &Value<'_>) -> Option<Array> {
    match value {
        Value::Array(array) => Some(*array),
        Value::Text(crate::tree::Text::Field(word)) => {
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

/// A span of the rule's text, as it was written.
pub(super) fn written(source: &str, span: Span) -> String {
    source.get(span.start..span.end).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
