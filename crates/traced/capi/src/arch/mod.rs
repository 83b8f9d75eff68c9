//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `rust_eh_personality` | a symbol: the function that returns `_URC_CONTINUE_UNWIND` |
//!
//! A second processor is a second folder, its line in the list below, and its part of `include/mote.h`. `sections`
//! holds what is the same for all of them.

mod sections;

pub(crate) use sections::keep_constructor;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("mote-capi does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists");
