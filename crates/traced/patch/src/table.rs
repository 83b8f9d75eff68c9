//! The batch that is being patched, published to the trap handler.
//!
//! # Parties
//! Patcher: the one thread that holds the lock of [`mod@crate::lock`].
//! Trap handlers: any number, on any thread, at any moment; they only read.
//!
//! # State
//! `turn`: even, no batch is published; odd, one is. Only ever grows, by one. 64 bits: never wraps.
//! `count`, `sites`: the batch. Meaningful while `turn` is odd.
//!
//! # Who may touch what
//! 1. All is written by the patcher only.
//! 2. `count` and `sites` are written only while `turn` is even. A handler may then still be reading them from
//!    the turn before; it finds out by T2.
//! 3. The text of a site holds an int3 of ours only while `turn` is odd and `sites` has it.
//!
//! # Transitions
//! even, `publish` -> odd, text patched, `retract` -> even.
//!
//! # Ordering
//! T1. What `publish` writes happens before the `turn` that shows it (release; acquire in `look_up`).
//! T2. A handler that read any value of a later batch reads a later `turn` afterwards (release fence in
//!     `publish` before the values; acquire fence in `look_up` before the second read of `turn`).
//! T3. Int3s are in the text after `turn` became odd, and gone before it becomes even: the text is written by
//!     system calls or by own assembly, which the compiler moves nothing over, and x86-64 shows stores in
//!     program order. A handler's read of the text stays between its two reads of `turn`: loads
//!     happen in program order too (SDM vol. 3, "Memory Ordering in P6 and More Recent Processor Families"),
//!     and for the compiler the acquire load before it and the acquire fence behind it say so.
//!
//! # Why the handler is always right
//! `look_up` answers only when `turn` did not change in between. Then either the site is in the batch of that turn
//! (`Resume`); or it is in none, so by rule 3 no int3 of ours was there meanwhile: what was read is an int3, then it is
//! the program's or a debugger's (`Foreign`); or it is the start of a site again, then the thread trapped on an int3 of
//! ours which has gone since, and runs what is there now (`Retry`).
//!
//! # Progress
//! `publish`, `retract`: wait-free. `look_up`: lock-free, starts again only when a batch began or
//! ended meanwhile, which takes the patcher at least one round of membarrier.
//!
//! # Signals, fork
//! Handlers may nest. A forked child has the table and the text as they were, so its handler goes on
//! serving what an interrupted batch left.

use crate::arch::{Head, TRAP, begins_site};
use crate::code::SITE_BYTES;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Most sites in one batch.
pub(crate) const BATCH: usize = 512;

/// One site being patched.
struct Site {
    addr: AtomicUsize,
    leads_to: AtomicUsize,
    /// The bytes that it becomes, from the lowest.
    becomes: AtomicU64,
}

/// A site of a batch, as it is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) addr: usize,
    /// Where a thread goes on that meets its breakpoint.
    pub(crate) leads_to: usize,
    /// The bytes that it becomes.
    pub(crate) becomes: [u8; SITE_BYTES],
}

/// The published batch, see the module.
pub(crate) struct Table {
    turn: AtomicU64,
    count: AtomicUsize,
    sites: [Site; BATCH],
}

/// What a trap at an address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Trap {
    /// Our int3: go on at this address.
    Resume(usize),
    /// Our int3, gone meanwhile: execute what is there now.
    Retry,
    /// Not ours.
    Foreign,
    /// There is none now, and no site: ours if it was at a place of the program's code.
    Gone,
}

impl Table {
    /// A table with no batch.
    pub(crate) const fn new() -> Table {
        Table {
            turn: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            sites: [const {
                Site { addr: AtomicUsize::new(0), leads_to: AtomicUsize::new(0), becomes: AtomicU64::new(0) }
            }; BATCH],
        }
    }

    /// True while a batch is published.
    pub(crate) fn is_published(&self) -> bool {
        self.turn.load(Ordering::Relaxed) & 1 == 1
    }

