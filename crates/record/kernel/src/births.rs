//! Threads that have other ids than the recorder sees: told by the program on `sched_process_fork`, and by who follows a process.
//!
//! ```text
//! 0            how many there were, 64 bits
//! ENTRY_BYTES  the first entry: when, 64 bits; level; as the recorder sees them thread and process; as they see themselves thread and process: 32 bits each
//! ```
//! A program claims an entry by adding to the number, and stores the time last; the recorder reads it, and stores a 0 there. What it has not read when its place is
//! needed again is lost, and counted.

use crate::map::State;

/// log2 of the bytes of an entry.
pub(crate) const ENTRY_BITS: u32 = 5;
/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: u32 = 1 << ENTRY_BITS;
/// Entries, a power of two.
pub(crate) const ENTRIES: u32 = 4096;
/// Bytes of all.
pub(crate) const BYTES: u32 = ENTRY_BYTES * (ENTRIES + 1);

/// Offsets in an entry.
pub(crate) mod at {
    pub(crate) const TIME: i16 = 0;
    pub(crate) const LEVEL: i16 = 8;
    pub(crate) const TID: i16 = 12;
    pub(crate) const PID: i16 = 16;
    pub(crate) const OWN_TID: i16 = 20;
    pub(crate) const OWN_PID: i16 = 24;
}

/// A thread, and what it calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born {
    /// When it was forked (CLOCK_MONOTONIC, ns); 0 for one that was there when its process was followed.
    pub time_ns: u64,
    /// Thread, as the recorder sees it.
    pub tid: u32,
    /// Process, as the recorder sees it.
    pub pid: u32,
    /// Thread, as gettid(2) answers in it.
    pub own_tid: u32,
    /// Process, as getpid(2) answers in it.
    pub own_pid: u32,
    /// Level of its pid namespace; 0 for the outermost one.
    pub level: u32,
}

impl State {
    /// What programs have told since `read` were read, which is how many there are then; and how many of them were lost.
    pub(crate) fn births(&self, read: &mut u64) -> (Vec<Born>, u64) {
        let first = self.layout().births() as usize;
        let (mut born, mut lost) = (Vec::new(), 0);
        let head = self.memory().load64(first);
        if head.saturating_sub(*read) > u64::from(ENTRIES) {
            lost = head - *read - u64::from(ENTRIES);
            *read += lost;
        }
        while *read < head {
            let number = (*read % u64::from(ENTRIES)) as usize;
            let entry = first + ((number + 1) << ENTRY_BITS);
            let time_ns = self.memory().load64(entry + at::TIME as usize);
            if time_ns == 0 {
                break;
            }
            let word = |at: i16| self.memory().load32(entry + at as usize);
            born.push(Born {
                time_ns,
                tid: word(at::TID),
                pid: word(at::PID),
                own_tid: word(at::OWN_TID),
                own_pid: word(at::OWN_PID),
                level: word(at::LEVEL),
            });
            self.memory().store64(entry + at::TIME as usize, 0);
            *read += 1;
        }
        (born, lost)
    }
}
