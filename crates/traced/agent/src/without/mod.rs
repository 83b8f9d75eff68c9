//! What is in the place of filters in a program that is built without them (without the feature `filters`), to be
//! small: modules of the same names with nothing in them. The session is told that each filter was refused.
//!
//! Everything else is as with filters: a bundle also says which events are on, and several sessions may record an
//! event.

mod clock;
pub(crate) mod filter;
pub(crate) mod loader;
pub(crate) mod shared;
pub(crate) mod speculation;
