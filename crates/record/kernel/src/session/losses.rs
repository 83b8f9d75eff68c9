//! What was not recorded, beside what the rings count.

use super::state::Kernel;
use crate::load::Program;
use mote_generate::state;

/// What was not recorded, beside what the rings count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events of programs that interrupted others which were writing, too deep; and such that happened while their own
    /// program was running.
    pub nested: u64,
    /// Threads that were not followed: the table was full.
    pub threads: u64,
    /// Events of system calls of the 32-bit ABI, which are not recorded.
    pub foreign_abi: u64,
    /// Texts that could not be read, and are empty in their records. Their events are recorded.
    pub texts: u64,
}

impl Losses {
    /// True when nothing is missing.
    pub fn is_empty(&self) -> bool {
        *self == Losses::default()
    }
}

pub(super) fn of(kernel: &Kernel) -> Losses {
    let count = |word: u32| kernel.state.memory().load64(word as usize);
    let attached = kernel.attached();
    let of_entries: u64 = attached.entries.iter().map(super::place::Entry::missed).sum();
    let missed = attached.programs.iter().map(Program::missed).sum::<u64>() + of_entries + attached.missed;
    Losses {
        nested: count(state::NESTED) + missed,
        threads: count(state::THREADS_LOST),
        foreign_abi: count(state::FOREIGN_ABI),
        texts: count(state::TEXT_FAULTS),
    }
}
