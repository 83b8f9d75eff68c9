//! x86-64 (System V ABI, AMD64, 3.6.2). See [`crate::arch`] for what each item is.

use gimli::{Register, X86_64};

pub(crate) const RETURN_ADDRESS: Register = X86_64::RA;
pub(crate) const STACK_POINTER: Register = X86_64::RSP;
/// The return address.
pub(crate) const ENTRY_OFFSET: i64 = 8;
