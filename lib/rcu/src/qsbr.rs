//! Readers that say when they are in no section: quiescent states (thesis, figures 6.4 and 6.5).
//!
//! A thread's word is the grace period that it has noticed last, 0 when it is offline. The counter has 64 bits, so one
//! phase is enough: a thread that stores a value read long ago only looks older than it is.
//!
//! # Ordering (letters of [`crate::domain`])
//! A. `online` stores the word, then fences: as long as it is offline for an updater, the section must not have begun.
//!    `quiescent` needs no fence: while its store is on the way, the thread only looks older than it is.
//! B. Each store releases the sections before it.
//! D. `gp` is stored behind the updater's fence and read with acquire: what was done before a grace period is seen by
//!    sections that begin after the thread has noticed that grace period.

use crate::domain::{Domain, Protocol};
use crate::slot::{GUARDED, Slot};
use mote_sync::atomic::{AtomicUsize, Ordering, fence};

/// The word of a thread that is offline.
pub(crate) const OFFLINE: usize = 0;

/// Grace periods by quiescent states.
#[derive(Debug)]
pub enum QuiescentStates {}

impl Protocol for QuiescentStates {
    const FIRST: usize = GUARDED;
    const PHASES: u64 = 1;

    fn advance(gp: &AtomicUsize) -> usize {
        // D: the fence of all, just before, releases.
        gp.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    fn is_old(word: usize, gp: usize) -> bool {
        word != OFFLINE && word != gp
    }

    fn fence_all(_: &Domain<Self>, _: Option<&Slot>) {
        fence(Ordering::SeqCst);
    }
}

/// Says that the owner of `slot` is in no section at this moment.
#[inline]
pub(crate) fn quiescent(slot: &Slot, gp: &AtomicUsize) {
    // D.
    let gp = gp.load(Ordering::Acquire);
    if slot.word.load(Ordering::Relaxed) != gp {
        // B.
        slot.word.store(gp, Ordering::Release);
    }
}

/// Says that the owner of `slot` is in no section until [`online`].
#[inline]
pub(crate) fn offline(slot: &Slot) {
    // B.
    slot.word.store(OFFLINE, Ordering::Release);
}

/// From here on the owner of `slot` may be in a section at any moment.
#[inline]
pub(crate) fn online(slot: &Slot, gp: &AtomicUsize) {
    slot.word.store(gp.load(Ordering::Relaxed), Ordering::Release);
    // A.
    fence(Ordering::SeqCst);
}
