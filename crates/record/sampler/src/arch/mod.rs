//! The seam for the processor: what unwinding needs to know of it.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `REGISTERS` | how many registers samples have (`mote_sys::perf`) |
//! | `Registers` | these registers, as the unwinder takes them; those that a signal has interrupted |
//! | `RESTORER` | the code to which handlers of signals return |
//! | `moved` | where in a function a thread is that is in the code between it and its probe; `AROUND`: what it takes |

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{AROUND, Moved, REGISTERS, RESTORER, Registers, moved};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-sampler does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
