//! Programs of eBPF, made for the events of one recording.
//!
//! # A program
//! ```text
//! whose turn?  selected?  filter  claim a ring  reserve  header, fields  commit  release
//! ```
//! Programs at tracepoints are not preempted; they are interrupted by programs on the same CPU, which end before they go on. So plain loads and stores
//! do for the claim: a word for each ring says that a program is writing to it; the one that interrupts finds it set and takes the ring of the second
//! level. The time is read after the claim, so that times in a ring never decrease. The rest is the protocol of `mote_ring::rseq_writer`: bytes
//! behind `pos`, then `pos`. Programs at probes of code can be preempted: they claim by an exchange.
//!
//! # Registers
//! `r6` context (in programs of system calls: the registers of the process), `r7` control words of the ring, `r8` where the record is
//! written, `r9` the thread's entry (or 0). `r0` to `r5` are scratch everywhere.
//!
//! Layout of the stack: [`slot`].

pub(crate) mod code;
mod copy;
pub(crate) mod facts;
mod field;
mod filter;
pub(crate) mod ids;
mod inline;
mod many;
pub(crate) mod operand;
pub(crate) mod own;
mod record;
mod select;
mod single;
mod socket;
mod syscalls;
mod value;
pub(crate) mod watch;

pub use facts::Facts;
pub(crate) use many::many;
pub(crate) use single::{accesses, single};
pub(crate) use syscalls::{Side, asks_duration, syscalls};

use crate::map::Layout;
use mote_bpf::Insn;
use mote_ring::Geometry;

/// Most words that a filter may look at.
pub const FILTER_WORDS_MAX: usize = 20;

/// Numbers of the kernel's functions for programs (linux/bpf.h).
pub(crate) mod helper {
    pub(crate) const KTIME_GET_NS: u32 = 5;
    pub(crate) const TAIL_CALL: u32 = 12;
    pub(crate) const GET_SMP_PROCESSOR_ID: u32 = 8;
    pub(crate) const GET_CURRENT_PID_TGID: u32 = 14;
    pub(crate) const GET_CURRENT_COMM: u32 = 16;
    pub(crate) const GET_STACK: u32 = 67;
    pub(crate) const PROBE_READ_USER: u32 = 112;
    pub(crate) const PROBE_READ_KERNEL: u32 = 113;
    pub(crate) const PROBE_READ_USER_STR: u32 = 114;
    pub(crate) const PROBE_READ_KERNEL_STR: u32 = 115;
    pub(crate) const GET_CURRENT_ANCESTOR_CGROUP_ID: u32 = 123;
    pub(crate) const GET_CURRENT_TASK_BTF: u32 = 158;
    pub(crate) const GET_ATTACH_COOKIE: u32 = 174;
}

/// Offsets from `r10`.
pub(crate) mod slot {
    /// The word that is cleared when the ring is released.
    pub(crate) const CLAIM: i16 = -8;
    /// The running thread's id.
    pub(crate) const TID: i16 = -16;
    /// `pos` at which the record begins.
    pub(crate) const POS: i16 = -24;
    /// The time, once it was read.
    pub(crate) const TIME: i16 = -32;
    /// What the system call returned.
    pub(crate) const RESULT: i16 = -40;
    /// The context, where `r6` is something else.
    pub(crate) const CONTEXT: i16 = -48;
    /// The event id, where one program serves many.
    pub(crate) const ID: i16 = -56;
    /// Where the record begins.
    pub(crate) const START: i16 = -64;
    /// The ring's scratch area.
    pub(crate) const SCRATCH: i16 = -72;
    /// When the system call began.
    pub(crate) const BEGAN: i16 = -80;
    /// For any value on its way; the second word is for operands, for the length of a socket address, and for the seconds of a time.
    pub(crate) const VALUE: i16 = -88;
    /// Process and thread as the recorder sees them, for a filter; the second word of [`VALUE`] is free then. Behind the words: a filter finds it from there.
    pub(crate) const SEEN: i16 = WORDS + 8 * super::FILTER_WORDS_MAX as i16;
    /// The words of a filter. What is below belongs to the filter's own frame.
    pub(crate) const WORDS: i16 = -256;
}

/// Whose events programs record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Everybody's.
    All,
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
pub(crate) struct Plan {
    pub(crate) geometry: Geometry,
    pub(crate) layout: Layout,
    pub(crate) selection: Selection,
    /// What is in the word [`crate::map::ENABLED`] while the programs are the ones that record.
    pub(crate) generation: u32,
    /// What the kernel says of its types.
    pub(crate) facts: Option<Facts>,
    /// How the recorder sees threads, if it has other ids for them than the kernel.
    pub(crate) seen: Option<ids::Seen>,
}

/// Numbers of the maps in each program; filters' maps and tables follow.
pub(crate) mod map_number {
    /// [`crate::map::State`]
    pub(crate) const STATE: u32 = 0;
    /// The rings.
    pub(crate) const RINGS: u32 = 1;
    /// The programs that take this one's place, when its generation is over.
    pub(crate) const NEXT: u32 = 2;
    /// The first of the filters' maps.
    pub(crate) const FILTERS: u32 = 3;
}

/// A program, and how it is loaded and attached.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    pub(crate) insns: Vec<Insn>,
    /// Bytes of a table of its own, which is the map behind the filters' ones.
    pub(crate) table: Option<Vec<u8>>,
}
