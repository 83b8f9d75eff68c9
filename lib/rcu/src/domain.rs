//! Grace periods.
//!
//! # Parties
//! Readers ([`crate::phases`], [`crate::qsbr`]) and updaters. One updater at a time, under the lock, moves a grace
//! period on; the others wait for the lock and mostly find that theirs is over when they get it (shared grace periods).
//! # State
//! `seq`: bits 2..64 count the grace periods that are over; bits 0..2 are 0 between them, 1 or 2 in the first or second
//! phase. `gp`: what readers copy into their word when they begin.
//! # Protocol (thesis, figures 6.5, 6.7 and 6.10)
//! 1. `seq` says "begun".
//! 2. A fence for all threads: [`Protocol::fence_all`].
//! 3. `gp` moves on.
//! 4. Wait until no reader is old against `gp`.
//! 5. Where `gp` is one bit, steps 3 and 4 once more: a reader may have read `gp` before the last grace period and have
//!    stored it just now, so that it looks new in one phase. It looks old in the other.
//! 6. `seq` says "over".
//! # Ordering
//! A. Mutations M before `synchronize`, and the fence of step 2, against a reader's store of its word, the fence
//!    behind it, and its section S: if any S runs before any M, the word is seen in step 4.
//! B. Each store of a word releases, step 4 acquires: all S of a section that was waited for run before what follows.
//! C. `seq` is stored with release and read with acquire: B holds for all that share the grace period. In all steps,
//!    not only in 6: a thread that sees that the next one has begun must have the one before behind it (found by loom:
//!    a store that is not a release ends what a release before it has published). A caller's fence lies between its M
//!    and its look at `seq`; a grace period that it may use begins after that look.
//! # Progress
//! `synchronize` blocks on readers and on other updaters. `ticket` is wait-free, `poll` is lock-free: it waits for no
//! thread.
//! # Signals, fork
//! `ticket` and `poll` may be called in handlers, `synchronize` may not: the interrupted code may be a reader, or hold
//! the lock. The child of a fork abandons the grace period that was going on ([`Domain::after_fork`]).

use crate::lock::Lock;
use crate::registry::{Entry, Readers};
use crate::slot::{GUARDED, PHASE, Slot};
use crate::wait::Patience;
use core::marker::PhantomData;
use mote_sync::Padded;
use mote_sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// How one flavour tells old readers from new ones.
pub trait Protocol: Sized + 'static {
    /// What `gp` is at first.
    const FIRST: usize;
    /// Phases of a grace period.
    const PHASES: u64;
    /// Moves `gp` on, and returns its new value. Only called under the domain's lock.
    fn advance(gp: &AtomicUsize) -> usize;
    /// True for the word of a reader that began before `gp` got its value.
    fn is_old(word: usize, gp: usize) -> bool;
    /// Makes the caller, whose slot is `own`, and all other readers pass a full memory barrier. A flavour whose readers
    /// have a fence of their own needs only the caller's.
    fn fence_all(domain: &Domain<Self>, own: Option<&Slot>);
}

/// The readers and the grace periods of one flavour.
#[derive(Debug)]
pub struct Domain<P> {
    pub(crate) gp: Padded<AtomicUsize>,
    seq: AtomicU64,
    lock: Lock,
    pub(crate) registry: Readers,
    protocol: PhantomData<fn() -> P>,
}

/// A moment; its grace period is over when all readers that were in a section then have left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

const PHASE_BITS: u64 = 3;
const ONE: u64 = 4;

/// What kept a grace period from ending.
enum Step<'a> {
    Over,
    WaitsFor(Option<Entry<'a>>),
}

impl<P: Protocol> Domain<P> {
    crate::const_unless_loom! {
        /// No grace period yet, of these readers.
        pub(crate) fn new(registry: Readers) -> Domain<P> {
            Domain {
                gp: Padded(AtomicUsize::new(P::FIRST)),
                seq: AtomicU64::new(0),
                lock: Lock::new(),
                registry,
                protocol: PhantomData,
            }
        }
    }
}

