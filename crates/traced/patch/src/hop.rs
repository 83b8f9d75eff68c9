//! Whether the gate `Hop` may be used: two bytes of code that others execute are stored at once.
//!
//! Where the processor's vendor promises that others fetch the old or the new ones, it may ([`arch::is_hop_promised`]).
//! Elsewhere the user has to ask for it.

use crate::arch;
use core::sync::atomic::{AtomicU8, Ordering};

/// Where a short jump may take the place of a breakpoint that would kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hops {
    /// Where the processor's vendor promises that it works. The default.
    Promised = 0,
    /// Everywhere.
    Always = 1,
    /// Nowhere.
    Never = 2,
}

static HOPS: AtomicU8 = AtomicU8::new(Hops::Promised as u8);

/// Sets where sites may be changed by a two-byte store while a breakpoint would kill. Those that may not are refused
/// ([`crate::Refusal::Blocked`]).
pub fn set_hops(hops: Hops) {
    HOPS.store(hops as u8, Ordering::Relaxed);
}

/// Whether the gate may be used.
pub(crate) fn may_hop() -> bool {
    match HOPS.load(Ordering::Relaxed) {
        0 => arch::is_hop_promised(),
        1 => true,
        _ => false,
    }
}
