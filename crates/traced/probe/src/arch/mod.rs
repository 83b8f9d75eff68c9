//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `__switch!` | the instruction that an event's site is while the event is off, and its record (`mote_layout::site`) |
//! | `short_text`, `is_in_one_page` | a text of a few bytes as a number, by one load; where that may be done |
//! | section `mote_join` | the code that a recorder sends a thread to, and its record `mote_join_record` (`mote_layout::join`) |
//!
//! A second processor is a second folder, and its line in the list below. `sections` holds what is the same for all of
//! them.

mod sections;

pub use sections::meet;
pub(crate) use sections::{keep_in_memory, keep_join};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{is_in_one_page, short_text};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("mote-trace does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists");
