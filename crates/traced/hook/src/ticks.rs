//! From the time-stamp counter to nanoseconds.

use core::sync::atomic::{AtomicU64, Ordering};

/// A tick's nanoseconds, in units of 2^-32.
static TICK: AtomicU64 = AtomicU64::new(0);

/// Notes a tick's nanoseconds.
pub(crate) fn set_tick(tick: u64) {
    TICK.store(tick, Ordering::Relaxed);
}

/// A tick's nanoseconds, in units of 2^-32.
pub(crate) fn tick() -> u64 {
    TICK.load(Ordering::Relaxed)
}

/// So many ticks in nanoseconds.
pub(crate) fn nanoseconds(ticks: u64) -> u64 {
    let product = u128::from(ticks) * u128::from(tick());
    (product >> 32) as u64
}
