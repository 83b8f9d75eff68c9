//! Calls of functions with probes, as they are under way in a process: where each really returns to. For profilers,
//! which find return addresses on its stacks that are replaced by those of stubs (`mote-trace-hook`, `stack`).
//!
//! # In the process
//! A thread's calls have slots in regions of [`REGION`] bytes, which are aligned to their size: stubs in the lower
//! half, and the slot of each as far behind it in the upper one. Stubs and slots have [`SLOT`] bytes each. A stub's
//! address stands on the stack only while its slot has the real one, at each instruction of our code: the slot is
//! filled before, and taken away behind it.
//!
//! A thread-local word says where its slots that are in use end; while our code works on the thread's calls that is 0,
//! and another word has it. How far these two words lie from the thread pointer stands in memory ([`WORDS`] words; 0:
//! nothing was replaced yet), which is found by what stands in front of a function of the library, in its code:
//!
//! | bytes before the function | |
//! |---|---|
//! | 24 | [`VERSION`], 4 bytes |
//! | 20 | how far behind this place the two words are, 4 bytes with a sign |
//! | 16 | [`FINDER`](crate::stack::FINDER) |
//!
//! # Trust
//! The process may have written anything there. A lie gives another stack of its own, of no more functions.

/// Bytes of a stub, and of a slot.
pub const SLOT: usize = 32;
/// Where calls return to, in bytes from the begin of their stub.
pub const RETURNS_AT: usize = 4;
/// Bytes of a region.
pub const REGION: usize = 64 << 10;
/// Where in a region the slots begin, and how far behind its stub each is.
pub const SLOTS_AT: usize = REGION / 2;
/// How many words lead to a thread's slots.
pub const WORDS: usize = 2;
/// Which layout of all this it is.
pub const VERSION: u32 = 1;
/// How many bytes before the first one of [`FINDER`](crate::stack::FINDER) the version stands.
pub const VERSION_BEFORE: usize = 8;
/// Most functions that have come to one place of the stack by jumping to one another (tail calls).
pub const JUMPS_MAX: usize = 32;

/// Slots of a thread, copied at a moment: those that are used last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots<'s> {
    /// Where they end in the process.
    top: u64,
    /// Whole slots, up to there.
    slots: &'s [[u8; SLOT]],
}

impl Slots<'_> {
    /// From the bytes that end at `top`; what is no whole slot there is left out.
    #[must_use]
    pub fn new(top: u64, bytes: &[u8]) -> Slots<'_> {
        Slots { top, slots: bytes.as_rchunks().1 }
    }

    /// Where really goes on what returns to `address`, if that is in a stub of one of the slots.
    ///
    /// # Cost
    /// None worth naming, for [`JUMPS_MAX`] functions in a row.
    #[must_use]
    pub fn behind(&self, address: u64) -> Option<u64> {
        let mut real = self.returns_to(address)?;
        for _ in 0..JUMPS_MAX {
            match self.returns_to(real) {
                Some(outer) => real = outer,
                None => return Some(real),
            }
        }
        Some(real)
    }

    /// The same of the return address at a place of the stack that cannot be read: it lies below the stack pointer.
    ///
    /// # Cost
    /// Looks at all slots.
    #[must_use]
    pub fn at(&self, place: u64) -> Option<u64> {
        let slot = self.slots.iter().rev().find(|slot| word(slot, 1) == Some(place))?;
        let real = word(slot, 0)?;
        Some(self.behind(real).unwrap_or(real))
    }

    fn returns_to(&self, address: u64) -> Option<u64> {
        const BYTES: u64 = SLOT as u64;
        if address % REGION as u64 >= SLOTS_AT as u64 {
            return None;
        }
        let slot = (address - address % BYTES).checked_add(SLOTS_AT as u64)?;
        let before = self.top.checked_sub(slot)?;
        let (number, rest) = (before / BYTES, before % BYTES);
        let at = self.slots.len().checked_sub(usize::try_from(number).ok()?)?;
        if rest != 0 {
            return None;
        }
        word(self.slots.get(at)?, 0)
    }
}

fn word(slot: &[u8; SLOT], number: usize) -> Option<u64> {
    slot.as_chunks::<8>().0.get(number).map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const AREA: u64 = 0x7e00_0000_0000;
    const FIRST: u64 = AREA + SLOTS_AT as u64 + SLOT as u64;

    /// The address that stands on the stack for the slot of this number.
    fn stub(number: u64) -> u64 {
        AREA + number * SLOT as u64 + 4
    }

    /// Slots from number 1 on: where they return to, and their places.
    fn bytes(slots: &[[u64; 2]]) -> Vec<u8> {
        let words = slots.iter().flat_map(|[to, place]| [*to, *place, 5, 6]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn a_stub_leads_to_where_its_call_returns() {
        let all = bytes(&[[0x1000, 0x7f08], [0x2000, 0x7e08], [stub(2), 0x7e08]]);
        let slots = Slots::new(FIRST + 96, &all);
        assert_eq!(slots.behind(stub(1)), Some(0x1000));
        // Anywhere in the stub: a thread may be there.
        assert_eq!(slots.behind(stub(2) + 20), Some(0x2000));
        // A function that has jumped to another one.
        assert_eq!(slots.behind(stub(3)), Some(0x2000));
        assert_eq!(
            [slots.at(0x7e08), slots.at(0x7f08), slots.at(0x7d08)],
            [Some(0x2000), Some(0x1000), None]
        );
        for no in [0, 8, stub(0), stub(4), AREA - 1, FIRST, FIRST + 32, u64::MAX] {
            assert_eq!(slots.behind(no), None, "{no:x}");
        }
        // The last ones only.
        let slots = Slots::new(FIRST + 96, &all[16..]);
        assert_eq!((slots.behind(stub(1)), slots.behind(stub(2))), (None, Some(0x2000)));
        assert_eq!(Slots::new(FIRST, &[]).behind(stub(1)), None);
    }

    #[test]
    fn lies_end() {
        // Around in a circle, and to itself.
        let all = bytes(&[[stub(2), u64::MAX], [stub(1), 0], [stub(3), 1]]);
        for top in [FIRST + 96, 0, 1, 31, 96, AREA, FIRST + 97, FIRST + 80, u64::MAX, u64::MAX - 32] {
            let slots = Slots::new(top, &all);
            for number in 0..1100 {
                let _ = slots.behind(stub(number));
            }
            for address in [0, 1, SLOT as u64, u64::MAX, u64::MAX - SLOTS_AT as u64] {
                let _ = (slots.behind(address), slots.at(address));
            }
        }
        assert!(Slots::new(FIRST + 96, &all).behind(stub(1)).is_some());
    }
}
