//! The places where walks start: tables of buckets, one for each order of size.
//!
//! # State
//! With order *k* there are 2^k buckets, each for the hashes with the same k leading bits. A bucket is known by the first of them, its *start*.
//! Table 0 has the bucket of start 0; table k those that order k adds, whose starts have bit 64 - k as their lowest: so nothing ever
//! moves, and a bucket's *parent*, the one it splits, is found by clearing that bit.
//! (rculfhash takes the low bits of a hash and sorts by its bits reversed. Leading bits need no reversal.)
//! # Ordering
//! A. A table is written, and all its buckets are linked, before `order` says so: release in `set_order`, acquire in `order`.

use super::chain::{Link, Node, seek};
use core::ptr::{NonNull, null_mut};
use mote_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc, dealloc};
use std::boxed::Box;

/// Tables, one for each number of trailing zeros of a start.
const TABLES: usize = 65;
/// The greatest order; far more than memory has room for.
pub(super) const MOST_ORDER: usize = 40;

/// See the module.
#[derive(Debug)]
pub(super) struct Buckets {
    order: AtomicUsize,
    tables: [AtomicPtr<Node>; TABLES],
}

/// A table that nobody uses any more.
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
        let buckets = Buckets { order: AtomicUsize::new(0), tables };
        let first = Box::into_raw(Box::new(Node::bucket(0)));
        buckets.tables[0].store(first, Ordering::Relaxed);
        for order in 1..=order.min(MOST_ORDER) {
            if !buckets.allocate(order) {
                break;
            }
            for index in 0..len(order) {
                // SAFETY: nobody else knows these buckets.
                unsafe { buckets.populate(order, index) };
            }
            buckets.set_order(order);
        }
        buckets
    }

    #[inline(always)]
    pub(super) fn order(&self) -> usize {
        self.order.load(Ordering::Acquire)
    }

    /// From here on walks start from the buckets of `order`.
    pub(super) fn set_order(&self, order: usize) {
        self.order.store(order, Ordering::Release);
    }

    /// The bucket from which to look for `hash`.
    ///
    /// # Safety
    /// The reference is used within one read section of the list's flavour, or nobody else uses the list.
    #[inline(always)]
    pub(super) unsafe fn of(&self, hash: u64) -> &Node {
        let start = hash & !(u64::MAX >> self.order());
        // SAFETY: a table that `order` has told of in a section is kept until that is over; its buckets are linked (A).
        unsafe { self.at(start).as_ref() }
    }

    /// The bucket of a start.
    #[inline(always)]
    fn at(&self, start: u64) -> NonNull<Node> {
        let zeros = start.trailing_zeros();
        let table = self.tables[64 - zeros as usize].load(Ordering::Acquire);
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
        let first = unsafe { alloc(layout) }.cast();
        self.tables[order].store(first, Ordering::Relaxed);
        !first.is_null()
    }

    /// Links bucket `index` of table `order`.
    ///
    /// # Safety
    /// The table is allocated, all smaller ones are linked; the bucket is not, and nobody else does this. Within a read section of the list's
    /// flavour, or nobody else uses the list.
    pub(super) unsafe fn populate(&self, order: usize, index: usize) {
        let start = start(order, index);
        let bucket = self.at(start);
        // SAFETY: inside of the table, and the caller's.
        unsafe { bucket.write(Node::bucket(start)) };
        // SAFETY: linked, by the caller's promise.
        let parent = unsafe { self.at(start & (start - 1)).as_ref() };
        loop {
            // Before all items of the same hash.
            // SAFETY: the parent's start is smaller; the section is the caller's.
            let place = unsafe { seek(parent, start - 1, |_| false) };
            // SAFETY: not linked, and ours, by the caller's promise.
            if unsafe { place.insert(Link::to_bucket(bucket)) } {
                return;
            }
        }
    }

    /// Unlinks bucket `index` of table `order`.
    ///
    /// # Safety
    /// The bucket is linked; no section that may still start from it lasts. Within a read section of the list's flavour.
    pub(super) unsafe fn unlink(&self, order: usize, index: usize) {
        let start = start(order, index);
        // SAFETY: linked, by the caller's promise.
        unsafe { self.at(start).as_ref() }.remove();
        // SAFETY: buckets of smaller tables stay.
        let parent = unsafe { self.at(start & (start - 1)).as_ref() };
        // SAFETY: as above; the section is the caller's. This goes past the bucket.
        unsafe { seek(parent, start, |_| false) };
    }

    /// Gives up a table, if there is one.
    pub(super) fn take(&self, order: usize) -> Option<Table> {
        let first = self.tables[order].swap(null_mut(), Ordering::AcqRel);
        NonNull::new(first).map(|first| Table { first, order })
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        (0..TABLES).for_each(|order| drop(self.take(order)));
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

fn layout(order: usize) -> Option<Layout> {
    Layout::array::<Node>(len(order)).ok()
}

/// The start of bucket `index` of table `order`, which is not 0.
fn start(order: usize, index: usize) -> u64 {
    (index as u64 * 2 + 1) << (64 - order)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn hashes_find_the_bucket_of_their_leading_bits() {
        let buckets = Buckets::new(5);
        for hash in [0, 1, 1 << 58, 1 << 59, (1 << 59) - 1, 0x1234_5678_9abc_def0, u64::MAX] {
            // SAFETY: nobody else uses it.
            let bucket = unsafe { buckets.of(hash) };
            assert_eq!(bucket.hash(), hash & !(u64::MAX >> 5));
        }
    }

    #[test]
    fn buckets_are_linked_in_order() {
        let buckets = Buckets::new(6);
        // SAFETY: nobody else uses it.
        let mut at = Link::to_bucket(NonNull::from(unsafe { buckets.of(0) }));
        for number in 0..64u64 {
            // SAFETY: as above.
            let node = unsafe { at.node().expect("a bucket").as_ref() };
            assert!(at.is_bucket());
            assert_eq!(node.hash(), number << 58);
            at = node.next();
        }
        assert_eq!(at.node(), None);
    }
}
