//! x86-64. See [`crate::arch`] for what each item is.

mod code;
mod frames;

pub(crate) use code::{can_keep_registers, entry, first_stub, stub};
pub(crate) use frames::{FRAMES_BYTES, frames};