    /// Publishes sites; those beyond [`BATCH`] are left out.
    ///
    /// Patcher only, with nothing published.
    pub(crate) fn publish(&self, sites: impl Iterator<Item = Published>) {
        fence(Ordering::Release); // T2
        let mut count = 0;
        for (site, Published { addr, leads_to, becomes: [a, b, c, d, e] }) in self.sites.iter().zip(sites) {
            site.addr.store(addr, Ordering::Relaxed);
            site.leads_to.store(leads_to, Ordering::Relaxed);
            site.becomes.store(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]), Ordering::Relaxed);
            count += 1;
        }
        self.count.store(count, Ordering::Relaxed);
        self.turn.fetch_add(1, Ordering::Release); // T1
    }

    /// Ends the published batch. Patcher only, with the text in its final state.
    pub(crate) fn retract(&self) {
        self.turn.fetch_add(1, Ordering::Release); // T3
    }

    /// The published batch. Patcher only.
    pub(crate) fn published(&self) -> impl Iterator<Item = Published> {
        let count = if self.is_published() { self.count.load(Ordering::Relaxed) } else { 0 };
        self.sites.iter().take(count).map(|site| {
            let [a, b, c, d, e, ..] = site.becomes.load(Ordering::Relaxed).to_le_bytes();
            Published {
                addr: site.addr.load(Ordering::Relaxed),
                leads_to: site.leads_to.load(Ordering::Relaxed),
                becomes: [a, b, c, d, e],
            }
        })
    }

    /// What a trap at `addr` means; `head` reads what begins there now.
    pub(crate) fn look_up(&self, addr: usize, head: impl Fn() -> Head) -> Trap {
        loop {
            let turn = self.turn.load(Ordering::Acquire); // T1
            let ours = if turn & 1 == 1 { self.search(addr) } else { None };
            let trap = match ours {
                Some(leads_to) => Trap::Resume(leads_to),
                None => match head() {
                    TRAP => Trap::Foreign,
                    head if begins_site(head) => Trap::Retry,
                    _ => Trap::Gone,
                },
            };
            fence(Ordering::Acquire); // T2, T3
            if self.turn.load(Ordering::Relaxed) == turn {
                return trap;
            }
        }
    }

    fn search(&self, addr: usize) -> Option<usize> {
        let count = self.count.load(Ordering::Relaxed);
        let site = self.sites.iter().take(count).find(|site| site.addr.load(Ordering::Relaxed) == addr)?;
        Some(site.leads_to.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    fn site(addr: usize, leads_to: usize) -> Published {
        Published { addr, leads_to, becomes: [1, 2, 3, 4, addr as u8] }
    }

    #[test]
    fn looks_up_by_turn() {
        let table = Table::new();
        assert_eq!(table.look_up(0x10, || TRAP), Trap::Foreign);
        assert_eq!(table.look_up(0x10, || 0x0f), Trap::Retry);
        assert_eq!(table.look_up(0x10, || 0x03), Trap::Gone, "the tail of `int 3` as two bytes");
        table.publish([site(0x10, 0x15), site(0x20, 0x99)].into_iter());
        assert_eq!(table.look_up(0x10, || TRAP), Trap::Resume(0x15));
        assert_eq!(table.look_up(0x20, || 0xe9), Trap::Resume(0x99));
        assert_eq!(table.look_up(0x30, || TRAP), Trap::Foreign);
        assert!(table.published().eq([site(0x10, 0x15), site(0x20, 0x99)]));
        table.retract();
        assert_eq!(table.look_up(0x10, || 0xe9), Trap::Retry);
        assert_eq!(table.published().count(), 0);
    }

    /// A batch that begins between the search and the look at the text must not make our own int3 foreign.
    #[test]
    fn a_batch_that_begins_meanwhile_is_seen() {
        let table = Table::new();
        let begun = Cell::new(false);
        let trap = table.look_up(0x10, || {
            if !begun.replace(true) {
                table.publish([site(0x10, 0x15)].into_iter());
            }
            TRAP
        });
        assert_eq!(trap, Trap::Resume(0x15));
    }

    /// A batch that ends and is followed by another one of other sites: the thread looks again.
    #[test]
    fn a_batch_that_ends_meanwhile_is_seen() {
        let table = Table::new();
        table.publish([site(0x20, 0x25)].into_iter());
        let reads = Cell::new(0);
        let trap = table.look_up(0x10, || {
            reads.set(reads.get() + 1);
            if reads.get() == 1 {
                table.retract();
                table.publish([site(0x30, 0x35)].into_iter());
                TRAP
            } else {
                0x0f
            }
        });
        assert_eq!((trap, reads.get()), (Trap::Retry, 2));
    }

    #[test]
    fn takes_no_more_than_a_batch() {
        let table = Table::new();
        table.publish((0..BATCH + 5).map(|n| site(n, n)));
        assert_eq!(table.published().count(), BATCH);
    }
}
