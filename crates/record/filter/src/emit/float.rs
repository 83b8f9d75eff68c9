//! Floats, compared by their bits: see [`crate::typed::float`].

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::emit::condition::branch_of;
use crate::typed::float::{key, key_of_single};
use crate::typed::{Float, FloatSet, Order};
use mote_bpf::op::{AluOp, Cond};

impl Code<'_> {
    /// The bits of a float; of a single with zeros above, or with its sign.
    fn float_bits(&mut self, float: &Float, sign: bool) -> Result<Held, Stop> {
        match float {
            Float::Constant(value) => self.constant(value.to_bits()),
            Float::Word(word) => self.word(*word),
            Float::Element(element) => self.element(element, sign && element.bytes == 4),
            Float::Last(kept) => self.kept(*kept),
        }
    }

    /// The bits of a double, for a key or a field.
    pub(in crate::emit) fn double(&mut self, float: &Float) -> Result<Held, Stop> {
        self.float_bits(float, false)
    }

    pub(in crate::emit) fn float_member(
        &mut self,
        float: &Float,
        set: FloatSet,
        ways: Ways,
    ) -> Result<(), Stop> {
        let (holds, not, next) = ways;
        let ways = match (set.others, next) {
            (false, _) => ways,
            (true, Next::True) => (not, holds, Next::False),
            (true, Next::False) => (not, holds, Next::True),
        };
        let single = float.is_single();
        if set.low > set.high {
            // No single is equal to the double; but its element may not be there.
            let held = self.float_bits(float, false)?;
            self.release(held);
            self.constant_outcome(false, ways);
            return Ok(());
        }
        // Keys of one sign are in the order of the bits, or in the opposite one.
        let bits = |key: i64| {
            if single { u64::from(key_of_single(key as u32) as u32) } else { self::key(key as u64) as u64 }
        };
        let (held, first, last) = if set.low >= 0 || set.high < 0 {
            let held = self.float_bits(float, false)?;
            let ends = (bits(set.low), bits(set.high));
            (self.own(held)?, ends.0.min(ends.1), ends.0.max(ends.1))
        } else {
            let held = self.float_bits(float, true)?;
            let held = self.own(held)?;
            self.make_key(held, single)?;
            (held, set.low as u64, set.high as u64)
        };
        self.subtract(held, first)?;
        self.against(Cond::Le, held, last.wrapping_sub(first), ways)?;
        self.release(held);
        Ok(())
    }

    /// Bits become their key; those of a single have been extended by their sign.
    fn make_key(&mut self, bits: Held, single: bool) -> Result<(), Stop> {
        let mask = self.copied(bits)?;
        self.apply(AluOp::Arsh, mask, 63);
        self.apply(AluOp::Rsh, mask, if single { 33 } else { 1 });
        self.apply(AluOp::Xor, bits, mask);
        self.release(mask);
        Ok(())
    }

    pub(in crate::emit) fn float_compare(
        &mut self,
        order: Order,
        a: &Float,
        b: &Float,
        ways: Ways,
    ) -> Result<(), Stop> {
        // What is no number compares as unequal.
        let unordered = if order == Order::Ne { ways.0 } else { ways.1 };
        let mark = self.stack_mark();
        let slot = self.reserve(8)?;
        // Both have to be there before either decides.
        let left = self.float_bits(a, true)?;
        self.put_on_stack(slot, left);
        self.release(left);
        let right = self.float_bits(b, true)?;
        let right = self.own(right)?;
        self.ordered_key(right, b.is_single(), unordered)?;
        let left = self.taken_from_stack(slot)?;
        self.ordered_key(left, a.is_single(), unordered)?;
        self.decide(branch_of(order, true), left, right, ways);
        self.release(left);
        self.release(right);
        self.give_back(mark);
        Ok(())
    }

    /// Bits become their key, those of -0 that of 0; goes elsewhere with what is no number.
    fn ordered_key(&mut self, bits: Held, single: bool, unordered: Label) -> Result<(), Stop> {
        let other = self.copied(bits)?;
        self.apply(AluOp::Lsh, other, if single { 33 } else { 1 });
        let not_zero = self.label();
        self.branch(Cond::Ne, other, 0, not_zero);
        self.apply(AluOp::Mov, bits, 0);
        self.bind(not_zero);
        self.release(other);
        self.make_key(bits, single)?;
        let infinity =
            if single { key_of_single(f32::INFINITY.to_bits()) } else { key(f64::INFINITY.to_bits()) };
        let offset = self.copied(bits)?;
        self.subtract(offset, (-infinity - 1) as u64)?;
        let on = self.label();
        self.against(Cond::Gt, offset, (2 * i128::from(infinity) + 1) as u64, (unordered, on, Next::False))?;
        self.bind(on);
        self.release(offset);
        Ok(())
    }
}
