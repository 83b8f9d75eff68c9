//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `__switch!` | the instruction that an event's site is while the event is off, and its record (`mote_layout::site`) |
//! | section `mote_join` | the code that a recorder sends a thread to, and its record (`mote_layout::join`) |
//!
//! A second processor is a second folder, and its line in the list below. `sections` holds what is the same for all of
//! them.

mod sections;

pub(crate) use sections::keep_in_memory;

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("mote-trace does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists");
