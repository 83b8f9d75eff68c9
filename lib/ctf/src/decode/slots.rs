//! The values of the event being decoded: a buffer that is never shrunk, so that a run stores its fields
//! with one check.

use crate::value::{Slot, Tag};

/// A list of values that keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    used: usize,
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Slot] {
        self.all.get(..self.used).unwrap_or(&[])
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: Slot) {
        if let [place] = self.grab(1) {
            *place = slot;
        }
    }

    /// The next `count` places, to be stored to.
    #[inline(always)]
    pub(crate) fn grab(&mut self, count: usize) -> &mut [Slot] {
        let begin = self.used;
        let end = begin + count;
        if end > self.all.len() {
            self.grow(end);
        }
        self.used = end;
        &mut self.all[begin..end]
    }

    #[cold]
    fn grow(&mut self, least: usize) {
        self.all.resize(least.max(64).next_power_of_two(), Slot::new(Tag::U64, 0));
    }
}
