//! What lies where in the two maps of every recording: the rings, and the state that programs and recorder share.
//!
//! ```text
//! state:   0        switches and counters
//!          CLAIMS   for each ring 64 bytes: whether it is being written to
//!          scratch  for each ring SCRATCH_BYTES: texts that a filter looks at
//!          births   threads that have other ids than the recorder sees (`births`)
//!          stubs    processes in which return addresses were replaced (`stubs`)
//!          threads  the thread table (`threads`)
//! rings:   0        mote_ring::geometry, LEVELS rings for each CPU, no shared one
//!          total    SLACK bytes that are never used: the verifier knows no more than that a record begins in the rings
//! ```
//! Both are array maps with one element, so that programs reach every byte by an address that is a constant.

use crate::{births, stubs, threads};

/// Rings of a CPU: the usual one, and one for programs that interrupt another one that writes.
pub const LEVELS: u32 = 2;
/// Bytes behind the rings, which no record reaches.
pub const SLACK: u32 = 64 << 10;
/// A program's offsets in a map are below this (`BPF_MAX_VAR_OFF` of the verifier).
pub const REACH: u64 = 1 << 29;

/// The generation of the programs that record; 0 while none does. In its line of the cache nothing changes otherwise.
pub const ENABLED: u32 = 0;
/// Events of system calls of other ABIs (32-bit programs), which were left out.
pub const FOREIGN_ABI: u32 = 64;
/// Threads that were not followed because the table was full.
pub const THREADS_LOST: u32 = 72;
/// Events of programs that interrupted two others that were writing.
pub const NESTED: u32 = 80;
/// Texts that could not be read, and are empty in their records.
pub const TEXT_FAULTS: u32 = 88;
/// The time that the program which is run in the recorder's thread has read.
pub const NOW: u32 = 96;
/// Level of the recorder's pid namespace, as that program has found it; 0 for the outermost.
pub const LEVEL: u32 = 104;
/// Its address: the kernel's programs compare it with that of a thread.
pub const NAMESPACE: u32 = 112;
/// The process whose threads [`mote_generate::watch::introduce`] puts into the table.
pub const WANTED: u32 = 120;
/// Offset of the rings' claims.
pub const CLAIMS: u32 = 128;
/// log2 of the bytes for each: a word that is set while a program writes, and one that is always 0.
pub const CLAIM_BITS: u32 = 6;
/// Bytes of scratch of each ring.
pub const SCRATCH_BYTES: u32 = 4096;

/// Where things lie in the state map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many CPUs there may be.
    pub cpus: u32,
    /// Entries of the thread table, a power of two.
    pub threads: u32,
}

impl Layout {
    /// Offset of the scratch areas, one for each ring.
    pub const fn scratch(&self) -> u32 {
        (CLAIMS + ((LEVELS * self.cpus) << CLAIM_BITS)).next_multiple_of(4096)
    }

    /// Offset of what programs tell of threads with other ids.
    pub const fn births(&self) -> u32 {
        self.scratch() + LEVELS * self.cpus * SCRATCH_BYTES
    }

    /// Offset of what leads to replaced return addresses.
    pub const fn stubs(&self) -> u32 {
        self.births() + births::BYTES.next_multiple_of(4096)
    }

    /// Offset of the thread table.
    pub const fn threads(&self) -> u32 {
        self.stubs() + stubs::BYTES
    }

    /// How many bytes the state map has.
    pub const fn bytes(&self) -> u32 {
        self.threads() + self.threads * threads::ENTRY_BYTES
    }
}
