//! The seam for the processor: what its instructions allow, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `ARCHITECTURE` | how files call it |
//! | `Targets`, `targets` | the places inside of functions that something may jump to |
//! | `ways` | how a function's entry can be probed, and how where that finds no memory |
//! | `window` | the instructions at a function's entry that a jump would lie over |
//! | `padding` | what lies behind a function and is never run |
//! | `ends` | whether nothing behind an instruction is run |
//! | `pad` | where the placeholder is that was written into the file for a function |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::ends;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{ARCHITECTURE, Targets, pad, padding, targets, ways, window};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-functions does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
