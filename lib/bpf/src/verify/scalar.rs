//! What is known of a number: its bits, its ranges, and those of its low 32 bits; each kept as narrow as the others
//! allow.
//!
//! Source: `reg_bounds_sync` and what it calls, `kernel/bpf/verifier.c`, Linux 6.18.

use super::arithmetic::alu;
use super::range::Range;
use super::tnum::Tnum;
use crate::op::{AluOp, Width};

/// What is known of a number. Each part alone holds of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scalar {
    /// Which of its bits are known.
    pub bits: Tnum,
    /// The range of all 64 bits.
    pub wide: Range,
    /// Its low 32 bits lie in this.
    pub low: Range,
}

impl Scalar {
    /// Any number of 64 bits.
    pub const UNKNOWN: Scalar =
        Scalar { bits: Tnum::UNKNOWN, wide: Range::any(Width::W64), low: Range::any(Width::W32) };

    /// Zero bytes: stands where there is no number.
    pub(crate) const ZEROS: Scalar = Scalar {
        bits: Tnum::constant(0),
        wide: Range::constant(0, Width::W64),
        low: Range::constant(0, Width::W32),
    };

    /// Exactly the number `value`.
    pub const fn constant(value: u64) -> Scalar {
        Scalar {
            bits: Tnum::constant(value),
            wide: Range::constant(value, Width::W64),
            low: Range::constant(value, Width::W32),
        }
    }

    /// It is between these, unsigned.
    pub fn between(min: u64, max: u64) -> Scalar {
        let mut number = Scalar::UNKNOWN;
        (number.wide.umin, number.wide.umax) = (min, max);
        number.synced()
    }

    /// So many bits (1 to 64) are unknown, those above are 0.
    pub fn zero_extended(bits: u32) -> Scalar {
        if bits == 64 { Scalar::UNKNOWN } else { Scalar::between(0, u64::MAX >> (64 - bits)) }
    }

    /// So many bits (1 to 64) are unknown, those above are the highest of them.
    pub fn sign_extended(bits: u32) -> Scalar {
        let mut number = Scalar::UNKNOWN;
        (number.wide.smin, number.wide.smax) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
        number.synced()
    }

    /// The number, if it can be only one.
    pub const fn as_constant(&self) -> Option<u64> {
        if self.bits.mask == 0 { Some(self.bits.value) } else { None }
    }

    /// Whether it can be this.
    pub const fn contains(&self, number: u64) -> bool {
        self.bits.contains(number)
            && self.wide.contains(number, number as i64)
            && self.low.contains(number as u32 as u64, number as i32 as i64)
    }

    /// Whether whatever `other` can be, this can be too.
    pub const fn covers(&self, other: &Scalar) -> bool {
        self.wide.covers(&other.wide) && self.low.covers(&other.low) && self.bits.covers(other.bits)
    }

    /// Each part narrowed by the others. `None` when they contradict each other: there is no such number.
    pub fn sync(mut self) -> Option<Scalar> {
        if self.bits.mask == 0 {
            return self.contains(self.bits.value).then(|| Scalar::constant(self.bits.value));
        }
        self.bounds_of_bits();
        let (wide, low) = (self.wide, self.low);
        self.bounds_of_bounds();
        if (wide, low) != (self.wide, self.low) {
            self.bounds_of_bounds();
        }
        if !self.wide.is_possible() || !self.low.is_possible() {
            return None;
        }
        let wide = self.bits.intersect(Tnum::range(self.wide.umin, self.wide.umax))?;
        let low = wide.low32().intersect(Tnum::range(self.low.umin, self.low.umax).low32())?;
        self.bits = Tnum { value: wide.high32().value | low.value, mask: wide.high32().mask | low.mask };
        if self.bits.mask == 0 {
            return self.contains(self.bits.value).then(|| Scalar::constant(self.bits.value));
        }
        self.bounds_of_bits();
        (self.wide.is_possible() && self.low.is_possible()).then_some(self)
    }

    /// As [`Scalar::sync`], of parts that hold of some number.
    pub(crate) fn synced(self) -> Scalar {
        self.sync().unwrap_or(Scalar::UNKNOWN)
    }

    /// Ranges from bits: least is where all unknown ones are 0 (the sign 1), greatest the other way.
    fn bounds_of_bits(&mut self) {
        let (value, most) = (self.bits.value, self.bits.value | self.bits.mask);
        let sign = self.bits.mask & 1 << 63;
        narrow_unsigned(&mut self.wide, value, most);
        narrow_signed(&mut self.wide, (value | sign) as i64, (most & !sign) as i64);
        let (value, most) = (value as u32, most as u32);
        let sign = self.bits.mask as u32 & 1 << 31;
        narrow_unsigned(&mut self.low, value.into(), most.into());
        narrow_signed(&mut self.low, ((value | sign) as i32).into(), ((most & !sign) as i32).into());
    }

