//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `RSEQ_SIGNATURE` | what the kernel expects in front of an abort handler |
//! | `thread_pointer` | the thread pointer, which thread-local words lie beside |
//! | `load_word!`, `store_word!` | access to a thread-local word of [`define_word!`](crate::define_word) |
//!
//! A second processor is a second folder, and its line in the list below. [`sections`] holds assembly of directives
//! only, which is the same for all of them.

mod sections;
pub(crate) use sections::define_shared_word;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-sync does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
