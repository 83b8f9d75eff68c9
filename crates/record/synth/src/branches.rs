//! Conditional branches and compressed returns on their way into a TNT packet (SDM 3C, 33.4.2.1).

use mote_pt::packet::Tnt;

/// What a short packet holds.
const SHORT: u8 = 6;
/// What a long one holds.
const LONG: u8 = 47;

/// The branches that are not written yet.
#[derive(Clone, Debug)]
pub(crate) struct Branches {
    bits: u64,
    count: u8,
    max: u8,
}

impl Branches {
    pub(crate) fn new(are_long: bool) -> Branches {
        Branches { bits: 0, count: 0, max: if are_long { LONG } else { SHORT } }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one; says whether the packet is full, and to be taken before another one comes.
    pub(crate) fn push(&mut self, is_taken: bool) -> bool {
        self.bits = self.bits << 1 | u64::from(is_taken);
        self.count += 1;
        self.count == self.max
    }

    /// The packet, where there is a branch. A processor with long packets writes few branches as a short one.
    pub(crate) fn take(&mut self) -> Option<Tnt> {
        let tnt = Tnt { bits: self.bits, count: self.count, is_long: self.count > SHORT };
        (self.bits, self.count) = (0, 0);
        (tnt.count > 0).then_some(tnt)
    }
}
