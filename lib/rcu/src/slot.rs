//! What one registered thread shows to updaters: one word, and which one it is.
//!
//! # State
//! `word`, of the flavours whose readers mark their sections ([`crate::phases`]):
//! - bit 0 (`PHASE`): the grace-period phase in which the outermost section began.
//! - bit 1 (`FENCE`): readers must fence by themselves, because updaters cannot do it for them.
//! - bits 2..10: sections that were begun without a guard ([`crate::library::enter`]): they end with their thread.
//! - bits 10..64: sections with a guard. A thread that has leaked one may have given what it protects to other threads,
//!   for ever.
//!
//! `word` of QSBR ([`crate::qsbr`]): 0 when offline, else the last grace period that the thread has noticed, counted
//! from `GUARDED` on: an online thread may have a guard.
//!
//! `owner`: bits 0..32 the thread's id, 0 when it is no thread's; bits 32..64 count the owners.
//! # Who may touch what
//! 1. `word` belongs to the owner and its signal handlers; a reaper may clear it once the owner is dead.
//! 2. `owner` leaves 0 only by the thread that has taken the slot's bit in its chunk.
//! 3. `need_fence` is set by updaters, cleared by the owner's handler ([`crate::signals`]).
//! # Ordering
//! A. Each store of `word` releases: an updater that sees it has everything before it behind it.

use mote_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The grace-period phase.
pub(crate) const PHASE: usize = 1 << 0;
/// Readers must fence by themselves.
pub(crate) const FENCE: usize = 1 << 1;
/// A section without a guard; all words from here on are in some. Too many at once look like one with a guard, which
/// is on the safe side.
pub(crate) const BARE: usize = 1 << 2;
/// A section with a guard; all words from here on are in some.
pub(crate) const GUARDED: usize = 1 << 10;

/// One thread's place; alone on its pair of cache lines.
#[repr(align(128))]
#[derive(Debug)]
pub struct Slot {
    pub(crate) word: AtomicUsize,
    pub(crate) owner: AtomicU64,
    pub(crate) need_fence: AtomicU32,
}

/// A thread's id beside the number of times that its slot had an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    /// The thread's id, 0 when there is none.
    pub(crate) fn tid(self) -> i32 {
        self.0 as u32 as i32
    }

    fn unowned(self) -> Owner {
        Owner(self.0 & !0xffff_ffff)
    }

    fn next(self, tid: i32) -> Owner {
        Owner((self.unowned().0).wrapping_add(1 << 32) | u64::from(tid as u32))
    }
}

impl Slot {
    crate::const_unless_loom! {
        /// A slot without owner.
        pub(crate) fn new() -> Slot {
            Slot { word: AtomicUsize::new(0), owner: AtomicU64::new(0), need_fence: AtomicU32::new(0) }
        }
    }
}

impl Slot {
    /// The owner now.
    pub(crate) fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Acquire))
    }

    /// Makes `tid` the owner; only for the thread that has taken the slot's bit.
    pub(crate) fn take(&self, tid: i32) {
        self.owner.store(self.owner().next(tid).0, Ordering::Release);
    }

    /// Clears the slot if `owner` still is its owner. The slot's bit is to be given back after that.
    pub(crate) fn clear(&self, owner: Owner) -> bool {
        let (from, to) = (owner.0, owner.unowned().0);
        if self.owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.need_fence.store(0, Ordering::Relaxed);
        // A.
        self.word.store(0, Ordering::Release);
        true
    }

    /// True inside a read section of the owner (QSBR: online).
    pub(crate) fn is_reading(&self) -> bool {
        self.word.load(Ordering::Relaxed) >= BARE
    }

    /// True while the owner has a guard, or may have leaked one.
    pub(crate) fn is_guarded(&self) -> bool {
        // Acquire, as an updater: a thread that is dead has done all that it did.
        self.word.load(Ordering::Acquire) >= GUARDED
    }
}