    fn bounds_of_bounds(&mut self) {
        self.low_of_wide();
        signs(&mut self.low, Width::W32);
        signs(&mut self.wide, Width::W64);
        self.wide_of_low();
    }

    /// The low half follows from the whole where the upper half is the same throughout.
    fn low_of_wide(&mut self) {
        let Range { umin, umax, smin, smax } = self.wide;
        for (min, max) in [(umin, umax), (smin as u64, smax as u64)] {
            let (low_min, low_max) = (min as u32, max as u32);
            if min >> 32 == max >> 32 && low_min <= low_max {
                narrow_unsigned(&mut self.low, low_min.into(), low_max.into());
            }
            // Also where the upper half has just one more in the end: from below the sign's change to above it.
            let next = (min >> 32).wrapping_add(1) == max >> 32;
            let (low_min, low_max) = (low_min as i32, low_max as i32);
            let unbroken = low_min <= low_max;
            if (min >> 32 == max >> 32 && unbroken) || (next && low_min < 0 && low_max >= 0) {
                narrow_signed(&mut self.low, low_min.into(), low_max.into());
            }
        }
    }

    /// The whole follows from its low half where the upper half is that of its bounds.
    fn wide_of_low(&mut self) {
        let upper = u64::MAX << 32;
        let Range { umin, umax, smin, smax } = self.wide;
        let (low_min, low_max) = (self.low.umin, self.low.umax);
        narrow_unsigned(&mut self.wide, umin & upper | low_min, umax & upper | low_max);
        narrow_signed(
            &mut self.wide,
            (smin as u64 & upper | low_min) as i64,
            (smax as u64 & upper | low_max) as i64,
        );
        if smin >= i32::MIN.into() && smax <= i32::MAX.into() {
            narrow_signed(&mut self.wide, self.low.smin, self.low.smax);
        }
    }

    /// The low 32 bits, extended by zeros.
    pub fn low32(self) -> Scalar {
        if let Some(value) = self.as_constant() {
            return Scalar::constant(value as u32 as u64);
        }
        Scalar { bits: self.bits.low32(), wide: zero_extended(self.low), low: self.low }.synced()
    }

    /// The low `bits` bits (8 to 64), extended by zeros.
    pub fn truncated(self, bits: u32) -> Scalar {
        match bits {
            64 => self,
            32 => self.low32(),
            _ => alu(AluOp::And, Width::W64, self, Scalar::constant(u64::MAX >> (64 - bits))),
        }
    }

    /// The low `bits` bits (8, 16 or 32), extended by their sign.
    pub fn sign_extend(self, bits: u32) -> Scalar {
        let mut result = Scalar::sign_extended(bits);
        let limits = result.wide;
        if self.wide.smin >= limits.smin && self.wide.smax <= limits.smax {
            return self;
        }
        if bits == 32 {
            (result.wide.smin, result.wide.smax) = (self.low.smin, self.low.smax);
            result.low = self.low;
        }
        let extended = self.bits.sign_extend(bits);
        result.bits = result.bits.intersect(extended).unwrap_or(extended);
        result.synced()
    }
}

fn zero_extended(low: Range) -> Range {
    Range { smin: low.umin as i64, smax: low.umax as i64, ..low }
}

fn narrow_unsigned(range: &mut Range, min: u64, max: u64) {
    range.umin = range.umin.max(min);
    range.umax = range.umax.min(max);
}

fn narrow_signed(range: &mut Range, min: i64, max: i64) {
    range.smin = range.smin.max(min);
    range.smax = range.smax.min(max);
}

/// Signed and unsigned bounds say the same where neither crosses the other's end.
fn signs(range: &mut Range, width: Width) {
    let signed = |u: u64| if width == Width::W32 { i64::from(u as u32 as i32) } else { u as i64 };
    let unsigned = |s: i64| if width == Width::W32 { u64::from(s as u32) } else { s as u64 };
    let (min, max) = (signed(range.umin), signed(range.umax));
    if min <= max {
        narrow_signed(range, min, max);
    }
    let (min, max) = (unsigned(range.smin), unsigned(range.smax));
    if min <= max {
        narrow_unsigned(range, min, max);
    }
}
