//! Events of the kernel, recorded by eBPF programs that are generated for each recording.
//!
//! ```text
//! catalogue ─▶ Event ─ generate (select, filter, fields, ring) ─▶ program ─ load, attach ─▶ ring ─▶ daemon
//! ```
#![forbid(unsafe_code)]

pub mod attach;
pub mod births;
pub mod dump;
mod error;
pub mod load;
pub mod map;
pub mod mappings;
pub mod privilege;
pub mod rules;
pub mod session;
pub mod threads;

pub use error::Error;
