//! x86-64. See [`crate::arch`] for what each item is.

mod code;
mod counting;
mod frames;
mod kept;

pub(crate) use code::{
    can_keep_registers, entry, entry_below, entry_counted_below, entry_counted_both,
    entry_counted_both_below, entry_sampled, entry_with_values, entry_with_values_below, first_stub, stub,
};
pub(crate) use counting::entry_counted;
pub(crate) use frames::{FRAMES_BYTES, frames};
pub(crate) use kept::{General, Kept, Vectors};
