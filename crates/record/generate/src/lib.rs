//! Programs of eBPF, made for the events of one recording.
//!
//! # A program
//! ```text
//! whose turn?  selected?  filter  claim a ring  reserve  header, fields  commit  release
//! ```
//! Programs at tracepoints are not preempted; they are interrupted by programs on the same CPU, which end before they
//! go on. So plain loads and stores do for the claim: a word for each ring says that a program is writing to it; the
//! one that interrupts finds it set and takes the ring of the second level. The time is read after the claim, so that
//! times in a ring never decrease. The rest is the protocol of `mote_ring::rseq_writer`: bytes behind `pos`, then
//! `pos`. Programs at probes of code can be preempted: they claim by an exchange.
//!
//! # Registers
//! `r6` context (in programs of system calls: the registers of the process), `r7` control words of the ring, `r8` where
//! the record is written, `r9` the thread's entry (or 0). `r0` to `r5` are scratch everywhere.
//!
//! Layout of the stack: [`slot`].
#![forbid(unsafe_code)]

mod access;
pub mod arch;
pub mod births;
mod chosen;
mod code;
mod copy;
mod error;
mod facts;
mod field;
mod filter;
mod ids;
mod inline;
mod map_number;
pub mod multi_probe;
pub mod namespace;
pub mod one_event;
mod operand;
mod plan;
mod record;
mod relocate;
mod select;
mod slot;
mod sockaddr;
mod stack;
pub mod stack_copy;
pub mod state;
pub mod stubs;
pub mod syscalls;
pub mod test_run;
pub mod thread_programs;
pub mod threads;
mod value;

pub use access::Access;
pub use chosen::{Chosen, Filter, Outcome};
pub use error::Error;
pub use facts::Facts;
pub use plan::{Generated, Plan, Selection};
pub use select::names_threads;

/// Most words that a filter may look at.
pub const FILTER_WORDS_MAX: usize = 20;
