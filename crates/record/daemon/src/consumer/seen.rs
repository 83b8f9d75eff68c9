//! Threads that records are of, each noted once in a while.

/// Ids that were seen. One that was never told how many there can be notes none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    bits: Vec<u64>,
    new: Vec<u32>,
}

impl Seen {
    /// For ids below `most`.
    pub(crate) fn below(most: u32) -> Seen {
        Seen { bits: vec![0; most.div_ceil(64) as usize], new: Vec::new() }
    }

    /// Notes that the thread of this id was seen.
    #[inline]
    pub(crate) fn note(&mut self, id: u32) {
        let Some(word) = self.bits.get_mut(id as usize / 64) else { return };
        let bit = 1 << (id % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.new.push(id);
        }
    }

    /// Those that were not taken yet.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.new)
    }

    /// Forgets them, so that each is noted again: its name may have changed, or its id is used again.
    pub(crate) fn forget(&mut self) {
        self.bits.fill(0);
    }
}

/// Thread ids are below this (`/proc/sys/kernel/pid_max`).
pub(crate) fn ids() -> u32 {
    const MOST: u32 = 1 << 22;
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_noted_once_until_it_is_forgotten() {
        let mut seen = Seen::below(100);
        [7, 7, 99, 1000, 7].into_iter().for_each(|id| seen.note(id));
        assert_eq!(seen.take(), [7, 99]);
        seen.note(7);
        assert!(seen.take().is_empty());
        seen.forget();
        seen.note(7);
        assert_eq!(seen.take(), [7]);
        let mut none = Seen::default();
        none.note(0);
        assert!(none.take().is_empty());
    }
}
