//! The places where walks start: tables of buckets, one for each order of size.
//!
//! # State
//! With order *k* there are 2^k buckets, each for the hashes with the same k leading bits. A bucket is known by the
//! first of them, its *start*. Table 0 has the bucket of start 0; table k those that order k adds, whose starts have
//! bit 64 - k as their lowest: so nothing ever moves, and a bucket's *parent*, the one it splits, is found by clearing
//! that bit. The start of a bucket is told by its place in its table. (rculfhash takes the low bits of a hash and sorts
//! by its bits reversed. Leading bits need no reversal.) `state` has the order, and whether the table is *changing*:
//! from before the first bucket of another order is linked, or the order goes down, until the last bucket is linked or
//! unlinked.
//! # Ordering
//! A. A table is written, and all its buckets are linked, before `state` has its order: release in `set`, acquire in
//!    `state`. A thread that has come to a bucket finds its table in `tables`, or, when it has been taken from there,
//!    that the bucket is removed: release in `take` and `allocate`, acquire in `start_of`.
//! B. A thread that has come to a bucket of a higher order than `state` had, finds that `state` is another by now: it
//!    was changing before that bucket was linked; and it does not come back to what it was before a grace period, for
//!    which the finder's section is waited for.

use super::chain::{Link, Node, seek};
use core::ptr::{NonNull, null_mut};
use mote_sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use mote_sys::mem;
use std::alloc::{Layout, alloc, dealloc};
use std::boxed::Box;

/// Tables, one for each number of trailing zeros of a start.
const TABLES: usize = 65;
/// Of tables this large pages of this size are asked for: a walk that starts anywhere needs fewer entries of the TLB
/// then.
const HUGE_PAGE: usize = 2 << 20;
/// The greatest order; far more than memory has room for.
pub(super) const MOST_ORDER: usize = 40;

/// See the module.
#[derive(Debug)]
pub(super) struct Buckets {
    state: AtomicU64,
    /// See `slot`.
    tables: [AtomicPtr<Node>; TABLES],
}

/// An order, as that many leading ones, and whether it is about to be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u64);

const CHANGING: u64 = 1;

impl State {
    pub(super) fn resting(order: usize) -> State {
        State(!(u64::MAX >> order))
    }

    pub(super) fn changing(order: usize) -> State {
        State(State::resting(order).0 | CHANGING)
    }

    #[inline(always)]
    pub(super) fn order(self) -> usize {
        self.0.leading_ones() as usize
    }

    #[inline(always)]
    pub(super) fn is_changing(self) -> bool {
        self.0 & CHANGING != 0
    }

    /// The start of the bucket of `hash`.
    #[inline(always)]
    fn start(self, hash: u64) -> u64 {
        hash & self.0 & !CHANGING
    }
}

/// A table that no thread uses any more.
#[derive(Debug)]
pub(super) struct Table {
    first: NonNull<Node>,
    order: usize,
}

// SAFETY: it owns memory only.
unsafe impl Send for Table {}

impl Buckets {
    /// Buckets of `order`, or of less when there is no room.
    pub(super) fn new(order: usize) -> Buckets {
        let tables = [const { null_mut() }; TABLES].map(AtomicPtr::new);
        let buckets = Buckets { state: AtomicU64::new(0), tables };
        let first = Box::into_raw(Box::new(Node::new()));
        buckets.tables[slot(0)].store(first, Ordering::Relaxed);
        for order in 1..=order.min(MOST_ORDER) {
            if !buckets.allocate(order) {
                break;
            }
            for index in 0..len(order) {
                // SAFETY: no other thread knows these buckets.
                unsafe { buckets.populate(order, index) };
            }
            buckets.set(State::resting(order));
        }
        buckets
    }

    #[inline(always)]
    pub(super) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// From here on walks start from the buckets of this state's order.
    pub(super) fn set(&self, state: State) {
        self.state.store(state.0, Ordering::Release);
    }

    /// The bucket from which to look for `hash`, in a state that was read in the same section.
    ///
    /// # Safety
    /// The reference is used within this one read section of the list's flavour, or no other thread uses the list.
    #[inline(always)]
    pub(super) unsafe fn of(&self, hash: u64, state: State) -> &Node {
        // SAFETY: a table that `state` has told of in a section is kept until that is over; its buckets are linked (A).
        unsafe { self.at(state.start(hash)).as_ref() }
    }

    /// True when all buckets that a walk comes to, which has started from the bucket of its hash in `state`, are behind
    /// that hash: nothing has to be read there. Ask behind the link that leads to the bucket.
    #[inline(always)]
    pub(super) fn rested_in(&self, state: State) -> bool {
        let now = self.state();
        // B.
        now == state && !now.is_changing()
    }

    /// True when a bucket that was come to is behind `hash`. False when it is not, or is removed by now and its table
    /// is gone.
    #[cold]
    pub(super) fn is_behind(&self, bucket: NonNull<Node>, hash: u64) -> bool {
        self.start_of(bucket).is_some_and(|start| start > hash)
    }

    /// The start of a bucket that was come to, or `None` when it is removed by now and its table is gone. Greatest
    /// tables first: most buckets are there.
    fn start_of(&self, bucket: NonNull<Node>) -> Option<u64> {
        (1..=MOST_ORDER).rev().find_map(|order| {
            let first = self.tables[slot(order)].load(Ordering::Acquire);
            let index = bucket.addr().get().wrapping_sub(first.addr()) / size_of::<Node>();
            (!first.is_null() && index < len(order)).then(|| start(order, index))
        })
    }

