//! What the writers say of themselves: for each stream, how many records it has begun, written and been told are lost.
//!
//! It lies in shared memory, so that it outlives a killed writer. One thread writes to a stream's counts, with plain
//! stores: a writer that is killed anywhere has begun at most one record more than it has ended.

use super::record::STREAMS;
use mote_loss::{Cause, Lost};
use mote_sys::mem::{Mapping, sealed_memfd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// Streams of one thread: its own, and one for each signal whose handler writes too.
pub const STREAMS_OF_THREAD: usize = 4;

/// The counts of one stream.
#[repr(C, align(64))]
pub struct Counts {
    pub begun: AtomicU64,
    pub written: AtomicU64,
    pub lost: [AtomicU64; Cause::ALL.len()],
    /// Records for which the writer said that it cannot serve the thread.
    pub refused: AtomicU64,
}

/// The counts of one stream, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub begun: u64,
    pub written: u64,
    pub lost: Lost,
    pub refused: u64,
}

impl Told {
    pub fn lost_sum(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Records that were begun and not ended: the writer was killed in them.
    pub fn open(&self) -> u64 {
        self.begun - self.written - self.lost_sum() - self.refused
    }
}

/// Adds one, by two instructions: there is only one writer.
pub fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

#[repr(C)]
struct Shared {
    stop: AtomicBool,
    threads: AtomicUsize,
    /// Handlers that ran while their thread was writing a record.
    nested: AtomicU64,
    kills: AtomicU64,
    counts: [Counts; STREAMS],
}

/// The counts of all streams of a round.
pub struct Board(Mapping);

impl Board {
    pub fn new() -> Board {
        let bytes = size_of::<Shared>().next_multiple_of(4096);
        let memfd = sealed_memfd(c"torture-board", bytes as u64).expect("memory for the board");
        Board(Mapping::shared(&memfd, bytes).expect("address space for the board"))
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping is large enough, page-aligned, and zeroes are valid atomics.
        unsafe { &*self.0.base().cast_const().cast() }
    }

    pub fn stop(&self) {
        self.shared().stop.store(true, SeqCst);
    }

    pub fn stopped(&self) -> bool {
        self.shared().stop.load(Relaxed)
    }

    /// The first stream of a thread that begins; `None` when all have been used.
    pub fn enter(&self) -> Option<usize> {
        let first = self.shared().threads.fetch_add(1, SeqCst) * STREAMS_OF_THREAD;
        (first + STREAMS_OF_THREAD <= STREAMS).then_some(first)
    }

    pub fn counts(&self, stream: usize) -> &Counts {
        &self.shared().counts[stream]
    }

    pub fn count_nested(&self) {
        self.shared().nested.fetch_add(1, Relaxed);
    }

    pub fn count_kill(&self) {
        self.shared().kills.fetch_add(1, Relaxed);
    }

    pub fn nested(&self) -> u64 {
        self.shared().nested.load(SeqCst)
    }

    pub fn kills(&self) -> u64 {
        self.shared().kills.load(SeqCst)
    }

    /// What each stream has told; to be read when no thread writes any more.
    pub fn told(&self) -> Vec<Told> {
        let used = (self.shared().threads.load(SeqCst) * STREAMS_OF_THREAD).min(STREAMS);
        let told = |stream| {
            let counts = self.counts(stream);
            Told {
                begun: counts.begun.load(SeqCst),
                written: counts.written.load(SeqCst),
                lost: std::array::from_fn(|cause| counts.lost[cause].load(SeqCst)),
                refused: counts.refused.load(SeqCst),
            }
        };
        (0..used).map(told).collect()
    }
}
