//! Ranges of a number, signed and unsigned at once, and what operations make of them.
//!
//! The same code serves both widths: ranges of 32-bit numbers are kept as the 64-bit numbers that they are extended to,
//! by zeros or by the sign. Results are counted in 128 bits, where nothing wraps, and are given up when they do not
//! fit.

use crate::op::Width;

/// Least and greatest, unsigned and signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Least value as an unsigned number.
    pub umin: u64,
    /// Greatest value as an unsigned number.
    pub umax: u64,
    /// Least value as a signed number.
    pub smin: i64,
    /// Greatest value as a signed number.
    pub smax: i64,
}

impl Range {
    /// Any number of this width.
    pub const fn any(width: Width) -> Range {
        match width {
            Width::W64 => Range { umin: 0, umax: u64::MAX, smin: i64::MIN, smax: i64::MAX },
            Width::W32 => {
                Range { umin: 0, umax: u32::MAX as u64, smin: i32::MIN as i64, smax: i32::MAX as i64 }
            }
        }
    }

    /// One number; of a `W32` the low 32 bits count.
    pub const fn constant(value: u64, width: Width) -> Range {
        let (u, s) = match width {
            Width::W64 => (value, value as i64),
            Width::W32 => (value as u32 as u64, value as i32 as i64),
        };
        Range { umin: u, umax: u, smin: s, smax: s }
    }

    /// Whether some number is in it.
    pub const fn is_possible(&self) -> bool {
        self.umin <= self.umax && self.smin <= self.smax
    }

    /// Whether this number, of the same width, is in it.
    pub const fn contains(&self, u: u64, s: i64) -> bool {
        self.umin <= u && u <= self.umax && self.smin <= s && s <= self.smax
    }

    /// Whether whatever `other` can be, this can be too.
    pub const fn covers(&self, other: &Range) -> bool {
        self.umin <= other.umin
            && other.umax <= self.umax
            && self.smin <= other.smin
            && other.smax <= self.smax
    }

    /// With these unsigned bounds, as far as they fit; signed ones unknown.
    fn unsigned(min: u128, max: u128, width: Width) -> Range {
        let mut range = Range::any(width);
        if max <= u128::from(range.umax) {
            (range.umin, range.umax) = (min as u64, max as u64);
        }
        range
    }

    /// Narrowed to these signed bounds, if they fit.
    fn and_signed(mut self, min: i128, max: i128, width: Width) -> Range {
        let any = Range::any(width);
        if min >= i128::from(any.smin) && max <= i128::from(any.smax) {
            (self.smin, self.smax) = (min as i64, max as i64);
        }
        self
    }

    /// All that `self + other` can be; everything where it may wrap.
    pub fn add(self, other: Range, width: Width) -> Range {
        let sum = |a: u64, b: u64| u128::from(a) + u128::from(b);
        let signed = |a: i64, b: i64| i128::from(a) + i128::from(b);
        Range::unsigned(sum(self.umin, other.umin), sum(self.umax, other.umax), width).and_signed(
            signed(self.smin, other.smin),
            signed(self.smax, other.smax),
            width,
        )
    }

    /// All that `self - other` can be; everything where it may wrap.
    pub fn sub(self, other: Range, width: Width) -> Range {
        let signed = |a: i64, b: i64| i128::from(a) - i128::from(b);
        let result = if self.umin >= other.umax {
            Range::unsigned((self.umin - other.umax).into(), (self.umax - other.umin).into(), width)
        } else {
            Range::any(width)
        };
        result.and_signed(signed(self.smin, other.smax), signed(self.smax, other.smin), width)
    }

    /// All that `self * other` can be; everything where it may wrap.
    pub fn mul(self, other: Range, width: Width) -> Range {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let signed = |a: i64, b: i64| i128::from(a) * i128::from(b);
        let corners = [
            signed(self.smin, other.smin),
            signed(self.smin, other.smax),
            signed(self.smax, other.smin),
            signed(self.smax, other.smax),
        ];
        let min = corners.iter().fold(corners[0], |least, one| least.min(*one));
        let max = corners.iter().fold(corners[0], |most, one| most.max(*one));
        Range::unsigned(product(self.umin, other.umin), product(self.umax, other.umax), width)
            .and_signed(min, max, width)
    }

