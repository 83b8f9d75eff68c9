//! The seam for the processor: its calls, jumps and NOPs, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `ARCHITECTURE` | how files call it |
//! | `PAGE` | bytes of the smallest page |
//! | `uses` | the instructions of a section that call hooks, jump to them, or take their addresses |
//! | `thunks` | the entries of the linker's tables that lead to hooks |
//! | `replacement` | what takes the place of a call, or of a jump |
//! | `nops`, `nop`, `entry_nop`, `sled` | how many bytes do nothing |
//! | `Pad`, `pad`, `PAD_ALIGNMENT` | a placeholder with instructions that were moved there |
//! | `PLACEHOLDER`, `NEVER_RUN` | what is replaced for a probe; what fills the room that nothing runs |
//! | `jump`, `short_jump`, `JUMP_BYTES`, `SHORT_BYTES`, `short_reach` | the ways from a function to its pad |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    ARCHITECTURE, JUMP_BYTES, NEVER_RUN, PAD_ALIGNMENT, PAGE, PLACEHOLDER, Pad, SHORT_BYTES, entry_nop, jump,
    nop, nops, pad, replacement, short_jump, short_reach, sled, thunks, uses,
};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-coldpatch does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
