//! The word that links nodes of a hash: which node comes next, what the node that holds the word is, and how often it
//! changed.

/// What a node is. Heads of chains and of the free list have `Free` in their words, without a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In the free list, or never used.
    Free,
    /// One thread's alone, which fills it.
    Claimed,
    /// An entry.
    Live,
    /// Was an entry; a thread that passes takes it out of its chain.
    Deleted,
}

/// A link: bits 0..32 are 1 + the next node's index (0: none), bits 32..34 the state, bits 34..64 the version.
///
/// Each change of a word makes the version larger by one. A thread that exchanges a word that it read some time ago
/// fails if there was any change since, but for exactly a multiple of 2^30 changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) u64);

const STATE_SHIFT: u32 = 32;
const VERSION_SHIFT: u32 = 34;

impl Link {
    /// Index of the next node; it may be anything, memory being what it is.
    #[inline(always)]
    pub(crate) fn next(self) -> Option<usize> {
        (self.0 as u32).checked_sub(1).map(|index| index as usize)
    }

    /// What the node is.
    #[inline(always)]
    pub(crate) fn state(self) -> State {
        match self.0 >> STATE_SHIFT & 3 {
            0 => State::Free,
            1 => State::Claimed,
            2 => State::Live,
            _ => State::Deleted,
        }
    }

    /// The word after this one: another next node and state.
    #[inline(always)]
    pub(crate) fn then(self, next: Option<usize>, state: State) -> Link {
        let version = (self.0 >> VERSION_SHIFT).wrapping_add(1);
        let next = next.map_or(0, |index| index as u32 as u64 + 1);
        Link(version << VERSION_SHIFT | (state as u64) << STATE_SHIFT | next)
    }

    /// The word after this one: another next node.
    #[inline(always)]
    pub(crate) fn pointing(self, next: Option<usize>) -> Link {
        self.then(next, self.state())
    }

    /// The word after this one: another state.
    #[inline(always)]
    pub(crate) fn becoming(self, state: State) -> Link {
        self.then(self.next(), state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_holds_what_it_is_given() {
        let first = Link(0).then(Some(u32::MAX as usize - 1), State::Live);
        assert_eq!((first.next(), first.state()), (Some(u32::MAX as usize - 1), State::Live));
        let second = first.becoming(State::Deleted);
        assert_eq!((second.next(), second.state()), (first.next(), State::Deleted));
        assert_ne!(second.pointing(None).pointing(first.next()), second, "the version grows");
        assert_eq!(Link(u64::MAX).then(None, State::Free), Link(0), "and wraps");
    }
}
