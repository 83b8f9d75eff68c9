//! Threads that have other ids than the recorder sees: told by the program on `sched_process_fork`, and by who follows a process.
//!
//! ```text
//! 0            how many there were, 64 bits
//! ENTRY_BYTES  the first entry: when, 64 bits; level; as the recorder sees them thread and process; as they see themselves thread and process: 32 bits each
//! ```
//! A program claims an entry by adding to the number, and stores the time last; the recorder reads it, and stores a 0 there. What it has not read when its place is
//! needed again is lost, and counted.

/// log2 of the bytes of an entry.
pub const ENTRY_BITS: u32 = 5;
/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 1 << ENTRY_BITS;
/// Entries, a power of two.
pub const ENTRIES: u32 = 4096;
/// Bytes of all.
pub const BYTES: u32 = ENTRY_BYTES * (ENTRIES + 1);

/// Offsets in an entry.
pub mod at {
    /// When it was forked, in ns of `CLOCK_MONOTONIC`; 64 bits, stored last.
    pub const TIME: i16 = 0;
    /// Level of its pid namespace.
    pub const LEVEL: i16 = 8;
    /// The thread, as the recorder sees it.
    pub const TID: i16 = 12;
    /// Its process, as the recorder sees it.
    pub const PID: i16 = 16;
    /// The thread, as gettid(2) returns it there.
    pub const VTID: i16 = 20;
    /// Its process, as getpid(2) returns it there.
    pub const VPID: i16 = 24;
}
