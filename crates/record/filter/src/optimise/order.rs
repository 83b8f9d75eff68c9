//! Cheap operands first.

use super::effects::Effects;
use crate::typed::Cond;

/// How far an operand moves forward at most.
const FORWARD_MAX: usize = 256;

/// Puts operands of `&&` or `||` before dearer ones, where that is not seen. One that neither fails nor counts nor
/// faults may go before another that does not count: then fewer of the others are worked out, never more, and none that
/// would not have been.
pub(super) fn cheap_first(list: &mut Vec<Cond>) {
    let mut sorted: Vec<(Effects, Cond)> = Vec::with_capacity(list.len());
    for cond in list.drain(..) {
        let own = Effects::of(&cond);
        let mut at = sorted.len();
        if own.is_pure() && !own.faults {
            let floor = at.saturating_sub(FORWARD_MAX);
            while at > floor && moves_over(own, sorted[at - 1].0) {
                at -= 1;
            }
        }
        sorted.insert(at, (own, cond));
    }
    list.extend(sorted.into_iter().map(|(_, cond)| cond));
}

fn moves_over(own: Effects, before: Effects) -> bool {
    !before.state && !before.fails && before.cost > own.cost
}
