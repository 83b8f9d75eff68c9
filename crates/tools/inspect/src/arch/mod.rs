//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `MACHINE`, `MACHINE_NAME` | whose binaries can carry mote: the number in an ELF header, and for messages |
//! | `SITE_BYTES`, `state_of` | the length of a site in code, and what its bytes say of it |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{MACHINE, MACHINE_NAME, SITE_BYTES, state_of};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-inspect does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
