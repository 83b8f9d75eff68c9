//! Ranges of numbers, and arithmetic on constants.

use super::{Num, NumKind};
use crate::syntax::BinaryOp;

const SIGNED: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);
const UNSIGNED: (i128, i128) = (0, u64::MAX as i128);

impl Num {
    /// One whose value lies from `min` to `max`.
    pub(crate) fn new(kind: NumKind, min: i128, max: i128) -> Num {
        Num { kind, min, max }
    }

    pub(crate) fn constant(value: i128) -> Num {
        Num::new(NumKind::Constant(value), value, value)
    }

    /// An integer of so many bits.
    pub(crate) fn integer(kind: NumKind, bits: u32, signed: bool) -> Num {
        let bits = bits.clamp(1, 64);
        if signed {
            Num::new(kind, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            Num::new(kind, 0, (1 << bits) - 1)
        }
    }

    /// Whether its bits are those of an `i64`.
    pub(crate) fn is_signed(&self) -> bool {
        self.max <= SIGNED.1
    }

    pub(crate) fn as_constant(&self) -> Option<i128> {
        if let NumKind::Constant(value) = self.kind { Some(value) } else { None }
    }

    /// The value of its bits.
    pub(crate) fn value_of(&self, bits: u64) -> i128 {
        if self.is_signed() { i128::from(bits as i64) } else { i128::from(bits) }
    }

    /// `-inner`
    pub(crate) fn neg(inner: Num) -> Num {
        let (min, max) = exact_or(-inner.max, -inner.min, SIGNED);
        match inner.as_constant() {
            Some(value) => Num::constant(i128::from((value as u64).wrapping_neg() as i64)),
            None => Num::new(NumKind::Neg(Box::new(inner)), min, max),
        }
    }

    /// `~inner`
    pub(crate) fn bit_not(inner: Num) -> Num {
        let (min, max) = if inner.is_signed() { (-1 - inner.max, -1 - inner.min) } else { UNSIGNED };
        match inner.as_constant() {
            Some(value) if inner.is_signed() => Num::constant(-1 - value),
            Some(value) => Num::constant(i128::from(!(value as u64))),
            None => Num::new(NumKind::BitNot(Box::new(inner)), min, max),
        }
    }

    /// `left OP right`, which is no comparison. Constants are worked out here and not by the optimiser: the ranges of
    /// what they are parts of, and so the meaning of these, depend on it.
    pub(crate) fn binary(op: BinaryOp, left: Num, right: Num) -> Num {
        let (min, max) = range(op, &left, &right);
        if let (Some(a), Some(b)) = (left.as_constant(), right.as_constant())
            && let Some(bits) = compute(op, &left, &right, a as u64, b as u64)
        {
            return Num::constant(Num::new(NumKind::Constant(0), min, max).value_of(bits));
        }
        Num::new(NumKind::Binary(op, Box::new(left), Box::new(right)), min, max)
    }
}

/// The range if it is one of signed or of unsigned numbers, else all that there are.
fn exact_or(min: i128, max: i128, otherwise: (i128, i128)) -> (i128, i128) {
    let fits = |(low, high): (i128, i128)| low <= min && max <= high;
    if fits(SIGNED) || (fits(UNSIGNED) && otherwise == UNSIGNED) { (min, max) } else { otherwise }
}

/// In which range the result lies. Differences are signed: that of two unsigned times may be negative.
fn range(op: BinaryOp, a: &Num, b: &Num) -> (i128, i128) {
    let both_signed = a.is_signed() && b.is_signed();
    let wide = if both_signed { SIGNED } else { UNSIGNED };
    let natural = a.min >= 0 && b.min >= 0;
    match op {
        BinaryOp::Add => exact_or(a.min + b.min, a.max + b.max, wide),
        BinaryOp::Sub => exact_or(a.min - b.max, a.max - b.min, SIGNED),
        BinaryOp::Mul => {
            let ends = [(a.min, b.min), (a.min, b.max), (a.max, b.min), (a.max, b.max)]
                .map(|(a, b)| a.saturating_mul(b));
            let min = ends.iter().copied().min().unwrap_or(0);
            exact_or(min, ends.iter().copied().max().unwrap_or(0), wide)
        }
        BinaryOp::Div if natural => (0, a.max),
        BinaryOp::Mod if natural => (0, a.max.min((b.max - 1).max(0))),
        BinaryOp::Div | BinaryOp::Mod => wide,
        BinaryOp::BitAnd if both_signed && (a.min >= 0 || b.min >= 0) => {
            let max = |num: &Num| if num.min >= 0 { num.max } else { SIGNED.1 };
            (0, max(a).min(max(b)))
        }
        BinaryOp::BitAnd if natural => (0, a.max.min(b.max)),
        BinaryOp::BitOr | BinaryOp::BitXor if natural => (0, all_ones(a.max | b.max)),
        BinaryOp::Shl if a.min >= 0 => {
            let by = b.max.clamp(0, 63) as u32;
            exact_or(0, a.max << by, UNSIGNED)
        }
        BinaryOp::Shr => shifted_right(a, b),
        _ => wide,
    }
}

/// Bits come in as zeros, whatever the sign.
fn shifted_right(a: &Num, b: &Num) -> (i128, i128) {
    let by = b.min.clamp(0, 63) as u32;
    if a.min >= 0 {
        (0, a.max >> by)
    } else if by > 0 {
        (0, UNSIGNED.1 >> by)
    } else {
        SIGNED
    }
}

fn all_ones(max: i128) -> i128 {
    if max == 0 { 0 } else { (1 << (128 - max.leading_zeros())) - 1 }
}

/// What an operation gives on 64-bit patterns; `None` when it fails. The one definition: the optimiser and the tests go
/// by it, and the generated code is compared with it.
pub(crate) fn compute(op: BinaryOp, a: &Num, b: &Num, left: u64, right: u64) -> Option<u64> {
    let signed = divides_signed(a, b);
    Some(match op {
        BinaryOp::Add => left.wrapping_add(right),
        BinaryOp::Sub => left.wrapping_sub(right),
        BinaryOp::Mul => left.wrapping_mul(right),
        BinaryOp::Div | BinaryOp::Mod if right == 0 => return None,
        BinaryOp::Div if signed => (left as i64).wrapping_div(right as i64) as u64,
        BinaryOp::Mod if signed => (left as i64).wrapping_rem(right as i64) as u64,
        BinaryOp::Div => left / right,
        BinaryOp::Mod => left % right,
        BinaryOp::BitAnd => left & right,
        BinaryOp::BitOr => left | right,
        BinaryOp::BitXor => left ^ right,
        BinaryOp::Shl | BinaryOp::Shr if right > 63 => return None,
        BinaryOp::Shl => left << right,
        BinaryOp::Shr => left >> right,
        _ => return None,
    })
}

/// Whether division is signed.
pub(crate) fn divides_signed(a: &Num, b: &Num) -> bool {
    a.is_signed() && b.is_signed() && (a.min < 0 || b.min < 0)
}
