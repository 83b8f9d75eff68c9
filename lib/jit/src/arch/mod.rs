//! The seam for the processor: an emitter for each, by the same names. All of them are there on every machine, so that
//! each is tested everywhere; [`native`] is the one whose code this machine runs.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `bytes_max` | most bytes of code of a program |
//! | `compile` | machine code of a program, with the frames of its functions |
//! | `Registers` | what a frame says something of, for `vm`: `ip` and `caller` (x86-64 only so far) |

pub mod aarch64;
pub mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64 as native;
#[cfg(target_arch = "x86_64")]
pub use x86_64 as native;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "mote-trace-jit has no emitter for this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
