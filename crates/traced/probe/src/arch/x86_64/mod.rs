//! x86-64. See [`crate::arch`] for what each item is.

mod join;
#[cfg(not(feature = "tested-byte"))]
mod site;
mod text;

pub(crate) use text::{is_in_one_page, short_text};
