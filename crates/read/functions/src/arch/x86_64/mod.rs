//! x86-64.

mod targets;
mod way;

pub(crate) use targets::targets;
pub(crate) use way::ways;

/// How files call it.
pub(crate) const ARCHITECTURE: object::Architecture = object::Architecture::X86_64;
