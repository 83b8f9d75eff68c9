//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each. What
//! machine code is made of is `mote_jit`'s affair ([`mote_jit::native`]).
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `load_u8` ... `load_u64`, `store_u8` ... `store_u64` | one access each that may fail, with an entry in `mote_faults` |
//! | `fail_access` | the registers as such an access leaves them that has failed |
//! | `in_program` | what a frame of machine code says something of, from the registers of an interrupted thread |
//! | `leave_program` | the registers of the program's caller, and the fault as what the program has returned |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-vm does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
