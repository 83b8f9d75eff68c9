//! Where a jump can lead some of whose bytes are fixed.

use super::{ALIGNMENT, BODY_AT};

/// Where bodies are: so far below the code. It is where the highest byte of an offset is that of a breakpoint.
const HOME_BELOW: u64 = 0x3400_0000;
/// Where they are for programs that lie too low for that: so far above, behind the heap.
const HOME_ABOVE: u64 = 0x4800_0000;
/// How far bodies may be that can be anywhere, in bytes: 1.9 GiB, so that the rest of the file is within reach, too.
const DISTANCE_ANY: u64 = 0x7980_0000;
/// Code that lies within as many bytes shares a home: half of what one highest byte can reach.
const NEIGHBOURS: u64 = 8 << 20;

/// The addresses whose 32-bit offset from an instruction's end has some bits fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The end of the instruction.
    base: u64,
    /// The bits of the offset that are fixed.
    mask: u32,
    /// The fixed bits of the offset; all other bits are 0.
    value: u32,
    /// At most so far from there.
    distance: u64,
}

impl Reach {
    /// Everything that an instruction that ends at `base` can reach, and from where what lies beside that can be.
    pub(crate) fn any(base: u64) -> Reach {
        Reach { base, mask: 0, value: 0, distance: DISTANCE_ANY }
    }

    /// What is reached with some bytes of the offset fixed.
    pub(crate) fn fixed(base: u64, bytes: [Option<u8>; 4]) -> Reach {
        Reach {
            base,
            mask: u32::from_le_bytes(bytes.map(|byte| if byte.is_some() { 0xff } else { 0 })),
            value: u32::from_le_bytes(bytes.map(Option::unwrap_or_default)),
            distance: 1 << 31,
        }
    }

    /// The places of bodies, from their cells on, where the target is the body.
    pub(crate) fn to_body(self) -> Option<Reach> {
        let base = self.base.checked_sub(BODY_AT)?;
        let (low, wanted) = (ALIGNMENT as u32 - 1, base.wrapping_neg() as u32 & (ALIGNMENT as u32 - 1));
        let is_possible = (self.value ^ wanted) & self.mask & low == 0;
        is_possible.then_some(Reach {
            base,
            mask: self.mask | low,
            value: self.value & !low | wanted,
            ..self
        })
    }

    /// How many they are.
    pub(crate) fn count(&self) -> u64 {
        1 << self.mask.count_zeros()
    }

    /// The first one from `at` on.
    pub(crate) fn next(&self, at: u64) -> Option<u64> {
        // Offsets in the order of addresses: the lowest one is 0.
        const SIGN: u32 = 1 << 31;
        let lowest = i128::from(self.base) - i128::from(SIGN);
        let at = at.max(self.base.saturating_sub(self.distance));
        let from = u32::try_from((i128::from(at) - lowest).max(0)).ok()?;
        let order = next_fitting(from, self.mask, self.value ^ (SIGN & self.mask))?;
        let found = u64::try_from(lowest + i128::from(order)).ok()?;
        (found < self.base.saturating_add(self.distance)).then_some(found)
    }

    /// Where a search begins: the same for all code in a neighbourhood, so that it shares pages.
    pub(crate) fn home(&self) -> Option<u64> {
        let begin = self.base / NEIGHBOURS * NEIGHBOURS + NEIGHBOURS;
        let home = begin.checked_sub(HOME_BELOW).filter(|home| *home >= NEIGHBOURS);
        let first = self.next(home.unwrap_or(begin + HOME_ABOVE)).or_else(|| self.next(0))?;
        let run = 1_u64 << (self.mask & !(ALIGNMENT as u32 - 1)).trailing_zeros();
        let is_shared = (1 << 16..1 << 32).contains(&run);
        if is_shared { self.next(first.next_multiple_of(run / 2)) } else { Some(first) }
    }

    /// Places of the same class are the same from one neighbourhood.
    pub(crate) fn class(&self) -> u64 {
        let fixed = (self.base as u32).wrapping_add(self.value) & self.mask & 0xffff;
        u64::from(self.mask) << 16 | u64::from(fixed)
    }
}

/// The lowest number from `from` on that has `value` in the bits of `mask`.
fn next_fitting(from: u32, mask: u32, value: u32) -> Option<u32> {
    let differs = (from ^ value) & mask;
    let Some(highest) = differs.checked_ilog2() else { return Some(from) };
    // What lies above the highest fixed bit that differs stays, if that one becomes larger; else it is counted up.
    let above = u32::MAX.checked_shl(highest + 1).unwrap_or(0);
    if value >> highest & 1 == 1 {
        return Some(from & above & !mask | value);
    }
    let counted = ((from | mask) & above).checked_add(1_u32.checked_shl(highest + 1)?)?;
    Some(counted & !mask | value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_that_fits() {
        let masks =
            [0, 0xff, 0xff00, 0xff_0000, 0xff00_ff00, 0xffff_ff00, 0xff00_00ff, u32::MAX, 0x8000_000f];
        for mask in masks {
            let value = 0xcc37_a1cd & mask;
            for from in
                [0, 1, 0xcc, 0xcd, 0xce, 0xcc00, 0xa1cd, 0xcc37_a1cd, 0xcc37_a1ce, 0xffff_ff00, u32::MAX]
            {
                let found = next_fitting(from, mask, value);
                let near = (from..=from.saturating_add(0x2_0000)).find(|number| number & mask == value);
                match (found, near) {
                    (Some(found), Some(near)) => assert_eq!(found, near, "{mask:x} {from:x}"),
                    (None, near) => assert_eq!(near, None, "{mask:x} {from:x}"),
                    (Some(found), None) => {
                        assert!(found & mask == value && found > from, "{mask:x} {from:x}")
                    }
                }
            }
        }
    }

    #[test]
    fn reaches_are_in_order() {
        let base = 0x5555_5555_4005;
        let reach = Reach::fixed(base, [Some(0xcc), None, None, Some(0xcc)]);
        assert_eq!(reach.count(), 1 << 16);
        let first = reach.next(0).expect("one");
        assert_eq!(first, base.wrapping_add_signed(i64::from(0xcc00_00cc_u32.cast_signed())));
        assert_eq!(reach.next(first), Some(first));
        assert_eq!(reach.next(first + 1), Some(first + 0x100));
        assert_eq!(reach.next(first + 0x100_0000), None);
        assert_eq!(reach.home(), reach.next(base / NEIGHBOURS * NEIGHBOURS + NEIGHBOURS - HOME_BELOW));
        // Low code reaches nothing below 0.
        let low = Reach::any(0x40_1005);
        assert_eq!(low.next(0), Some(0));
        assert!(low.home().is_some_and(|home| home > 0x4000_0000));
    }

    #[test]
    fn bodies_are_aligned() {
        let any = Reach::any(0x5555_5555_4013).to_body().expect("possible");
        let place = any.next(0x5555_0000_0001).expect("one");
        assert_eq!(place, 0x5555_0000_0010);
        let fixed = Reach::fixed(0x5555_5555_4005, [Some(0xcc), None, None, None]);
        assert_eq!(fixed.to_body(), None);
        let fixed =
            Reach::fixed(0x5555_5555_4004, [Some(0xcc), None, None, None]).to_body().expect("possible");
        assert_eq!(fixed.next(0).expect("one") % ALIGNMENT, 0);
    }
}
