//! What all programs of a recording have in common.

use crate::facts::Facts;
use crate::namespace::Namespace;
use crate::state::Layout;
use mote_bpf::Insn;
use mote_ring::Geometry;

/// Whose events programs record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those of all threads.
    All,
    /// The same, without what this process does itself: its system calls, its faults, the probes that it runs into. Its
    /// switches, and what interrupts do while it runs, are events of others as well.
    Others {
        /// Its id, as the kernel counts.
        process: u32,
    },
    /// Those of threads in the table.
    Threads,
    /// Those in and below the control group with this id, at this depth.
    Cgroup {
        /// Its id.
        id: u64,
        /// 0 for the root.
        level: u32,
    },
}

/// What all programs of a recording have in common.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes of the rings.
    pub geometry: Geometry,
    /// Where things lie in the state map.
    pub layout: Layout,
    /// Whose events are recorded.
    pub selection: Selection,
    /// What is in the word [`crate::state::ENABLED`] while the programs are the ones that record.
    pub generation: u32,
    /// What the kernel says of its types.
    pub facts: Option<Facts>,
    /// How the recorder sees threads, if it has other ids for them than the kernel.
    pub namespace: Option<Namespace>,
}

/// A program, and how it is loaded and attached.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The instructions.
    pub insns: Vec<Insn>,
    /// Bytes of a table of its own, which is the map behind the filters' ones.
    pub table: Option<Vec<u8>>,
}
