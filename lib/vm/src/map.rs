//! Maps: values that programs and tools share, in memory that processes share.
//!
//! All of a map lies in one range of memory, without addresses in it, so that each process may have it elsewhere. The
//! shape is the caller's own and never read from there; whatever the memory holds, nothing outside of the range is
//! touched, no thread waits for another, and each operation ends. Fresh memory, all zeros, is an empty map.
//!
//! | module | job |
//! |---|---|
//! | [`memory`] | the range, as words; the one place with pointers |
//! | [`place`] | where things lie |
//! | [`hash`], [`link`], [`key`], [`lru`] | entries by key |
//! | [`array`] | values by index |
//! | [`ring`], [`consumer`] | records in order |
//! | [`programs`] | programs by index, for tail calls |
//! | [`outside`] | maps from the outside: what tools do with them |

#[cfg(not(loom))]
pub(crate) mod array;
#[cfg(not(loom))]
pub(crate) mod consumer;
pub(crate) mod hash;
pub(crate) mod key;
pub(crate) mod link;
pub(crate) mod lru;
pub(crate) mod memory;
#[cfg(loom)]
pub mod model;
#[cfg(not(loom))]
mod outside;
pub(crate) mod place;
#[cfg(not(loom))]
pub(crate) mod programs;
pub(crate) mod ring;

#[cfg(not(loom))]
pub use consumer::{Consumer, Next};
#[cfg(not(loom))]
pub use outside::{Cursor, Map, MapError, Update};
pub use place::COPIES;
#[cfg(not(loom))]
pub use programs::ProgramSlot;
