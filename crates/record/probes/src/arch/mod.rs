//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `MACHINE`, `NAME` | the processor, as ELF files have it and for people |
//! | `LIBRARIES` | directories that the dynamic linker looks into without being told |
//! | `IP`, `SP`, `RETURNED` | offsets of registers in `struct pt_regs`; of what a function returned |
//! | `ARGUMENTS` | offsets of the registers of the first integer arguments |
//! | `STACK_ARGUMENTS` | where the other ones begin when a function does: bytes behind the stack pointer |
//! | `operand` | reads the operand of an argument of a static probe |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-probes does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
