//! Floats, compared by their bits: see [`crate::typed::float`].

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::emit::condition::branch_of;
use crate::typed::float::{key, key_of_single};
use crate::typed::{Float, FloatSet, Order};
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Size};

impl Code<'_> {
    /// The bits of a float; of a single with zeros above, or with its sign.
    fn float_bits(&mut self, float: &Float, sign: bool) -> Result<Held, Stop> {
        match float {
            Float::Constant(value) => {
                let held = self.alloc()?;
                self.b.constant(held.reg, value.to_bits());
                Ok(held)
            }
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
            self.make_key(held.reg, single)?;
            (held, set.low as u64, set.high as u64)
        };
        self.subtract(held.reg, first)?;
        self.against(Cond::Le, held.reg, last.wrapping_sub(first), ways)?;
        self.release(held);
        Ok(())
    }

    /// Bits become their key; those of a single have been extended by their sign.
    fn make_key(&mut self, reg: Reg, single: bool) -> Result<(), Stop> {
        let mask = self.alloc()?;
        self.b.mov(mask.reg, reg);
        self.b.arsh(mask.reg, 63);
        self.b.rsh(mask.reg, if single { 33 } else { 1 });
        self.b.xor(reg, mask.reg);
        self.release(mask);
        Ok(())
    }

    fn subtract(&mut self, reg: Reg, value: u64) -> Result<(), Stop> {
        match i32::try_from((value as i64).wrapping_neg()) {
            Ok(0) => {}
            Ok(less) => self.b.add(reg, less),
            Err(_) => {
                let constant = self.alloc()?;
                self.b.constant(constant.reg, value.wrapping_neg());
                self.b.add(reg, constant.reg);
                self.release(constant);
            }
        }
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
        self.b.store(Size::DW, Reg::R10, slot, left.reg);
        self.release(left);
        let right = self.float_bits(b, true)?;
        let right = self.own(right)?;
        self.ordered_key(right.reg, b.is_single(), unordered)?;
        let left = self.alloc()?;
        self.b.load(Size::DW, left.reg, Reg::R10, slot);
        self.ordered_key(left.reg, a.is_single(), unordered)?;
        self.decide(branch_of(order, true), left.reg, right.reg, ways);
        self.release(left);
        self.release(right);
        self.give_back(mark);
        Ok(())
    }

    /// Bits become their key, those of -0 that of 0; goes elsewhere with what is no number.
    fn ordered_key(&mut self, reg: Reg, single: bool, unordered: Label) -> Result<(), Stop> {
        let other = self.alloc()?;
        self.b.mov(other.reg, reg);
        self.b.lsh(other.reg, if single { 33 } else { 1 });
        let not_zero = self.label();
        self.branch(Cond::Ne, other.reg, 0, not_zero);
        self.b.mov(reg, 0);
        self.bind(not_zero);
        self.release(other);
        self.make_key(reg, single)?;
        let infinity =
            if single { key_of_single(f32::INFINITY.to_bits()) } else { key(f64::INFINITY.to_bits()) };
        let offset = self.alloc()?;
        self.b.mov(offset.reg, reg);
        self.subtract(offset.reg, (-infinity - 1) as u64)?;
        let on = self.label();
        self.against(
            Cond::Gt,
            offset.reg,
            (2 * i128::from(infinity) + 1) as u64,
            (unordered, on, Next::False),
        )?;
        self.bind(on);
        self.release(offset);
        Ok(())
    }
}
