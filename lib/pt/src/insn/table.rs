//! A hash table of indices, by keys that are kept elsewhere: open addressing, at most half full.

/// Indices by key.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Indices plus 1, 0 where there is none; a power of two of them, or none at all.
    slots: Vec<u32>,
    len: usize,
}

impl Table {
    /// The index with a hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        loop {
            let index = self.slots[slot].checked_sub(1)?;
            if is_it(index) {
                return Some(index);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Adds an index that is not there. `hash_of` gives the hashes of those that are.
    pub(super) fn insert(&mut self, hash: u64, index: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow(hash_of);
        }
        self.put(hash, index + 1);
        self.len += 1;
    }

    /// How many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let slots = vec![0; (self.slots.len() * 2).max(64)];
        for filled in std::mem::replace(&mut self.slots, slots) {
            if let Some(index) = filled.checked_sub(1) {
                self.put(hash_of(index), filled);
            }
        }
    }

    fn put(&mut self, hash: u64, filled: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = filled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_found_again() {
        let mut table = Table::default();
        // Keys that fall together.
        let hash = |index: u32| u64::from(index / 7) * 64;
        assert_eq!(table.find(0, |_| true), None);
        for index in 0..1000 {
            assert_eq!(table.find(hash(index), |other| other == index), None);
            table.insert(hash(index), index, hash);
        }
        for index in 0..1000 {
            assert_eq!(table.find(hash(index), |other| other == index), Some(index));
        }
        assert_eq!(table.bytes(), 2048 * 4);
    }
}
