//! What can be seen of an operand beside its value.

use crate::syntax::BinaryOp;
use crate::typed::{Cond, Context, Element, Float, Num, NumKind, SpeculationValue, StringSource};

/// What an operand does beside having a value, and what it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// It counts: how often it is worked out is seen.
    pub(crate) state: bool,
    /// It may fail.
    pub(crate) fails: bool,
    /// It reads memory of the traced program.
    pub(crate) faults: bool,
    /// About how many instructions.
    pub(crate) cost: u32,
}

/// About what the call of a helper costs.
const CALL: u32 = 20;

impl Effects {
    /// Those of a condition.
    pub(crate) fn of(cond: &Cond) -> Effects {
        let mut all = Effects::default();
        all.cond(cond);
        all
    }

    /// Whether it can be moved, doubled and dropped.
    pub(crate) fn is_pure(self) -> bool {
        !self.state && !self.fails
    }

    fn add(&mut self, cost: u32) {
        self.cost = self.cost.saturating_add(cost);
    }

    /// A value that not every event has.
    fn absent(&mut self, cost: u32) {
        self.fails = true;
        self.add(cost);
    }

    fn cond(&mut self, cond: &Cond) {
        match cond {
            Cond::Constant(_) => {}
            Cond::HasLast => self.add(2),
            Cond::Window => self.add(CALL),
            Cond::And(list) | Cond::Or(list) => list.iter().for_each(|inner| self.cond(inner)),
            Cond::Not(inner) => self.cond(inner),
            Cond::Member(num, set) => {
                self.add(1 + set.ranges().len().min(8) as u32);
                self.num(num);
            }
            Cond::Compare(_, a, b) => {
                self.add(1);
                self.num(a);
                self.num(b);
            }
            Cond::FloatMember(float, _) => {
                self.add(5);
                self.float(float);
            }
            Cond::FloatCompare(_, a, b) => {
                self.add(20);
                self.float(a);
                self.float(b);
            }
            Cond::StringMatch(string, patterns) => {
                self.string(*string);
                let words = patterns.iter().map(|pattern| pattern.bytes_min() as u32 / 4 + 2).sum();
                let calls = patterns.iter().filter(|pattern| pattern.parts().len() > 2).count() as u32;
                self.add(words);
                self.add(calls * CALL);
            }
            Cond::StringOrder(_, string, _) => {
                self.string(*string);
                self.add(CALL);
            }
            Cond::StringCompare(..) => {
                self.faults = true;
                self.add(CALL);
            }
            Cond::StringKept(..) => {
                self.faults = true;
                self.fails = true;
                self.add(CALL);
            }
            Cond::Every(..) | Cond::First(..) | Cond::Limit(..) | Cond::Sample(_) => {
                self.state = true;
                self.add(CALL);
            }
        }
    }

    fn string(&mut self, string: StringSource) {
        match string {
            StringSource::Field(_) => {
                self.faults = true;
                self.add(6);
            }
            StringSource::Comm => self.add(2 * CALL),
            StringSource::Executable => self.add(10 * CALL),
        }
    }

    fn float(&mut self, float: &Float) {
        match float {
            Float::Element(element) => self.element(element),
            Float::Last(_) => self.absent(3),
            Float::Constant(_) | Float::Word(_) => self.add(1),
        }
    }

    fn element(&mut self, element: &Element) {
        let in_bounds = element
            .count
            .is_some_and(|count| element.index.min >= 0 && element.index.max < i128::from(count));
        self.fails |= !in_bounds;
        self.faults = true;
        self.add(4);
        self.num(&element.index);
    }

    /// Adds those of a number.
    pub(crate) fn num(&mut self, num: &Num) {
        match &num.kind {
            NumKind::Constant(_) => {}
            NumKind::Word(_) => self.add(1),
            NumKind::Length(..) | NumKind::Flag(_) => self.add(3),
            NumKind::NotZero(_) => self.absent(2),
            NumKind::Elapsed(key) => {
                self.absent(2 * CALL);
                match &key.value {
                    SpeculationValue::Number(num) => self.num(num),
                    SpeculationValue::String(_) => self.faults = true,
                }
            }
            NumKind::Last(_) => self.absent(3),
            NumKind::Published(_) => self.add(2),
            NumKind::Since(_) => self.add(6),
            NumKind::SharedWord(word) => {
                self.fails |= word.index.as_constant().is_none();
                self.add(3);
                self.num(&word.index);
            }
            NumKind::Context(Context::Delta | Context::Elapsed) => self.absent(CALL),
            NumKind::Context(_) => self.add(CALL),
            NumKind::Element(element) => self.element(element),
            NumKind::Neg(inner) | NumKind::BitNot(inner) => {
                self.add(1);
                self.num(inner);
            }
            NumKind::Binary(op, a, b) => {
                self.fails |= match op {
                    BinaryOp::Div | BinaryOp::Mod => b.min <= 0 && b.max >= 0,
                    BinaryOp::Shl | BinaryOp::Shr => b.min < 0 || b.max > 63,
                    _ => false,
                };
                self.add(if matches!(op, BinaryOp::Div | BinaryOp::Mod) { 20 } else { 1 });
                self.num(a);
                self.num(b);
            }
            NumKind::Truth(inner) => self.cond(inner),
        }
    }
}