    /// The bucket of a start.
    #[inline(always)]
    fn at(&self, start: u64) -> NonNull<Node> {
        let zeros = start.trailing_zeros();
        let table = self.tables[zeros as usize].load(Ordering::Acquire);
        // 64 zeros wrap to a shift by none, of 0.
        let index = start.wrapping_shr(zeros) >> 1;
        let bucket = table.wrapping_add(index as usize);
        // SAFETY: callers ask for buckets of tables that exist.
        unsafe { NonNull::new_unchecked(bucket) }
    }

    /// Makes a table. False when there is no room.
    pub(super) fn allocate(&self, order: usize) -> bool {
        let Some(layout) = layout(order) else { return false };
        // SAFETY: the layout is not empty.
        let first = unsafe { alloc(layout) };
        if layout.align() == HUGE_PAGE && !first.is_null() {
            mem::want_huge_pages(first, layout.size());
        }
        let first = first.cast();
        self.tables[slot(order)].store(first, Ordering::Release);
        !first.is_null()
    }

    /// Links bucket `index` of table `order`.
    ///
    /// # Safety
    /// The table is allocated, all smaller ones are linked; the bucket is not, and no other thread does this. Within a
    /// read section of the list's flavour, or no other thread uses the list.
    pub(super) unsafe fn populate(&self, order: usize, index: usize) {
        let start = start(order, index);
        let bucket = self.at(start);
        // SAFETY: inside of the table, and the caller's.
        unsafe { bucket.write(Node::new()) };
        // SAFETY: linked, by the caller's promise.
        let parent = unsafe { self.at(start & (start - 1)).as_ref() };
        loop {
            // Before all items of the same hash.
            // SAFETY: the parent's start is smaller; the section is the caller's.
            let place =
                unsafe { seek(parent, start - 1, |other| self.is_behind(other, start - 1), |_| false) };
            // SAFETY: not linked, and ours, by the caller's promise.
            if unsafe { place.insert(Link::to_bucket(bucket)) } {
                return;
            }
        }
    }

    /// Unlinks bucket `index` of table `order`.
    ///
    /// # Safety
    /// The bucket is linked; no section that may still start from it lasts. Within a read section of the list's
    /// flavour.
    pub(super) unsafe fn unlink(&self, order: usize, index: usize) {
        let start = start(order, index);
        // SAFETY: linked, by the caller's promise.
        unsafe { self.at(start).as_ref() }.remove();
        // SAFETY: buckets of smaller tables stay.
        let parent = unsafe { self.at(start & (start - 1)).as_ref() };
        // SAFETY: as above; the section is the caller's. This goes past the bucket.
        unsafe { seek(parent, start, |other| self.is_behind(other, start), |_| false) };
    }

    /// Gives up a table, if there is one.
    pub(super) fn take(&self, order: usize) -> Option<Table> {
        let first = self.tables[slot(order)].swap(null_mut(), Ordering::AcqRel);
        NonNull::new(first).map(|first| Table { first, order })
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        (0..=MOST_ORDER).for_each(|order| drop(self.take(order)));
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(layout) = layout(self.order) {
            // SAFETY: from `alloc` (or a box, for table 0) with this layout; buckets have nothing to drop.
            unsafe { dealloc(self.first.as_ptr().cast(), layout) };
        }
    }
}

/// Number of buckets in table `order`.
pub(super) fn len(order: usize) -> usize {
    1 << order.saturating_sub(1)
}

/// Where the table is found: by the trailing zeros of its buckets' starts.
fn slot(order: usize) -> usize {
    64 - order
}

fn layout(order: usize) -> Option<Layout> {
    let layout = Layout::array::<Node>(len(order)).ok()?;
    if layout.size() < HUGE_PAGE { Some(layout) } else { layout.align_to(HUGE_PAGE).ok() }
}

/// The start of bucket `index` of table `order`, which is not 0.
fn start(order: usize, index: usize) -> u64 {
    (index as u64 * 2 + 1) << (64 - order)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::chain::Target;
    use super::*;

    #[test]
    fn hashes_find_the_bucket_of_their_leading_bits() {
        let buckets = Buckets::new(5);
        for hash in [1 << 59, 1 << 60, (1 << 60) - 1, 0x1234_5678_9abc_def0, u64::MAX] {
            // SAFETY: no other thread uses it.
            let bucket = unsafe { buckets.of(hash, buckets.state()) };
            assert_eq!(buckets.start_of(NonNull::from(bucket)), Some(hash & !(u64::MAX >> 5)));
        }
        // SAFETY: as above.
        let first = unsafe { buckets.of((1 << 59) - 1, buckets.state()) };
        assert_eq!(NonNull::from(first).as_ptr(), buckets.tables[slot(0)].load(Ordering::Relaxed));
    }

    #[test]
    fn buckets_are_linked_in_order() {
        let buckets = Buckets::new(6);
        // SAFETY: no other thread uses it.
        let mut at = unsafe { buckets.of(0, buckets.state()) }.next();
        for number in 1..64u64 {
            let Target::Bucket(bucket) = at.target() else { panic!("no bucket: {at:?}") };
            assert_eq!(buckets.start_of(bucket), Some(number << 58));
            // SAFETY: as above.
            at = unsafe { bucket.as_ref() }.next();
        }
        assert_eq!(at.target(), Target::End);
    }
}