    /// `self / other`, unsigned, 0 when `other` is 0
    pub fn div(self, other: Range, width: Width) -> Range {
        let min = if other.umin == 0 { 0 } else { self.umin / other.umax.max(1) };
        Range::unsigned(min.into(), (self.umax / other.umin.max(1)).into(), width)
    }

    /// `self % other`, unsigned, `self` when `other` is 0
    pub fn rem(self, other: Range, width: Width) -> Range {
        if other.umin > self.umax {
            return self;
        }
        let max = if other.umin == 0 { self.umax } else { self.umax.min(other.umax - 1) };
        Range::unsigned(0, max.into(), width)
    }

    /// `self / other`, signed, when `other` is one number above 0
    pub fn sdiv(self, other: Range, width: Width) -> Range {
        if other.smin != other.smax || other.smin <= 0 {
            return Range::any(width);
        }
        let by = other.smin;
        Range::any(width).and_signed((self.smin / by).into(), (self.smax / by).into(), width)
    }

    /// `self % other`, signed, when `other` is one number that is not 0
    pub fn srem(self, other: Range, width: Width) -> Range {
        if other.smin != other.smax || other.smin == 0 {
            return Range::any(width);
        }
        let most = i128::from(other.smin).abs() - 1;
        let min = if self.smin >= 0 { 0 } else { (-most).max(self.smin.into()) };
        let max = if self.smax < 0 { 0 } else { most.min(self.smax.into()) };
        Range::any(width).and_signed(min, max, width)
    }

    /// All that `self & other` can be.
    pub fn and(self, other: Range, width: Width) -> Range {
        let result = Range::unsigned(0, self.umax.min(other.umax).into(), width);
        if self.smin >= 0 || other.smin >= 0 {
            let below = |range: Range| if range.smin >= 0 { range.smax } else { i64::MAX };
            return result.and_signed(0, below(self).min(below(other)).into(), width);
        }
        result
    }

    /// All that `self | other` can be.
    pub fn or(self, other: Range, width: Width) -> Range {
        let bits = self.umax | other.umax;
        let max = if bits == 0 { 0 } else { u64::MAX >> bits.leading_zeros() };
        Range::unsigned(self.umin.max(other.umin).into(), max.into(), width)
    }

    /// All that `self ^ other` can be.
    pub fn xor(self, other: Range, width: Width) -> Range {
        let bits = self.umax | other.umax;
        let max = if bits == 0 { 0 } else { u64::MAX >> bits.leading_zeros() };
        Range::unsigned(0, max.into(), width)
    }

    /// All that `self << other` can be; everything where `other` may be the width or more.
    pub fn lsh(self, other: Range, width: Width) -> Range {
        if other.umax >= bits(width) {
            return Range::any(width);
        }
        let (least, most) = (other.umin as u32, other.umax as u32);
        let result = Range::unsigned(u128::from(self.umin) << least, u128::from(self.umax) << most, width);
        let min = i128::from(self.smin) << if self.smin < 0 { most } else { least };
        let max = i128::from(self.smax) << if self.smax < 0 { least } else { most };
        result.and_signed(min, max, width)
    }

    /// All that `self >> other` with zeros can be; everything where `other` may be the width or more.
    pub fn rsh(self, other: Range, width: Width) -> Range {
        if other.umax >= bits(width) {
            return Range::any(width);
        }
        Range::unsigned((self.umin >> other.umax).into(), (self.umax >> other.umin).into(), width)
    }

    /// `self >> other`, with the sign
    pub fn arsh(self, other: Range, width: Width) -> Range {
        if other.umax >= bits(width) {
            return Range::any(width);
        }
        let min = self.smin >> if self.smin < 0 { other.umin } else { other.umax };
        let max = self.smax >> if self.smax < 0 { other.umax } else { other.umin };
        Range::any(width).and_signed(min.into(), max.into(), width)
    }
}

/// Number of bits of a width: 32 or 64.
pub const fn bits(width: Width) -> u64 {
    match width {
        Width::W32 => 32,
        Width::W64 => 64,
    }
}
