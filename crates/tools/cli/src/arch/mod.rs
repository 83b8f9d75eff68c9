//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `disassemble` | the first instruction of machine code: its bytes, and its text |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::disassemble;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("mote-cli does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists");
