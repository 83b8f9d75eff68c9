//! Numbers of which some bits are known ("tristate numbers").
//!
//! Source: `kernel/bpf/tnum.c`, Linux 6.18; the multiplication is that of Vishwanathan et al. (2022), algorithm 4.

/// Which bits of a number are known. Where `mask` has a 1 the bit is unknown, and `value` has a 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tnum {
    /// The bits that are known.
    pub value: u64,
    /// The bits that are not.
    pub mask: u64,
}

impl Tnum {
    /// Any number: no bit is known.
    pub const UNKNOWN: Tnum = Tnum { value: 0, mask: u64::MAX };

    /// Exactly this number: all bits are known.
    pub const fn constant(value: u64) -> Tnum {
        Tnum { value, mask: 0 }
    }

    /// What all numbers from `min` to `max` have in common.
    pub const fn range(min: u64, max: u64) -> Tnum {
        let differ = min ^ max;
        let mask = if differ == 0 { 0 } else { u64::MAX >> differ.leading_zeros() };
        Tnum { value: min & !mask, mask }
    }

    /// Whether the number can be this.
    pub const fn contains(self, number: u64) -> bool {
        number & !self.mask == self.value
    }

    /// Whether whatever `other` can be, this can be too.
    pub const fn covers(self, other: Tnum) -> bool {
        other.mask & !self.mask == 0 && other.value & !self.mask == self.value
    }

    /// Knowing both of the same number. `None` when they contradict each other.
    pub const fn intersect(self, other: Tnum) -> Option<Tnum> {
        if (self.value ^ other.value) & !self.mask & !other.mask != 0 {
            return None;
        }
        let mask = self.mask & other.mask;
        Some(Tnum { value: (self.value | other.value) & !mask, mask })
    }

    /// The low 32 bits; the upper ones are 0.
    pub const fn low32(self) -> Tnum {
        Tnum { value: self.value as u32 as u64, mask: self.mask as u32 as u64 }
    }

    /// The upper 32 bits; the low ones are 0.
    pub const fn high32(self) -> Tnum {
        Tnum { value: self.value >> 32 << 32, mask: self.mask >> 32 << 32 }
    }

    /// The low bits, of which the highest one fills all above.
    pub const fn sign_extend(self, bits: u32) -> Tnum {
        let shift = 64 - bits;
        Tnum {
            value: ((self.value << shift) as i64 >> shift) as u64,
            mask: ((self.mask << shift) as i64 >> shift) as u64,
        }
    }

    /// The bits that all sums `self + other` share, carries included.
    pub const fn add(self, other: Tnum) -> Tnum {
        let masks = self.mask.wrapping_add(other.mask);
        let values = self.value.wrapping_add(other.value);
        let carries = masks.wrapping_add(values) ^ values;
        let mask = carries | self.mask | other.mask;
        Tnum { value: values & !mask, mask }
    }

    /// The bits that all differences `self - other` share, borrows included.
    pub const fn sub(self, other: Tnum) -> Tnum {
        let values = self.value.wrapping_sub(other.value);
        let most = values.wrapping_add(self.mask);
        let least = values.wrapping_sub(other.mask);
        let mask = (most ^ least) | self.mask | other.mask;
        Tnum { value: values & !mask, mask }
    }

    /// The bits that are known of `self & other`.
    pub const fn and(self, other: Tnum) -> Tnum {
        let value = self.value & other.value;
        Tnum { value, mask: (self.value | self.mask) & (other.value | other.mask) & !value }
    }

    /// The bits that are known of `self | other`.
    pub const fn or(self, other: Tnum) -> Tnum {
        let value = self.value | other.value;
        Tnum { value, mask: (self.mask | other.mask) & !value }
    }

    /// The bits that are known of `self ^ other`.
    pub const fn xor(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask;
        Tnum { value: (self.value ^ other.value) & !mask, mask }
    }

    /// `self << by`, less than 64
    pub const fn lsh(self, by: u32) -> Tnum {
        Tnum { value: self.value << by, mask: self.mask << by }
    }

    /// The bits that are known of `self >> by` with zeros; `by` is less than 64.
    pub const fn rsh(self, by: u32) -> Tnum {
        Tnum { value: self.value >> by, mask: self.mask >> by }
    }

    /// `self >> by`, with the sign
    pub const fn arsh(self, by: u32) -> Tnum {
        Tnum { value: (self.value as i64 >> by) as u64, mask: (self.mask as i64 >> by) as u64 }
    }

    /// The bits that are known of `self * other`.
    pub const fn mul(self, other: Tnum) -> Tnum {
        let known = self.value.wrapping_mul(other.value);
        let (mut a, mut b) = (self, other);
        let mut unknown = Tnum::constant(0);
        while a.value != 0 || a.mask != 0 {
            if a.value & 1 != 0 {
                unknown = unknown.add(Tnum { value: 0, mask: b.mask });
            } else if a.mask & 1 != 0 {
                unknown = unknown.add(Tnum { value: 0, mask: b.value | b.mask });
            }
            a = a.rsh(1);
            b = b.lsh(1);
        }
        Tnum::constant(known).add(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All tristate numbers of 4 bits, with all that they can be: each operation's result covers all results.
    #[test]
    fn results_cover_what_operands_can_be() {
        let all = || {
            (0..256u64)
                .map(|at| Tnum { value: at & 15, mask: at >> 4 })
                .filter(|one| one.value & one.mask == 0)
        };
        for a in all() {
            for b in all() {
                let results =
                    [a.add(b), a.sub(b), a.mul(b), a.and(b), a.or(b), a.xor(b), a.lsh(3), a.sign_extend(3)];
                for x in (0..16).filter(|x| a.contains(*x)) {
                    assert!(a.sign_extend(4).contains(((x << 60) as i64 >> 60) as u64));
                    for y in (0..16u64).filter(|y| b.contains(*y)) {
                        let exact = [
                            x.wrapping_add(y),
                            x.wrapping_sub(y),
                            x * y,
                            x & y,
                            x | y,
                            x ^ y,
                            x << 3,
                            ((x << 61) as i64 >> 61) as u64,
                        ];
                        for (result, exact) in results.iter().zip(exact) {
                            assert!(result.contains(exact), "{a:?} {b:?} {x} {y} {result:?}");
                        }
                    }
                }
                let both = (0..16).any(|x| a.contains(x) && b.contains(x));
                assert_eq!(a.intersect(b).is_some(), both);
                let covered = (0..16).all(|x| a.contains(x) || !b.contains(x));
                assert_eq!(a.covers(b), covered, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_range_has_its_common_bits() {
        assert_eq!(Tnum::range(8, 11), Tnum { value: 8, mask: 3 });
        assert_eq!(Tnum::range(0, u64::MAX), Tnum::UNKNOWN);
        assert_eq!(Tnum::range(5, 5), Tnum::constant(5));
    }
}
