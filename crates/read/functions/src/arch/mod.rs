//! The seam for the processor: what its instructions allow, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `ARCHITECTURE` | how files call it |
//! | `Targets`, `targets` | the places inside of functions that something may jump to |
//! | `ways` | how a function's entry can be probed, and how where that finds no memory |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{ARCHITECTURE, targets, ways};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-functions does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
