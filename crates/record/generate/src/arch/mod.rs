//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `CALL_ARGUMENTS`, `CALL_NUMBER` | offsets in `struct pt_regs` of the arguments and the number of a system call |
//! | `RETURNED` | offset of what a function returned |
//! | `ABI_WORD`, `OTHER_ABI` | the member of `task_struct` of which bits say that its system call is of another ABI, and the bits |
//! | `STACK_REGISTERS` | offsets in `struct pt_regs` of frame pointer, stack pointer, instruction pointer |
//! | `USER_CODE` | offset of 16 bits in `struct pt_regs`, and what they are in a program of this processor's usual kind |
//! | `THREAD_POINTER` | the member of `task_struct` with the thread pointer, above which thread libraries have no stack |
//! | `PREEMPT_COUNT` | the variable of each CPU that says whether an interrupt is served, where it is one |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-generate does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
