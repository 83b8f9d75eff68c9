//! Random numbers with random true knowledge of them: what operations make of it must be true of their results.

use super::*;

/// A small generator (xorshift), so that failures come back.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Numbers as programs have them: small, near the ends of a width, or any.
    pub(crate) fn number(&mut self) -> u64 {
        let bits = [4, 8, 16, 31, 32, 33, 63, 64][self.below(8) as usize];
        let number = self.next() >> (64 - bits);
        match self.below(6) {
            0 => number.wrapping_neg(),
            1 => u64::from((number as u32).wrapping_neg()),
            2 => (number as i32) as u64,
            3 => (1u64 << (bits - 1)).wrapping_add(self.below(4)).wrapping_sub(2),
            _ => number,
        }
    }

    /// A number, and something that is known of it.
    pub(crate) fn scalar(&mut self) -> (Scalar, u64) {
        let number = self.number();
        let mut known = Scalar::UNKNOWN;
        if self.below(5) == 0 {
            return (Scalar::constant(number), number);
        }
        if self.below(2) == 0 {
            let mask = self.next() & self.next() | (self.number() & self.number());
            known.bits = Tnum { value: number & !mask, mask };
        }
        let (a, b) = (self.number(), self.number());
        if self.below(2) == 0 {
            (known.wide.umin, known.wide.umax) = around(number, a, b);
        }
        if self.below(2) == 0 {
            let (min, max) = around((number as i64) as i128, (a as i64).into(), (b as i64).into());
            (known.wide.smin, known.wide.smax) = (min as i64, max as i64);
        }
        if self.below(2) == 0 {
            let (min, max) = around(number as u32, a as u32, b as u32);
            (known.low.umin, known.low.umax) = (min.into(), max.into());
        }
        if self.below(2) == 0 {
            let (min, max) = around(number as i32, a as i32, b as i32);
            (known.low.smin, known.low.smax) = (min.into(), max.into());
        }
        let synced = known.sync();
        let Some(synced) = synced else { panic!("{number:#x} {known:?}") };
        assert!(synced.contains(number), "{number:#x} {known:?} {synced:?}");
        (synced, number)
    }
}

fn around<T: Ord + Copy>(number: T, a: T, b: T) -> (T, T) {
    (number.min(a).min(b), number.max(a).max(b))
}

#[test]
fn what_is_known_of_a_result_holds() {
    let mut random = Random::new(1);
    for round in 0..300_000 {
        let (known_a, a) = random.scalar();
        let (mut known_b, mut b) = random.scalar();
        let op = AluOp::ALL[round % AluOp::ALL.len()];
        if is_shift(op) && random.below(3) > 0 {
            b &= 63;
            known_b = if random.below(2) == 0 { Scalar::constant(b) } else { Scalar::between(b / 2, b) };
        }
        for width in [Width::W32, Width::W64] {
            let known = alu(op, width, known_a, known_b);
            let result = exact(op, width, a, b);
            assert!(
                known.contains(result),
                "{op:?} {width:?} {a:#x} {b:#x} {known_a:?} {known_b:?} {known:?}"
            );
            assert!(known.sync().is_some_and(|again| known.covers(&again)));
        }
        for bits in [8, 16, 32] {
            let shift = 64 - bits;
            assert!(known_a.sign_extend(bits).contains(((a << shift) as i64 >> shift) as u64));
            assert!(known_a.truncated(bits).contains(a << shift >> shift));
        }
        for width in [Width::W32, Width::W64] {
            assert!(negate(width, known_a).contains(exact(AluOp::Sub, width, 0, a)));
        }
    }
}

#[test]
fn results_are_as_narrow_as_programs_need() {
    let byte = Scalar::zero_extended(8);
    let check = |op, width, a, b, min, max| {
        let known = alu(op, width, a, b);
        assert_eq!((known.wide.umin, known.wide.umax), (min, max), "{op:?} {width:?} {known:?}");
    };
    let constant = Scalar::constant;
    check(AluOp::And, Width::W64, Scalar::UNKNOWN, constant(15), 0, 15);
    check(AluOp::Mod, Width::W32, Scalar::UNKNOWN, constant(10), 0, 9);
    check(AluOp::Rsh, Width::W64, Scalar::UNKNOWN, constant(60), 0, 15);
    check(AluOp::Lsh, Width::W32, byte, constant(2), 0, 1020);
    check(AluOp::Mul, Width::W64, byte, constant(24), 0, 24 * 255);
    check(AluOp::Add, Width::W32, byte, constant(7), 7, 262);
    check(AluOp::Sub, Width::W64, constant(255), byte, 0, 255);
    check(AluOp::Div, Width::W64, byte, constant(16), 0, 15);
    check(AluOp::Or, Width::W64, byte, constant(256), 256, 511);
    check(AluOp::Xor, Width::W64, byte, byte, 0, 255);
    check(AluOp::Mov, Width::W32, Scalar::UNKNOWN, Scalar::UNKNOWN, 0, u32::MAX.into());
    let signed = alu(AluOp::MovSx8, Width::W64, byte, Scalar::UNKNOWN);
    assert_eq!((signed.wide.smin, signed.wide.smax), (-128, 127));
    let low = alu(
        AluOp::Arsh,
        Width::W64,
        alu(AluOp::Lsh, Width::W64, Scalar::UNKNOWN, constant(32)),
        constant(32),
    );
    assert_eq!((low.wide.smin, low.wide.smax), (i32::MIN.into(), i32::MAX.into()));
}
