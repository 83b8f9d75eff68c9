//! x86-64. See [`crate::arch`] for what each item is.

mod access;
mod registers;
#[cfg(test)]
mod testing;

pub(crate) use access::{load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64};
pub(crate) use registers::{fail_access, in_program, leave_program};
#[cfg(test)]
pub(crate) use testing::{RETURNS_ONE, changed_registers, scramble};
