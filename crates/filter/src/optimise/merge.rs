//! Operands about one number, or one text, become one.

use super::effects::Effects;
use super::{member, negate};
use crate::text_pattern::TextPattern;
use crate::tree::Cond;
use std::collections::HashSet;

/// How far back an operand looks for one of the same number.
const BACK_MAX: usize = 64;

/// The operands of `&&` (`deciding` is false) or of `||` (true), those that can be put together put together.
pub(super) fn operands(list: Vec<Cond>, deciding: bool) -> Vec<Cond> {
    let mut out: Vec<Cond> = Vec::with_capacity(list.len());
    for operand in list {
        let effects = Effects::of(&operand);
        let mut left = Some(operand);
        for (distance, before) in out.iter_mut().rev().take(BACK_MAX).enumerate() {
            let Some(operand) = left.take() else { break };
            match together(before, operand, deciding) {
                Ok(merged) => *before = merged,
                Err(operand) => left = Some(operand),
            }
            // It may only come earlier than what stands between when nobody sees that.
            let barrier = Effects::of(before);
            let moves = effects.is_pure() && !effects.faults && barrier.is_pure();
            if distance + 1 < BACK_MAX && !moves {
                break;
            }
        }
        out.extend(left);
    }
    out
}

/// One operand instead of two, or else the second one back.
fn together(before: &Cond, operand: Cond, deciding: bool) -> Result<Cond, Cond> {
    match (before, operand) {
        (Cond::Member(a, left), Cond::Member(b, right)) if *a == b && !Effects::of(before).state => {
            let set = if deciding { left.union(&right) } else { left.intersection(&right) };
            Ok(member(b, &set))
        }
        (Cond::Text(a, left), Cond::Text(b, right)) if deciding && *a == b => {
            Ok(Cond::Text(b, both(left, right)))
        }
        (Cond::Not(left), Cond::Not(right)) if !deciding => match (&**left, *right) {
            (Cond::Text(a, left), Cond::Text(b, right)) if *a == b => {
                Ok(negate(Cond::Text(b, both(left, right))))
            }
            (_, right) => Err(Cond::Not(Box::new(right))),
        },
        (_, operand) => Err(operand),
    }
}

fn both(left: &[TextPattern], right: Vec<TextPattern>) -> Vec<TextPattern> {
    let mut all = left.to_vec();
    all.extend(right);
    unique(&mut all);
    all
}

/// Each pattern once.
pub(super) fn unique(patterns: &mut Vec<TextPattern>) {
    let mut seen = HashSet::new();
    patterns.retain(|pattern| seen.insert(pattern.clone()));
}
