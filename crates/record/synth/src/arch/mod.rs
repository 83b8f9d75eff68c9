//! The seam for the processor: what an instruction is, and where a stopped thread is. Intel PT is of x86-64 only; a
//! processor with another trace would be a folder beside.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `Instruction`, `Kind` | one instruction: its length, and where it may lead |
//! | `PAGE`, `is_fault` | of a guest: bytes of a page; which exceptions have stopped an instruction |
//! | `QEMU`, `QEMU_SYSTEM`, `ELF_MACHINE` | its emulators, and its number in ELF files |
//! | `Registers` | of a stopped thread: where it is, which system call it made, whether a handler begins |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-synth does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
