//! Readers that mark their sections: general, expedited, signal, library (thesis, figures 6.6 and 6.8).
//!
//! # Ordering (letters of [`crate::domain`])
//! A. The outermost `enter` stores the word, then fences: the general flavour always, the others only when `gp` says so
//!    (`FENCE`); otherwise the compiler keeps the order, and the updater makes the processor keep it.
//! B. `enter` and `exit` store with release, which costs nothing on x86.
//!
//! # Signals
//! A handler that reads between the load and the store of `enter` leaves the nesting as it was, and a phase that the
//! store replaces. Between the load and the store of `exit` it leaves the word as it was. One that comes between the
//! store and the fence of the outermost `enter` (general flavour) takes the nested way, without a fence: the kernel's
//! delivery of the signal is one.

use crate::domain::{Domain, Protocol};
use crate::slot::{BARE, FENCE, GUARDED, PHASE, Slot};
use mote_sync::atomic::{AtomicUsize, Ordering, fence};

/// Which side orders a reader's store of its word before its section.
pub(crate) trait Order {
    /// Runs behind the store; `gp` is what was stored.
    fn order(gp: usize);
}

/// The reader itself.
#[derive(Debug)]
pub(crate) enum ByReader {}

impl Order for ByReader {
    #[inline(always)]
    fn order(_: usize) {
        fence(Ordering::SeqCst);
    }
}

/// The updater, unless `gp` says that it cannot.
#[derive(Debug)]
pub(crate) enum ByUpdater {}

impl Order for ByUpdater {
    #[inline(always)]
    fn order(gp: usize) {
        if gp & FENCE != 0 {
            // In place: a call would cost every reader the registers that it clobbers.
            core::hint::cold_path();
            fence(Ordering::SeqCst);
        }
        #[cfg(not(loom))]
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        #[cfg(loom)]
        fence(Ordering::SeqCst);
    }
}

/// Begins a section of the thread that owns `slot`, of a `KIND`: [`BARE`] or [`GUARDED`].
#[inline(always)]
pub(crate) fn enter<O: Order, const KIND: usize>(slot: &Slot, gp: &AtomicUsize) {
    let word = slot.word.load(Ordering::Relaxed);
    if word < BARE {
        let gp = gp.load(Ordering::Relaxed);
        // `gp` has one guarded section in it, which is what most begin. B.
        slot.word.store(gp.wrapping_sub(GUARDED - KIND), Ordering::Release);
        // A.
        O::order(gp);
    } else {
        core::hint::cold_path();
        // Inside a section already: no thread looks at more than that.
        slot.word.store(word.wrapping_add(KIND), Ordering::Release);
    }
}

/// Ends a section, of a `KIND`, of the thread that owns `slot`. Sections end in any order.
#[inline(always)]
pub(crate) fn exit<const KIND: usize>(slot: &Slot) {
    let word = slot.word.load(Ordering::Relaxed);
    // B.
    slot.word.store(word.wrapping_sub(KIND), Ordering::Release);
}

/// Begins a section of a thread that has no slot, and returns the phase it is counted in.
pub(crate) fn enter_as_guest<P>(domain: &Domain<P>) -> usize {
    let phase = usize::from(domain.gp.load(Ordering::Relaxed) & PHASE != 0);
    if let Some(guests) = domain.registry.guests.get(phase) {
        guests.fetch_add(1, Ordering::Release);
    }
    // A.
    fence(Ordering::SeqCst);
    phase
}

/// Ends a section of a thread that has no slot.
pub(crate) fn exit_as_guest<P>(domain: &Domain<P>, phase: usize) {
    if let Some(guests) = domain.registry.guests.get(phase) {
        // B.
        guests.fetch_sub(1, Ordering::Release);
    }
}

/// The grace periods of all flavours whose readers mark their sections, but for [`Protocol::fence_all`].
pub(crate) mod protocol {
    use super::{AtomicUsize, BARE, Ordering, PHASE};

    pub(crate) const PHASES: u64 = 2;

    pub(crate) fn advance(gp: &AtomicUsize) -> usize {
        gp.fetch_xor(PHASE, Ordering::Relaxed) ^ PHASE
    }

    pub(crate) fn is_old(word: usize, gp: usize) -> bool {
        word >= BARE && (word ^ gp) & PHASE != 0
    }
}

/// The general flavour's: each reader fences.
#[derive(Debug)]
pub enum FenceInReader {}

impl Protocol for FenceInReader {
    const FIRST: usize = GUARDED;
    const PHASES: u64 = protocol::PHASES;

    fn advance(gp: &AtomicUsize) -> usize {
        protocol::advance(gp)
    }

    fn is_old(word: usize, gp: usize) -> bool {
        protocol::is_old(word, gp)
    }

    fn fence_all(_: &Domain<Self>, _: Option<&Slot>) {
        fence(Ordering::SeqCst);
    }
}
