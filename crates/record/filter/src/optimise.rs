//! Trees that mean the same and cost less.
//!
//! | what | where |
//! |---|---|
//! | arithmetic of constants, comparisons that their ranges decide | here |
//! | `!` down to the leaves | here |
//! | comparisons of one number become one set, of one string one list | [`merge`] |
//! | cheap operands first | [`order`] |
//!
//! What is visible stays: an operand that has state (`every(..)`) or may fail is not moved over another, nor dropped;
//! one that may fault (it reads memory of the traced program) only comes later, never earlier, than it was written.

use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::BinaryOp;
use crate::typed::{
    Action, Cond, Element, EmittedField, Float, KeyPlan, KeyValue, Num, NumKind, Order, Plan, Set,
    SpeculationKey, SpeculationValue,
};

mod effects;
mod merge;
mod order;

use effects::Effects;

/// Improves all of a plan.
pub(crate) fn plan(plan: &mut Plan) {
    plan.speculated_by.iter_mut().for_each(|speculation| speculation_key(&mut speculation.key));
    for rule in &mut plan.rules {
        let written = rule.condition.clone();
        rule.condition = cond(std::mem::replace(&mut rule.condition, Cond::Constant(true)));
        rule.actions.iter_mut().for_each(action);
        // A rule that goes by the level is meant to leave out whole events.
        let is_odd = !rule.source.contains("$level");
        if rule.condition == Cond::Constant(false) && written != rule.condition && is_odd {
            let all = Span::new(0, rule.source.len());
            let problem = Diagnostic::mismatch(all, "this condition never holds")
                .label("whatever the event's fields are");
            plan.warnings.push(problem.of(&rule.source).for_event(&plan.event));
        }
    }
}

fn action(action: &mut Action) {
    match action {
        Action::Count { keys, .. } | Action::Last { fields: keys, .. } => keys.iter_mut().for_each(key),
        Action::Histogram { value, keys, .. } => {
            key(value);
            keys.iter_mut().for_each(key);
        }
        Action::Emit { fields, .. } => fields.iter_mut().for_each(|field| {
            if let EmittedField::Number(num, _) = field {
                replace(num, number);
            }
        }),
        Action::Speculate(Some(key)) | Action::Commit(Some(key)) | Action::Discard(Some(key)) => {
            speculation_key(key);
        }
        _ => {}
    }
}

fn speculation_key(key: &mut SpeculationKey) {
    if let SpeculationValue::Number(num) = &mut key.value {
        replace(num, number);
    }
}

fn key(key: &mut KeyPlan) {
    if let KeyValue::Number(num) = &mut key.value {
        replace(num, number);
    }
}

fn replace(num: &mut Num, with: impl FnOnce(Num) -> Num) {
    let old = std::mem::replace(num, Num::constant(0));
    *num = with(old);
}

/// Improves a number. Its range stays, as do those of its parts: they say how its bits are meant.
pub(crate) fn number(num: Num) -> Num {
    let Num { kind, min, max } = num;
    let kind = match kind {
        NumKind::Neg(inner) => NumKind::Neg(Box::new(number(*inner))),
        NumKind::BitNot(inner) => NumKind::BitNot(Box::new(number(*inner))),
        NumKind::Binary(op, a, b) => match (op, b.as_constant()) {
            (op, Some(0)) if has_no_use_of_zero(op) && a.is_signed() == (max <= i64::MAX.into()) => {
                return number(*a);
            }
            (BinaryOp::Mul | BinaryOp::Div, Some(1)) if a.is_signed() == (max <= i64::MAX.into()) => {
                return number(*a);
            }
            _ => NumKind::Binary(op, Box::new(number(*a)), Box::new(number(*b))),
        },
        NumKind::Element(mut element) => {
            replace(&mut element.index, number);
            NumKind::Element(element)
        }
        NumKind::Truth(inner) => NumKind::Truth(Box::new(cond(*inner))),
        NumKind::Elapsed(mut key) => {
            speculation_key(&mut key);
            NumKind::Elapsed(key)
        }
        leaf => leaf,
    };
    Num::new(kind, min, max)
}

/// Whether `a OP 0` is `a`.
fn has_no_use_of_zero(op: BinaryOp) -> bool {
    use BinaryOp::{Add, BitOr, BitXor, Shl, Shr, Sub};
    matches!(op, Add | Sub | Shl | Shr | BitOr | BitXor)
}

