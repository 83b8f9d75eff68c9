//! Whether a number is in a set: one branch for an end, two instructions for a range, bits for what lies close, else a
//! search.

use crate::emit::code::{Code, Held, Next, Stop, Ways};
use crate::typed::{Num, Set};
use mote_bpf::op::{AluOp, Cond};

/// A range.
type Range = (i128, i128);

/// Ranges that are tried one after another.
const TRIED_MAX: usize = 3;

/// The number that is looked at.
#[derive(Clone, Copy)]
struct Subject {
    held: Held,
    min: i128,
    max: i128,
}

impl Code<'_> {
    pub(in crate::emit) fn member(&mut self, num: &Num, set: &Set, ways: Ways) -> Result<(), Stop> {
        let held = self.number(num)?;
        let subject = Subject { held, min: num.min, max: num.max };
        let inside = set.within(num.min, num.max);
        let outside = set.complement().within(num.min, num.max);
        let (holds, not, next) = ways;
        let flipped = (not, holds, if next == Next::True { Next::False } else { Next::True });
        if outside.ranges().len() < inside.ranges().len() {
            self.ranges(subject, outside.ranges(), flipped)?;
        } else {
            self.ranges(subject, inside.ranges(), ways)?;
        }
        self.release(held);
        Ok(())
    }

    fn ranges(&mut self, subject: Subject, ranges: &[Range], ways: Ways) -> Result<(), Stop> {
        match ranges {
            [] => {
                self.constant_outcome(false, ways);
                Ok(())
            }
            [range] => self.range(subject, *range, ways),
            [first, .., last] if last.1 - first.0 < 64 => self.bits(subject, ranges, ways),
            few if few.len() <= TRIED_MAX => {
                let (holds, not, next) = ways;
                for range in &few[..few.len() - 1] {
                    let on = self.label();
                    self.range(subject, *range, (holds, on, Next::False))?;
                    self.bind(on);
                }
                self.range(subject, few[few.len() - 1], (holds, not, next))
            }
            many => self.search(subject, many, ways),
        }
    }

    /// One range.
    fn range(&mut self, subject: Subject, (first, last): Range, ways: Ways) -> Result<(), Stop> {
        let signed = subject.min < 0;
        let one_end = if first <= subject.min && last >= subject.max {
            self.constant_outcome(true, ways);
            return Ok(());
        } else if first == last {
            Some((Cond::Eq, first))
        } else if first <= subject.min {
            Some((if signed { Cond::SLe } else { Cond::Le }, last))
        } else if last >= subject.max {
            Some((if signed { Cond::SGe } else { Cond::Ge }, first))
        } else {
            None
        };
        if let Some((cond, end)) = one_end {
            return self.against(cond, subject.held, end as u64, ways);
        }
        // Below the first, the difference becomes larger than any.
        let offset = self.difference(subject.held, first)?;
        self.against(Cond::Le, offset, (last - first) as u64, ways)?;
        self.release(offset);
        Ok(())
    }

    /// A register with `held - first`.
    fn difference(&mut self, held: Held, first: i128) -> Result<Held, Stop> {
        match i32::try_from(first.wrapping_neg()) {
            Ok(less) => {
                let offset = self.copied(held)?;
                if less != 0 {
                    self.apply(AluOp::Add, offset, less);
                }
                Ok(offset)
            }
            Err(_) => {
                let offset = self.constant((first as u64).wrapping_neg())?;
                self.apply(AluOp::Add, offset, held);
                Ok(offset)
            }
        }
    }

    /// Compares with a constant of any size.
    pub(in crate::emit) fn against(
        &mut self,
        cond: Cond,
        held: Held,
        value: u64,
        ways: Ways,
    ) -> Result<(), Stop> {
        if let Ok(value) = i32::try_from(value as i64) {
            self.decide(cond, held, value, ways);
            return Ok(());
        }
        let constant = self.constant(value)?;
        self.decide(cond, held, constant, ways);
        self.release(constant);
        Ok(())
    }

    /// Ranges that lie within 64 numbers: one bit each.
    fn bits(&mut self, subject: Subject, ranges: &[Range], ways: Ways) -> Result<(), Stop> {
        let first = ranges[0].0;
        let small = subject.min >= 0 && subject.max < 64;
        let base = if small { 0 } else { first };
        let mask = ranges.iter().fold(0u64, |mask, (from, to)| {
            let ones = u64::MAX >> (63 - (to - from));
            mask | ones << (from - base)
        });
        let offset = self.difference(subject.held, base)?;
        if !small {
            self.branch(Cond::Gt, offset, 63, ways.1);
        }
        let bits = self.constant(mask)?;
        self.apply(AluOp::Rsh, bits, offset);
        self.apply(AluOp::And, bits, 1);
        self.decide(Cond::Ne, bits, 0, ways);
        self.release(bits);
        self.release(offset);
        Ok(())
    }

    /// Halves the ranges until there are few.
    fn search(&mut self, subject: Subject, ranges: &[Range], ways: Ways) -> Result<(), Stop> {
        let (holds, not, next) = ways;
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let upper = self.label();
        let middle = high[0].0;
        let cond = if subject.min < 0 { Cond::SGe } else { Cond::Ge };
        let on = self.label();
        self.against(cond, subject.held, middle as u64, (upper, on, Next::False))?;
        self.bind(on);
        self.ranges(Subject { max: middle - 1, ..subject }, low, (holds, not, Next::False))?;
        self.jump(not);
        self.bind(upper);
        self.ranges(Subject { min: middle, ..subject }, high, (holds, not, next))
    }
}
