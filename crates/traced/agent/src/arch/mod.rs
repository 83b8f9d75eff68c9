//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `load_word_at`, `store_word_at` | access to one word of `mote_thread_speculation`, by its index |
//! | `registers` | frame pointer, stack pointer and instruction pointer of the function that it is inlined into |
//! | `Interrupted` | what `probe`'s code for threads that were sent keeps of one: `mask`, `nonce`, `end_call` |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-agent does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
