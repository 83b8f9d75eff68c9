//! The seam for the processor: its restartable sequences, by the same names for each. The protocol is that of
//! [`crate::rseq_writer`].
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `write_words` | writes a record of whole words, with the time of the time-stamp counter |
//! | `direct_none`, `direct_elapsed`, `direct_two`, `direct_packed`, `direct_words`, `direct_pieces` | write a small record where nothing has to be looked at ([`crate::direct`]); true when they have |
//! | `write_fragments` | writes a record of fragments, with that time or the one given |
//! | `switch` | enters the next sub-buffer, or closes this one |
//! | `count_ring_full` | counts an event that a full ring could not take |
//!
//! The others return one of the ends of [`crate::sequence`]. A second processor is a second folder, and its line in the
//! list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-ring has no sequences for this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
