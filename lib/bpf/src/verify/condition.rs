//! What a comparison says of the numbers that it compares.
//!
//! Source: `regs_refine_cond_op`, `kernel/bpf/verifier.c`, Linux 6.18.

use super::range::Range;
use super::scalar::Scalar;
use super::tnum::Tnum;
use crate::op::{Cond, Width};

/// A comparison that held, or did not. Those that did not are turned into their opposite; only `Set` has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Equal,
    Differ,
    /// The left one is greater.
    Above,
    AtLeast,
    Below,
    AtMost,
    SignedAbove,
    SignedAtLeast,
    SignedBelow,
    SignedAtMost,
    CommonBits,
    NoCommonBits,
}

impl Fact {
    /// The same of both sides exchanged.
    pub(crate) fn turned(self) -> Fact {
        match self {
            Fact::Above => Fact::Below,
            Fact::AtLeast => Fact::AtMost,
            Fact::Below => Fact::Above,
            Fact::AtMost => Fact::AtLeast,
            Fact::SignedAbove => Fact::SignedBelow,
            Fact::SignedAtLeast => Fact::SignedAtMost,
            Fact::SignedBelow => Fact::SignedAbove,
            Fact::SignedAtMost => Fact::SignedAtLeast,
            same => same,
        }
    }
}

/// What it says that a condition held, or did not.
pub(crate) fn fact(cond: Cond, holds: bool) -> Fact {
    match (cond, holds) {
        (Cond::Eq, true) | (Cond::Ne, false) => Fact::Equal,
        (Cond::Ne, true) | (Cond::Eq, false) => Fact::Differ,
        (Cond::Gt, true) | (Cond::Le, false) => Fact::Above,
        (Cond::Ge, true) | (Cond::Lt, false) => Fact::AtLeast,
        (Cond::Lt, true) | (Cond::Ge, false) => Fact::Below,
        (Cond::Le, true) | (Cond::Gt, false) => Fact::AtMost,
        (Cond::SGt, true) | (Cond::SLe, false) => Fact::SignedAbove,
        (Cond::SGe, true) | (Cond::SLt, false) => Fact::SignedAtLeast,
        (Cond::SLt, true) | (Cond::SGe, false) => Fact::SignedBelow,
        (Cond::SLe, true) | (Cond::SGt, false) => Fact::SignedAtMost,
        (Cond::Set, true) => Fact::CommonBits,
        (Cond::Set, false) => Fact::NoCommonBits,
    }
}

/// What is known of both after `a COND b` was found to hold, or not to. `None` when that cannot be found.
pub fn refine(cond: Cond, holds: bool, width: Width, a: &Scalar, b: &Scalar) -> Option<(Scalar, Scalar)> {
    let fact = fact(cond, holds);
    let (mut a, mut b) = (*a, *b);
    match fact {
        Fact::Equal => equal(width, &mut a, &mut b)?,
        Fact::Differ => {
            differ(width, &mut a, &b)?;
            differ(width, &mut b, &a)?;
        }
        Fact::CommonBits => common_bits(width, &mut a, &mut b)?,
        Fact::NoCommonBits => no_common_bits(width, &mut a, &mut b)?,
        order => {
            let (left, right) = match width {
                Width::W64 => (&mut a.wide, &mut b.wide),
                Width::W32 => (&mut a.low, &mut b.low),
            };
            ordered(order, left, right)?;
        }
    }
    Some((a.sync()?, b.sync()?))
}

fn ordered(fact: Fact, a: &mut Range, b: &mut Range) -> Option<()> {
    match fact {
        Fact::Below => return ordered(Fact::Above, b, a),
        Fact::AtMost => return ordered(Fact::AtLeast, b, a),
        Fact::SignedBelow => return ordered(Fact::SignedAbove, b, a),
        Fact::SignedAtMost => return ordered(Fact::SignedAtLeast, b, a),
        Fact::Above => {
            a.umin = a.umin.max(b.umin.checked_add(1)?);
            b.umax = b.umax.min(a.umax.checked_sub(1)?);
        }
        Fact::AtLeast => {
            a.umin = a.umin.max(b.umin);
            b.umax = b.umax.min(a.umax);
        }
        Fact::SignedAbove => {
            a.smin = a.smin.max(b.smin.checked_add(1)?);
            b.smax = b.smax.min(a.smax.checked_sub(1)?);
        }
        Fact::SignedAtLeast => {
            a.smin = a.smin.max(b.smin);
            b.smax = b.smax.min(a.smax);
        }
        Fact::Equal | Fact::Differ | Fact::CommonBits | Fact::NoCommonBits => {}
    }
    (a.is_possible() && b.is_possible()).then_some(())
}

fn common(a: Range, b: Range) -> Range {
    Range {
        umin: a.umin.max(b.umin),
        umax: a.umax.min(b.umax),
        smin: a.smin.max(b.smin),
        smax: a.smax.min(b.smax),
    }
}

