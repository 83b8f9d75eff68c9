//! Events of the kernel, recorded by eBPF programs that are generated for each recording.
//!
//! ```text
//! catalogue ─▶ Event ─ generate (select, filter, fields, ring) ─▶ program ─ load, attach ─▶ ring ─▶ daemon
//! ```
#![forbid(unsafe_code)]

pub mod attach;
pub mod births;
pub mod catalog;
pub mod cooperate;
pub mod dump;
pub mod event;
pub mod generate;
pub mod load;
pub mod map;
pub mod privilege;
pub mod probe;
pub mod rules;
pub mod session;
pub mod stack;
pub mod threads;
