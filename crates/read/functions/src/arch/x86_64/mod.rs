//! x86-64.

mod targets;
mod way;

pub(crate) use targets::{Targets, targets};
pub use way::ends;
pub(crate) use way::{pad, padding, ways, window};

/// How files call it.
pub(crate) const ARCHITECTURE: object::Architecture = object::Architecture::X86_64;
