//! x86-64.

mod nop;
mod pad;
mod uses;

pub(crate) use nop::{entry_nop, nop, nops, replacement, sled};
pub(crate) use pad::{
    JUMP_BYTES, NEVER_RUN, PAD_ALIGNMENT, PLACEHOLDER, Pad, SHORT_BYTES, jump, pad, short_jump, short_reach,
};
pub(crate) use uses::{thunks, uses};

/// Bytes of a page, and the alignment of what is added to files.
pub(crate) const PAGE: u64 = 4096;
/// How files call it.
pub(crate) const ARCHITECTURE: object::Architecture = object::Architecture::X86_64;
