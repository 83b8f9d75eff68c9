//! Conditions: jumps to one of two labels.

use super::code::{Code, Label, Next, Stop, Ways};
use crate::typed::{Cond, Num, Order};
use mote_bpf::op;

mod set;
mod string;
mod thread_string;

impl Code<'_> {
    /// Goes on at `holds` or at `not`.
    pub(in crate::emit) fn condition(
        &mut self,
        cond: &Cond,
        holds: Label,
        not: Label,
        next: Next,
    ) -> Result<(), Stop> {
        if !self.is_reachable() {
            return Ok(());
        }
        let ways = (holds, not, next);
        match cond {
            Cond::Constant(value) => {
                self.constant_outcome(*value, ways);
                Ok(())
            }
            Cond::Not(inner) => self.condition(inner, not, holds, next.flipped()),
            Cond::And(list) => self.list(list, ways, Next::True),
            Cond::Or(list) => self.list(list, ways, Next::False),
            Cond::Member(num, set) => self.member(num, set, ways),
            Cond::Compare(order, a, b) => self.compare(*order, a, b, ways),
            Cond::FloatMember(float, set) => self.float_member(float, *set, ways),
            Cond::FloatCompare(order, a, b) => self.float_compare(*order, a, b, ways),
            Cond::StringMatch(string, patterns) => self.string(*string, patterns, ways),
            Cond::StringOrder(order, string, bytes) => self.string_order(*order, *string, bytes, ways),
            Cond::StringCompare(order, a, b) => self.string_compare(*order, *a, *b, ways),
            Cond::StringKept(word, kept) => self.string_kept(*word, *kept, ways),
            Cond::HasLast => self.has_last(ways),
            Cond::Every(n, counter) => self.every(*n, *counter, ways),
            Cond::First(n, counter) => self.first(*n, *counter, ways),
            Cond::Limit(n, ns, counter) => self.limit(*n, *ns, *counter, ways),
            Cond::Sample(part) => self.sample(*part, ways),
            Cond::Window => self.window(ways),
        }
    }

    /// What is known without looking.
    pub(in crate::emit) fn constant_outcome(&mut self, value: bool, (holds, not, next): Ways) {
        match (value, next) {
            (true, Next::False) => self.jump(holds),
            (false, Next::True) => self.jump(not),
            // It is next.
            _ => {}
        }
    }

    /// Operands of `&&` (`going_on` is true) or of `||` (false).
    fn list(&mut self, list: &[Cond], ways: Ways, going_on: Next) -> Result<(), Stop> {
        let (holds, not, next) = ways;
        let Some((last, before)) = list.split_last() else {
            self.constant_outcome(going_on == Next::True, ways);
            return Ok(());
        };
        for operand in before {
            let on = self.label();
            let (holds, not) = if going_on == Next::True { (on, not) } else { (holds, on) };
            self.condition(operand, holds, not, going_on)?;
            self.bind(on);
        }
        self.condition(last, holds, not, next)
    }

    fn compare(&mut self, order: Order, a: &Num, b: &Num, ways: Ways) -> Result<(), Stop> {
        let (left, right) = self.both(a, b)?;
        let natural = a.min >= 0 && b.min >= 0;
        let both_signed = a.is_signed() && b.is_signed();
        if natural || both_signed {
            self.decide(branch_of(order, !natural), left, right, ways);
        } else {
            // One is above all signed numbers, or the other is negative: then that one is less.
            let (negative, less) = if a.min < 0 { (left, true) } else { (right, false) };
            let outcome = match order {
                Order::Eq => false,
                Order::Ne => true,
                Order::Lt | Order::Le => less,
                Order::Gt | Order::Ge => !less,
            };
            let decided = if outcome { ways.0 } else { ways.1 };
            self.branch(op::Cond::SLt, negative, 0, decided);
            self.decide(branch_of(order, false), left, right, ways);
        }
        self.release(left);
        self.release(right);
        Ok(())
    }
}

/// The branch that compares so.
pub(in crate::emit) fn branch_of(order: Order, signed: bool) -> op::Cond {
    match (order, signed) {
        (Order::Eq, _) => op::Cond::Eq,
        (Order::Ne, _) => op::Cond::Ne,
        (Order::Lt, false) => op::Cond::Lt,
        (Order::Le, false) => op::Cond::Le,
        (Order::Gt, false) => op::Cond::Gt,
        (Order::Ge, false) => op::Cond::Ge,
        (Order::Lt, true) => op::Cond::SLt,
        (Order::Le, true) => op::Cond::SLe,
        (Order::Gt, true) => op::Cond::SGt,
        (Order::Ge, true) => op::Cond::SGe,
    }
}
