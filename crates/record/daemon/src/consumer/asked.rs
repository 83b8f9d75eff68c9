//! How often something was asked of the consumer thread, so that it can say what it has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often something was asked of the consumer. It answers a number when everything up to that one is done.
#[derive(Debug, Default)]
pub(crate) struct Asked(AtomicU64);

impl Asked {
    /// Asks once more; returns the number to wait for.
    pub(crate) fn ask(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
