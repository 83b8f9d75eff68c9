//! x86-64. See [`crate::arch`] for what each item is.

mod unwind;
