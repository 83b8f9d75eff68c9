//! Memory that cannot be read: a program ends with a fault, the process goes on.
//!
//! | module | job |
//! |---|---|
//! | `access` | loads, stores and a copy that return a fault: for the interpreter and for helpers |
//! | `image` | which addresses are machine code of programs, and how their frames are undone |
//! | `handler` | SIGSEGV and SIGBUS: sends the thread on when it was in one of the two |
//! | `chain` | hands all other signals on to the handler that was there before |
//!
//! # Parties
//! Loaders of programs, which install the handler and register images. Threads that run programs. The handler, on such
//! a thread, at the instruction that failed. The traced program, with handlers and masks of its own.
//!
//! # What a fault costs
//! Nothing, when there is none: no check, no state. Else one signal, about 1.5 us.
//!
//! # Limit
//! The kernel kills a thread that faults while it blocks the signal. So a thread that blocks SIGSEGV, and passes a bad
//! pointer to an event with a filter that looks at it, dies there, as it would in its own code.

mod access;
mod chain;
mod handler;
mod image;

pub(crate) use access::{
    copy, load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64,
};
pub(crate) use handler::watch;
pub use handler::watch_clock;
pub(crate) use image::{Image, MAX as IMAGES_MAX, frames_at};

/// Why a program ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Fault {
    /// It touched memory that is not there.
    Memory = 1,
    /// It took more steps than it may; only of programs that were not verified.
    Steps = 2,
}

impl Fault {
    /// The fault that an engine returned, by its code, which is not 0.
    pub const fn from_code(code: u64) -> Fault {
        if code == Fault::Steps as u64 { Fault::Steps } else { Fault::Memory }
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Fault::Memory => "the program touched memory that is not there",
            Fault::Steps => "the program took too many steps",
        })
    }
}

impl core::error::Error for Fault {}

#[cfg(test)]
mod tests;