impl<P: Protocol> Domain<P> {
    /// Waits until all sections that have begun are over. `own` is the caller's slot.
    pub(crate) fn synchronize(&self, own: Option<&Slot>) {
        let ticket = self.ticket();
        // Others may end it, and take the lock from us each time.
        let Some(_held) = self.lock.hold_unless(|| self.is_over(ticket)) else { return };
        let mut patience = Patience::default();
        while !self.is_over(ticket) {
            if let Step::WaitsFor(entry) = self.step(own) {
                patience.wait();
                if let Some(entry) = entry
                    && patience.is_long()
                {
                    self.reap(entry);
                }
            }
        }
    }

    /// Names the grace period that ends no earlier than all sections that have begun.
    pub(crate) fn ticket(&self) -> Ticket {
        // C.
        fence(Ordering::SeqCst);
        let seq = self.seq.load(Ordering::Relaxed);
        // One that is going on may have looked at a reader too early for us.
        Ticket((seq & !PHASE_BITS) + if seq & PHASE_BITS == 0 { ONE } else { 2 * ONE })
    }

    /// True once the grace period of `ticket` is over.
    pub(crate) fn is_over(&self, ticket: Ticket) -> bool {
        // C.
        self.seq.load(Ordering::Acquire) >= ticket.0
    }

    /// Moves grace periods on as far as they go without waiting; true once that of `ticket` is over.
    pub(crate) fn poll(&self, ticket: Ticket, own: Option<&Slot>) -> bool {
        if self.is_over(ticket) {
            return true;
        }
        let Some(_held) = self.lock.try_hold() else { return false };
        while !self.is_over(ticket) {
            if let Step::WaitsFor(entry) = self.step(own) {
                if let Some(entry) = entry {
                    self.reap(entry);
                }
                return false;
            }
        }
        true
    }

    /// Moves the grace period on; only under the lock.
    fn step(&self, own: Option<&Slot>) -> Step<'_> {
        let mut seq = self.seq.load(Ordering::Relaxed);
        let mut gp = self.gp.load(Ordering::Relaxed);
        if seq & PHASE_BITS == 0 {
            seq += 1;
            self.seq.store(seq, Ordering::Release);
            // A, C.
            P::fence_all(self, own);
            gp = P::advance(&self.gp);
        }
        loop {
            if let waits @ Step::WaitsFor(_) = self.look(gp) {
                return waits;
            }
            if seq & PHASE_BITS == P::PHASES {
                break;
            }
            seq += 1;
            self.seq.store(seq, Ordering::Release);
            gp = P::advance(&self.gp);
        }
        // C.
        self.seq.store((seq & !PHASE_BITS) + ONE, Ordering::Release);
        Step::Over
    }

    /// Looks for a reader that is old.
    fn look(&self, gp: usize) -> Step<'_> {
        for entry in self.registry.entries() {
            // B.
            if P::is_old(entry.slot.word.load(Ordering::Acquire), gp) {
                return Step::WaitsFor(Some(entry));
            }
        }
        let guests = &self.registry.guests;
        for (phase, guests) in guests.iter().enumerate() {
            // Their word is the phase that they were counted in, and one section. B.
            if guests.load(Ordering::Acquire) != 0 && P::is_old(phase * PHASE + GUARDED, gp) {
                return Step::WaitsFor(None);
            }
        }
        Step::Over
    }

    fn reap(&self, entry: Entry<'_>) {
        #[cfg(not(loom))]
        self.registry.reap_entry(mote_sys::process::pid(), entry);
        #[cfg(loom)]
        let _ = entry;
    }

    /// In the child of a fork, by the thread that lives on and whose slot is `own`: all other readers are gone, and so
    /// is the thread that held the lock.
    #[cfg(not(loom))]
    pub(crate) fn after_fork(&self, own: Option<&Slot>) {
        self.registry.keep_only(own, mote_sys::process::pid(), mote_sys::process::tid());
        self.seq.fetch_and(!PHASE_BITS, Ordering::Relaxed);
        self.lock.release();
    }
}
