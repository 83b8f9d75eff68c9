//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `can_keep_registers` | whether the processor has what `probe`'s code keeps a thread's registers with |
//! | `KEEPS_REGISTERS` | what that is, for people |
//! | `Registers` | the registers of a stopped thread: its call, and where it goes |
//! | `BREAKPOINT` | an instruction that stops a traced thread |
//! | `visit` | the code that loads a library into a program that has none of ours, and where in it things are |
//! | `descriptor` | the code that makes a descriptor there, and system calls by a list in what it is of |
//! | `counting` | the code that counts a call where no library of ours is |
//! | `is_signal_frame` | whether a word of a stack shows that a signal's frame is there |
//! | `interrupted` | what signals have interrupted whose frames are on a stack |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    BREAKPOINT, KEEPS_REGISTERS, Registers, can_keep_registers, counting, descriptor, interrupted,
    is_signal_frame, visit,
};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-inject does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
