//! The seam for the processor: how frames describe where a function begins, and what the kernel says of threads.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `RETURN_ADDRESS`, `STACK_POINTER` | the registers' numbers in DWARF |
//! | `ENTRY_OFFSET` | bytes between the stack pointer and a function's frame when it begins |
//! | `has_shadow_stack` | whether a process's status says that the processor checks where functions return to |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{ENTRY_OFFSET, RETURN_ADDRESS, STACK_POINTER, has_shadow_stack};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-symbol does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
