//! Where compressed returns lead to: the calls that have not returned (SDM 33.4.2.2).

use crate::insn::NONE;

/// How many calls a processor remembers.
const CALLS: usize = 64;

/// The youngest calls. One more forgets the oldest.
#[derive(Clone, Debug)]
pub(super) struct Returns {
    calls: [Call; CALLS],
    /// Where the next one goes.
    next: usize,
    len: usize,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The address behind it.
    pub(super) address: u64,
    /// Its node, whose first edge leads to that address; or [`NONE`].
    pub(super) node: u32,
}

impl Default for Returns {
    fn default() -> Self {
        Returns { calls: [Call { address: 0, node: NONE }; CALLS], next: 0, len: 0 }
    }
}

impl Returns {
    #[inline]
    pub(super) fn push(&mut self, address: u64, node: u32) {
        self.calls[self.next % CALLS] = Call { address, node };
        self.next = (self.next + 1) % CALLS;
        self.len = (self.len + 1).min(CALLS);
    }

    /// The youngest call, which has returned now.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Call> {
        self.len = self.len.checked_sub(1)?;
        self.next = (self.next + CALLS - 1) % CALLS;
        Some(self.calls[self.next % CALLS])
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the nodes, which are no longer those of this code.
    pub(super) fn forget_nodes(&mut self) {
        self.calls.iter_mut().for_each(|call| call.node = NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_youngest_calls_are_remembered() {
        let mut returns = Returns::default();
        for address in 0..100 {
            returns.push(address, NONE);
        }
        for address in (36..100).rev() {
            assert_eq!(returns.pop(), Some(Call { address, node: NONE }));
        }
        assert_eq!(returns.pop(), None);
        returns.push(7, NONE);
        returns.push(8, NONE);
        assert_eq!(returns.pop().map(|call| call.address), Some(8));
        returns.clear();
        assert_eq!(returns.pop(), None);
    }
}
