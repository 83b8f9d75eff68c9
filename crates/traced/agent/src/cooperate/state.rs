//! The state of the calling thread, as filters read it.

use super::slot;
use core::sync::atomic::AtomicU64;
use mote_layout::cooperation::READABLE_BYTES;

/// What a filter reads when its thread has no slot: zeros, which are never written. Atomics, so that they take no place
/// in the program's file.
#[repr(C, align(64))]
pub(super) struct Nothing(pub(super) [AtomicU64; READABLE_BYTES / 8]);
const _: () = assert!(READABLE_BYTES.is_multiple_of(8));
pub(super) static NOTHING: Nothing = Nothing([const { AtomicU64::new(0) }; READABLE_BYTES / 8]);

/// Address of `READABLE_BYTES` for a filter: the state of the calling thread, and what lies behind it in its slot; or
/// zeros.
#[inline(always)]
pub(crate) fn state() -> u64 {
    match slot() {
        Some(slot) => (&raw const slot.state).expose_provenance() as u64,
        None => NOTHING.0.as_ptr().expose_provenance() as u64,
    }
}
