//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `CALL_NAMES` | system calls that the kernel calls otherwise than its table of numbers does |
//! | `EVENT_NAMES` | the processor's own events that LTTng calls otherwise |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-catalog does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
