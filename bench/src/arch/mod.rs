//! The seam for the processor: all that the figures know of one lies in its file, by the same names for each.
//!
//! | item | what a processor's file gives |
//! |---|---|
//! | `write_two`, `write_none` | the bare restartable sequence that writes a record of two fields, or of none, into the ring of the thread's CPU |
//!
//! A second processor is a second file, and its line in the list below.

use std::sync::atomic::AtomicU64;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{write_none, write_two};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-bench does not know this processor: add src/arch/NAME.rs with what src/arch/mod.rs lists"
);

/// One CPU's ring, as the sequences read it.
#[repr(C, align(64))]
pub(crate) struct Ring {
    pub(crate) pos: AtomicU64,
    pub(crate) limit: AtomicU64,
    pub(crate) data: *mut u8,
    pub(crate) mask: u64,
}
