//! TNT bits that have not been used yet.

use crate::packet::Tnt;

/// Bits of branches, the next one highest; a 1 stands below the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits(u64);

/// Most bits that fit; a packet has at most 47.
const COUNT_MAX: u8 = 63;

impl Bits {
    pub(super) const EMPTY: Bits = Bits(1 << 63);

    #[inline]
    pub(super) fn new(tnt: Tnt) -> Self {
        let count = tnt.count.min(COUNT_MAX);
        let bits = tnt.bits & ((1 << count) - 1);
        Bits((bits << 1 | 1) << (COUNT_MAX - count))
    }

    /// Appends the bits of another packet, if they fit.
    #[inline]
    pub(super) fn append(&mut self, tnt: Tnt) -> bool {
        let room = self.0.trailing_zeros() as u8;
        let fits = tnt.count <= room;
        if fits {
            // The 1 below the last bit gives way to the new bits and a 1 below them.
            let bits = tnt.bits & ((1 << tnt.count) - 1);
            let last = self.0 & self.0.wrapping_neg();
            self.0 = self.0 - last + ((bits << 1 | 1) << (room - tnt.count));
        }
        fits
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self == Bits::EMPTY
    }

    /// Whether the next branch was taken. There is a next one.
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        let is_taken = self.0 >> 63 == 1;
        self.0 <<= 1;
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bits: u64, count: u8, expect: &[bool]) {
        let mut left = Bits::new(Tnt { bits, count, is_long: false });
        for &is_taken in expect {
            assert!(!left.is_empty());
            assert_eq!(left.take(), is_taken, "{bits:b}");
        }
        assert!(left.is_empty());
    }

    #[test]
    fn bits_are_appended_while_they_fit() {
        let mut bits = Bits::EMPTY;
        let packet = |bits, count| Tnt { bits, count, is_long: false };
        assert!(bits.append(packet(0b10, 2)));
        assert!(bits.append(packet(0, 0)));
        assert!(bits.append(packet(u64::MAX, 47)));
        assert!(!bits.append(packet(0, 15)));
        assert!(bits.append(packet(1, 14)));
        assert!(!bits.append(packet(0, 1)));
        assert!(!bits.append(packet(0, 64)));
        let mut expect = vec![true, false];
        expect.extend([true; 47]);
        expect.extend([false; 13]);
        expect.push(true);
        for (at, is_taken) in expect.into_iter().enumerate() {
            assert_eq!((bits.is_empty(), bits.take()), (false, is_taken), "{at}");
        }
        assert!(bits.is_empty());
    }

    #[test]
    fn the_first_branch_is_the_highest_bit() {
        check(0, 0, &[]);
        check(1, 1, &[true]);
        check(0, 1, &[false]);
        check(0b1101, 4, &[true, true, false, true]);
        check(u64::MAX, 2, &[true, true]);
        check(u64::MAX, 47, &[true; 47]);
        check(u64::MAX, 200, &[true; 63]);
    }
}