fn equal(width: Width, a: &mut Scalar, b: &mut Scalar) -> Option<()> {
    let low = common(a.low, b.low);
    (a.low, b.low) = (low, low);
    match width {
        Width::W64 => {
            let wide = common(a.wide, b.wide);
            (a.wide, b.wide) = (wide, wide);
            let bits = a.bits.intersect(b.bits)?;
            (a.bits, b.bits) = (bits, bits);
        }
        Width::W32 => {
            let bits = a.bits.low32().intersect(b.bits.low32())?;
            for one in [a, b] {
                one.bits = joined(one.bits, bits);
            }
        }
    }
    Some(())
}

/// `bits` with other low 32 ones.
fn joined(bits: Tnum, low: Tnum) -> Tnum {
    let high = bits.high32();
    Tnum { value: high.value | low.value, mask: high.mask | low.mask }
}

/// What is left of `a` when it is not `b`: only at the ends of its range can one number be left out.
fn differ(width: Width, a: &mut Scalar, b: &Scalar) -> Option<()> {
    let (range, other) = match width {
        Width::W64 => (&mut a.wide, b.wide),
        Width::W32 => (&mut a.low, b.low),
    };
    if other.umin != other.umax {
        return Some(());
    }
    if range.umin == other.umin {
        range.umin = range.umin.checked_add(1)?;
    }
    if range.umax == other.umin {
        range.umax = range.umax.checked_sub(1)?;
    }
    if range.smin == other.smin {
        range.smin = range.smin.checked_add(1)?;
    }
    if range.smax == other.smin {
        range.smax = range.smax.checked_sub(1)?;
    }
    range.is_possible().then_some(())
}

fn of_width(width: Width, bits: Tnum) -> Tnum {
    if width == Width::W32 { bits.low32() } else { bits }
}

fn common_bits(width: Width, a: &mut Scalar, b: &mut Scalar) -> Option<()> {
    let (left, right) = (of_width(width, a.bits), of_width(width, b.bits));
    let possible = (left.value | left.mask) & (right.value | right.mask);
    if possible == 0 {
        return None;
    }
    // A single bit that both can have is one that both have.
    if possible.is_power_of_two() {
        for one in [a, b] {
            one.bits = Tnum { value: one.bits.value | possible, mask: one.bits.mask & !possible };
        }
    }
    Some(())
}

fn no_common_bits(width: Width, a: &mut Scalar, b: &mut Scalar) -> Option<()> {
    let (left, right) = (of_width(width, a.bits), of_width(width, b.bits));
    if left.value & right.value != 0 {
        return None;
    }
    a.bits.mask &= !right.value;
    b.bits.mask &= !left.value;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Cond;

    fn holds(cond: Cond, width: Width, a: u64, b: u64) -> bool {
        let (a, b, x, y) = match width {
            Width::W64 => (a, b, a as i64, b as i64),
            Width::W32 => (
                u64::from(a as u32),
                u64::from(b as u32),
                i64::from(a as u32 as i32),
                i64::from(b as u32 as i32),
            ),
        };
        match cond {
            Cond::Eq => a == b,
            Cond::Ne => a != b,
            Cond::Gt => a > b,
            Cond::Ge => a >= b,
            Cond::Lt => a < b,
            Cond::Le => a <= b,
            Cond::Set => a & b != 0,
            Cond::SGt => x > y,
            Cond::SGe => x >= y,
            Cond::SLt => x < y,
            Cond::SLe => x <= y,
        }
    }

    /// Whatever two numbers are, what a comparison of them says still holds of them.
    #[test]
    fn what_a_comparison_says_holds_of_what_was_compared() {
        let mut random = super::super::arithmetic::tests::Random::new(7);
        for _ in 0..200_000 {
            let (known_a, a) = random.scalar();
            let (known_b, b) = random.scalar();
            for width in [Width::W32, Width::W64] {
                let cond = Cond::ALL[random.below(11) as usize];
                let holds = holds(cond, width, a, b);
                let Some((left, right)) = refine(cond, holds, width, &known_a, &known_b) else {
                    panic!("{cond:?} {width:?} {a:#x} {b:#x} {known_a:?} {known_b:?}");
                };
                assert!(left.contains(a), "{cond:?} {width:?} {a:#x} {b:#x} {known_a:?} {left:?}");
                assert!(right.contains(b), "{cond:?} {width:?} {a:#x} {b:#x} {known_b:?} {right:?}");
                assert!(known_a.covers(&left) && known_b.covers(&right), "{cond:?} {known_a:?} {left:?}");
            }
        }
    }

    #[test]
    fn a_comparison_bounds_both_sides() {
        let ten = Scalar::constant(10);
        let check = |cond, width| refine(cond, true, width, &Scalar::UNKNOWN, &ten).expect("possible").0;
        assert_eq!(check(Cond::Lt, Width::W64), Scalar::between(0, 9));
        assert_eq!(check(Cond::SGt, Width::W64).wide.smin, 11);
        assert_eq!(check(Cond::Ge, Width::W32).wide.umin, 10);
        assert_eq!(check(Cond::Eq, Width::W64), ten);
        assert!(refine(Cond::Gt, true, Width::W64, &Scalar::between(0, 10), &ten).is_none());
        assert!(refine(Cond::Ne, true, Width::W64, &ten, &ten).is_none());
        assert!(refine(Cond::Set, true, Width::W64, &ten, &Scalar::constant(5)).is_none());
        assert!(refine(Cond::Set, false, Width::W64, &ten, &Scalar::constant(2)).is_none());
    }
}
