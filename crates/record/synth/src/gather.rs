//! Instructions one after the other, gathered to runs.

use crate::fact::{Exit, Run};
use mote_pt::digest::Digest;

/// Instructions of a run at most.
const RUN_MAX: usize = 256;

/// A run that is not over.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    start: u64,
    /// Behind its last instruction.
    next: u64,
    lengths: Vec<u8>,
    digest: Digest,
}

impl Gather {
    /// Whether an instruction at `ip` goes on with the run.
    pub(crate) fn takes(&self, ip: u64) -> bool {
        self.lengths.is_empty() || (self.next == ip && self.lengths.len() < RUN_MAX)
    }

    /// Adds an instruction.
    pub(crate) fn push(&mut self, ip: u64, length: u8) {
        if self.lengths.is_empty() {
            self.start = ip;
        }
        self.next = ip.wrapping_add(u64::from(length));
        self.lengths.push(length);
        self.digest.push(ip);
    }

    /// The run, where there is one, left so by its last instruction.
    pub(crate) fn run(&self, exit: Exit, to: u64) -> Option<Run<'_>> {
        let run = Run { start: self.start, lengths: &self.lengths, digest: self.digest, exit, to };
        (!self.lengths.is_empty()).then_some(run)
    }

    /// Begins another one.
    pub(crate) fn clear(&mut self) {
        self.lengths.clear();
        self.digest = Digest::default();
    }

    /// Behind the last instruction.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}
