//! The seam for the processor: how its code is moved and jumped to, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `PAGE` | bytes of the smallest page |
//! | `Entry` | the first instructions of a function: candidates for a probe, their copies |
//! | `Candidate`, `Reach` | one way to put a probe there, and where its jump may lead |
//! | `BODY_AT` | bytes before a body |
//! | `jump`, `trap` | what is written over a function |
//! | `stub`, `STUB_BYTES` | a jump from where a function's jump can lead to its body |
//! | `Arguments`, `result`, `declared` | where arguments and results are: by the convention, as DWARF says |
//! | `some_place` | where a copy has as many bytes as where it will be |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-trampolines does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
