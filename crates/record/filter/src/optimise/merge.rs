//! Operands about one number, or one string, become one.

use super::effects::Effects;
use super::{member, negate};
use crate::string_pattern::StringPattern;
use crate::typed::Cond;
use std::collections::HashSet;

/// How far back an operand looks for one of the same number.
const BACK_MAX: usize = 64;

/// The operands of `&&` (`deciding` is false) or of `||` (true), those that can be put together put together.
pub(super) fn operands(list: Vec<Cond>, deciding: bool) -> Vec<Cond> {
    let mut out: Vec<Cond> = Vec::with_capacity(list.len());
    for operand in list {
        match partner(&out, &operand, deciding) {
            Some((at, merged)) => out[at] = merged,
            None => out.push(operand),
        }
    }
    out
}

/// Which of the operands before goes together with this one, and what they become.
fn partner(before: &[Cond], operand: &Cond, deciding: bool) -> Option<(usize, Cond)> {
    let effects = Effects::of(operand);
    for (at, other) in before.iter().enumerate().rev().take(BACK_MAX) {
        if let Some(merged) = together(other, operand, deciding) {
            return Some((at, merged));
        }
        // It may only come earlier than what stands between when that is not seen.
        if !effects.is_pure() || effects.faults || !Effects::of(other).is_pure() {
            return None;
        }
    }
    None
}

/// One operand instead of two.
fn together(before: &Cond, operand: &Cond, deciding: bool) -> Option<Cond> {
    match (before, operand) {
        (Cond::Member(a, left), Cond::Member(b, right)) if a == b && !Effects::of(before).state => {
            let set = if deciding { left.union(right) } else { left.intersection(right) };
            Some(member(b.clone(), &set))
        }
        (Cond::StringMatch(a, left), Cond::StringMatch(b, right)) if deciding && a == b => {
            Some(Cond::StringMatch(*b, both(left, right)))
        }
        (Cond::Not(left), Cond::Not(right)) if !deciding => match (&**left, &**right) {
            (Cond::StringMatch(a, left), Cond::StringMatch(b, right)) if a == b => {
                Some(negate(Cond::StringMatch(*b, both(left, right))))
            }
            _ => None,
        },
        _ => None,
    }
}

fn both(left: &[StringPattern], right: &[StringPattern]) -> Vec<StringPattern> {
    let mut all = [left, right].concat();
    unique(&mut all);
    all
}

/// Each pattern once.
pub(super) fn unique(patterns: &mut Vec<StringPattern>) {
    let mut seen = HashSet::new();
    patterns.retain(|pattern| seen.insert(pattern.clone()));
}
