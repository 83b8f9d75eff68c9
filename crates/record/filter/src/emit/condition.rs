//! Conditions: jumps to one of two labels.

use super::code::{Code, Label, Stop};
use crate::tree::{Cond, Num, Order};
use mote_bpf::op;

/// Which of the two labels is bound right behind a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    True,
    False,
}

impl Next {
    fn flipped(self) -> Next {
        if self == Next::True { Next::False } else { Next::True }
    }
}

impl Code<'_> {
    /// Goes on at `holds` or at `not`.
    pub(super) fn condition(
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
            Cond::Text(text, patterns) => self.text(*text, patterns, ways),
            Cond::TextOrder(order, text, bytes) => self.text_order(*order, *text, bytes, ways),
            Cond::TextCompare(order, a, b) => self.text_compare(*order, *a, *b, ways),
            Cond::TextKept(word, kept) => self.text_kept(*word, *kept, ways),
            Cond::HasLast => self.has_last(ways),
            Cond::Every(n, counter) => self.every(*n, *counter, ways),
            Cond::First(n, counter) => self.first(*n, *counter, ways),
            Cond::Limit(n, ns, counter) => self.limit(*n, *ns, *counter, ways),
            Cond::Sample(part) => self.sample(*part, ways),
            Cond::Window => self.window(ways),
        }
    }

    /// What is known without looking.
    pub(super) fn constant_outcome(&mut self, value: bool, (holds, not, next): (Label, Label, Next)) {
        match (value, next) {
            (true, Next::False) => self.jump(holds),
            (false, Next::True) => self.jump(not),
            // It is next.
            _ => {}
        }
    }

    /// Operands of `&&` (`going_on` is true) or of `||` (false).
    fn list(&mut self, list: &[Cond], ways: (Label, Label, Next), going_on: Next) -> Result<(), Stop> {
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

    fn compare(&mut self, order: Order, a: &Num, b: &Num, ways: (Label, Label, Next)) -> Result<(), Stop> {
        let (left, right) = self.both(a, b)?;
        let natural = a.min >= 0 && b.min >= 0;
        let both_signed = a.is_signed() && b.is_signed();
        if natural || both_signed {
            self.decide(branch_of(order, !natural), left.reg, right.reg, ways);
        } else {
            // One is above all signed numbers, or the other is negative: then that one is less.
            let (negative, less) = if a.min < 0 { (left.reg, true) } else { (right.reg, false) };
            let outcome = match order {
                Order::Eq => false,
                Order::Ne => true,
                Order::Lt | Order::Le => less,
                Order::Gt | Order::Ge => !less,
            };
            let decided = if outcome { ways.0 } else { ways.1 };
            self.branch(op::Cond::SLt, negative, 0, decided);
            self.decide(branch_of(order, false), left.reg, right.reg, ways);
        }
        self.release(left);
        self.release(right);
        Ok(())
    }
}

/// The branch that compares so.
pub(super) fn branch_of(order: Order, signed: bool) -> op::Cond {
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
