//! Threads that have other ids than the recorder sees: told by the program on `sched_process_fork`, and by who follows
//! a process.
//!
//! ```text
//! 0            how many there were, 64 bits
//! ENTRY_BYTES  the first entry: when, 64 bits; level; as the recorder sees them thread and process; as they see themselves thread and process: 32 bits each
//! ```
//! A program claims an entry by adding to the number, and stores the time last; the recorder reads it, and stores a 0
//! there. What it has not read when its place is needed again is lost, and counted.

/// log2 of the bytes of an entry.
pub const ENTRY_BITS: u32 = 5;
/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 1 << ENTRY_BITS;
/// Entries, a power of two.
pub const ENTRIES: u32 = 4096;
/// Bytes of all.
pub const BYTES: u32 = ENTRY_BYTES * (ENTRIES + 1);

/// An entry.
#[repr(C)]
#[derive(Debug)]
pub struct Birth {
    /// When it was forked, in ns of `CLOCK_MONOTONIC`; stored last.
    pub time: u64,
    /// Level of its pid namespace.
    pub level: u32,
    /// The thread, as the recorder sees it.
    pub tid: u32,
    /// Its process, as the recorder sees it.
    pub pid: u32,
    /// The thread, as gettid(2) returns it there.
    pub vtid: u32,
    /// Its process, as getpid(2) returns it there.
    pub vpid: u32,
    _free: u32,
}

const _: () = assert!(size_of::<Birth>() == ENTRY_BYTES as usize);
