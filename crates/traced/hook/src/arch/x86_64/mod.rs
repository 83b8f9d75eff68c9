//! x86-64. See [`crate::arch`] for what each item is.

mod code;
mod counting;
mod finder;
mod frames;
mod kept;

pub(crate) use code::{
    RETURNS_AT, can_keep_registers, copy_at, entry, entry_below, entry_counted_below, entry_counted_both,
    entry_counted_both_below, entry_sampled, entry_with_values, entry_with_values_below, first_stub, stub,
};
pub(crate) use counting::{COUNTING_AT, copy_counting, entry_counted};
pub(crate) use finder::{finder, tops};
pub(crate) use frames::{FRAMES_BYTES, frames};
pub(crate) use kept::{General, Kept, Vectors};
