//! x86-64. See [`crate::arch`] for what each item is.

mod join;
#[cfg(not(feature = "tested-byte"))]
mod site;
