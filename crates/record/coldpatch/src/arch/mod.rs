//! The seam for the processor: its calls, jumps and NOPs, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `ARCHITECTURE` | how files call it |
//! | `uses` | the instructions of a section that call hooks, jump to them, or take their addresses |
//! | `thunks` | the entries of the linker's tables that lead to hooks |
//! | `replacement` | what takes the place of a call, or of a jump |
//! | `nops`, `nop`, `entry_nop`, `sled` | how many bytes do nothing |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{ARCHITECTURE, entry_nop, nop, nops, replacement, sled, thunks, uses};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-coldpatch does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
