//! x86-64.

mod nop;
mod uses;

pub(crate) use nop::{entry_nop, nop, nops, replacement, sled};
pub(crate) use uses::{thunks, uses};

/// How files call it.
pub(crate) const ARCHITECTURE: object::Architecture = object::Architecture::X86_64;
