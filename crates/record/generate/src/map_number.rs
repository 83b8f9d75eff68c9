//! Numbers of the maps in each program; filters' maps and tables follow.

/// The state map ([`crate::state`]).
pub(crate) const STATE: u32 = 0;
/// The rings.
pub(crate) const RINGS: u32 = 1;
/// The programs that take this one's place, when its generation is over.
pub(crate) const NEXT: u32 = 2;
/// The first of the filters' maps.
pub(crate) const FILTERS: u32 = 3;
