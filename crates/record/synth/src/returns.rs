//! Where calls return to, as the processor remembers it for compressed returns (SDM 3C, 33.4.2.2, "Indirect Transfer
//! Compression for Returns").

/// How many: the oldest is forgotten for a newer one.
const DEPTH: usize = 64;

/// The youngest calls that have not returned, of those since the last PSB or OVF.
#[derive(Clone, Debug)]
pub(crate) struct Returns {
    addresses: [u64; DEPTH],
    /// Where the next one goes.
    top: usize,
    count: usize,
}

impl Returns {
    pub(crate) fn new() -> Returns {
        Returns { addresses: [0; DEPTH], top: 0, count: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn push(&mut self, back: u64) {
        self.addresses[self.top] = back;
        self.top = (self.top + 1) % DEPTH;
        self.count = (self.count + 1).min(DEPTH);
    }

    /// Where the youngest call returns to, which is forgotten.
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.top = (self.top + DEPTH - 1) % DEPTH;
        Some(self.addresses[self.top])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten() {
        let mut returns = Returns::new();
        (0..70).for_each(|back| returns.push(back));
        let back: Vec<u64> = std::iter::from_fn(|| returns.pop()).collect();
        assert_eq!(back, (6..70).rev().collect::<Vec<_>>());
        returns.push(1);
        returns.clear();
        assert_eq!(returns.pop(), None);
    }
}
