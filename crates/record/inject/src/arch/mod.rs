//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `can_keep_registers` | whether the processor has what `probe`'s code keeps a thread's registers with |
//! | `KEEPS_REGISTERS` | what that is, for people |
//! | `Registers` | the registers of a stopped thread: its call, and where it goes |
//! | `BREAKPOINT` | an instruction that stops a traced thread |
//! | `visit` | the code that loads a library into a program that has none of ours, and where in it things are |
//! | `track` | the code that makes a userfaultfd(2) there |
//! | `is_signal_frame` | whether a word of a stack shows that a signal's frame is there |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    BREAKPOINT, KEEPS_REGISTERS, Registers, can_keep_registers, is_signal_frame, track, visit,
};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-inject does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