/// Improves a condition.
pub(crate) fn cond(cond: Cond) -> Cond {
    match cond {
        Cond::Not(inner) => negate(self::cond(*inner)),
        Cond::And(list) => joined(list, false),
        Cond::Or(list) => joined(list, true),
        Cond::Member(num, set) => member(number(num), &set),
        Cond::Compare(order, a, b) => compare(order, number(a), number(b)),
        Cond::FloatMember(float, set) => Cond::FloatMember(self::float(float), set),
        Cond::FloatCompare(order, a, b) => Cond::FloatCompare(order, float(a), float(b)),
        Cond::StringMatch(string, mut patterns) => {
            if patterns.iter().any(|pattern| pattern.is_any()) {
                return Cond::Constant(true);
            }
            merge::unique(&mut patterns);
            Cond::StringMatch(string, patterns)
        }
        Cond::Every(1, _) => Cond::Constant(true),
        Cond::Sample(part) if part == 0 || part >= 1 << 32 => Cond::Constant(part > 0),
        leaf => leaf,
    }
}

fn float(float: Float) -> Float {
    if let Float::Element(mut element) = float {
        let Element { index, .. } = &mut *element;
        replace(index, number);
        return Float::Element(element);
    }
    float
}

/// What holds when an improved condition does not.
fn negate(cond: Cond) -> Cond {
    match cond {
        Cond::Constant(value) => Cond::Constant(!value),
        Cond::Not(inner) => *inner,
        Cond::And(list) => joined(list.into_iter().map(negate).collect(), true),
        Cond::Or(list) => joined(list.into_iter().map(negate).collect(), false),
        Cond::Member(num, set) => member(num, &set.complement()),
        Cond::Compare(order, a, b) => Cond::Compare(order.opposite(), a, b),
        Cond::FloatMember(float, set) => Cond::FloatMember(float, set.opposite()),
        other => Cond::Not(Box::new(other)),
    }
}

fn member(num: Num, set: &Set) -> Cond {
    let set = set.within(num.min, num.max);
    if let NumKind::Truth(inner) = num.kind {
        return match (set.contains(0), set.contains(1)) {
            (false, true) => *inner,
            (true, false) => negate(*inner),
            (always, _) if Effects::of(&inner).is_pure() => Cond::Constant(always),
            _ => Cond::Member(Num::new(NumKind::Truth(inner), 0, 1), set),
        };
    }
    if set.is_empty() || set.covers(num.min, num.max) {
        let decided = Cond::Constant(!set.is_empty());
        // An element that is not there fails, whatever it is compared with.
        let kept = Cond::Member(num, set);
        return if Effects::of(&kept).is_pure() { decided } else { kept };
    }
    Cond::Member(num, set)
}

fn compare(order: Order, a: Num, b: Num) -> Cond {
    if let Some(value) = b.as_constant() {
        return member(a, &Set::compared(order, value));
    }
    if let Some(value) = a.as_constant() {
        return member(b, &Set::compared(order.mirrored(), value));
    }
    let decided = match order {
        _ if a.max < b.min => Some(matches!(order, Order::Lt | Order::Le | Order::Ne)),
        _ if a.min > b.max => Some(matches!(order, Order::Gt | Order::Ge | Order::Ne)),
        _ => None,
    };
    let kept = Cond::Compare(order, a, b);
    match decided {
        Some(value) if Effects::of(&kept).is_pure() => Cond::Constant(value),
        _ => kept,
    }
}

/// `&&` (or `||`) of a list; `deciding` is the value that ends it early: false (or true).
fn joined(list: Vec<Cond>, deciding: bool) -> Cond {
    let mut flat = Vec::with_capacity(list.len());
    for operand in list.into_iter().map(cond) {
        match (operand, deciding) {
            (Cond::And(inner), false) | (Cond::Or(inner), true) => flat.extend(inner),
            (operand, _) => flat.push(operand),
        }
    }
    flat = merge::operands(flat, deciding);
    flat.retain(|operand| *operand != Cond::Constant(!deciding));
    if let Some(at) = flat.iter().position(|operand| *operand == Cond::Constant(deciding)) {
        flat.truncate(at + 1);
        // What comes before may fail, or count.
        if flat[..at].iter().all(|operand| Effects::of(operand).is_pure()) {
            return Cond::Constant(deciding);
        }
    }
    order::cheap_first(&mut flat);
    match flat.len() {
        0 => Cond::Constant(!deciding),
        1 => flat.remove(0),
        _ if deciding => Cond::Or(flat),
        _ => Cond::And(flat),
    }
}

#[cfg(test)]
mod tests;
