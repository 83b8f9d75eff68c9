//! Events of the kernel, recorded by eBPF programs that are generated for each recording.
//!
//! ```text
//! catalog, probes ─▶ Event ─ generate ─▶ program ─ load, attach ─▶ ring ─▶ daemon
//! ```
//! [`session::Kernel`] is a recording: what the daemon asks for goes through it. [`rules::Rules`] makes filters of
//! rules, [`dump`] the state of the system at the start.
//!
//! The arrows between the modules lead one way:
//!
//! | module | names |
//! |---|---|
//! | `error`, `privilege` | nothing else |
//! | `map`, `load` | those |
//! | `threads`, `births`, `stubs`, `attach`, `rules` | those, and maps or programs |
//! | `session` | all of them |
#![forbid(unsafe_code)]

pub mod attach;
pub mod births;
pub mod dump;
mod error;
pub mod load;
pub mod map;
pub mod privilege;
pub mod rules;
pub mod session;
mod stubs;
pub mod threads;

pub use error::Error;
