//! The list that all buckets share: sorted by hash, lock-free (Harris 2001, Michael 2002, Shalev and Shavit 2006).
//!
//! # State
//! Nodes in ascending order of their hashes: *items*, which have theirs in them, and *buckets*, which are places to
//! start from, and whose hash their address tells (see `buckets`): a bucket is a link and nothing else, so that eight
//! of them are in a cache line. A bucket comes before the items of the same hash; items of the same hash stand in the
//! order in which they came. A *link* is the address of the next node with two bits in it: `REMOVED`: the node that
//! *holds* the link is removed; its link never changes again. `BUCKET`: the node that the link *leads to* is a bucket,
//! or there is none (null).
//! # Invariants: who may touch what
//! `chain-node-private`: a node is its maker's alone until a link leads to it. Then hash, key and value never change.
//!
//! `chain-removed-is-last`: a link changes by compare-and-exchange from one without `REMOVED`: to insert behind its
//! node, to unlink the removed node that it leads to, or to remove its own node, which may at once put another in its
//! place. A thread that has set `REMOVED` retires the node.
//!
//! `chain-retired-unlinked`: a node is retired after it was unlinked. As one is unlinked from a node that is not
//! removed, of two removed neighbours the front one goes first: links that are frozen lead only to nodes that were
//! unlinked later, or not at all. So a thread that starts in a section, from a bucket, gets nowhere that was retired
//! before the section.
//! # Ordering
//! A. What was done to a node before it was linked is seen by a thread that follows the link: release in `exchange`,
//!    acquire in `next`.
//! # Progress
//! Following links is wait-free: every step leads to a node of no smaller hash, or a later one, and a walk ends behind
//! its hash. `seek`, and what is built on it, is lock-free.

use core::borrow::Borrow;
use core::ptr::{NonNull, null_mut};
use mote_sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;

const REMOVED: usize = 1;
const BUCKET: usize = 2;

/// A place in the list: all of a bucket, the beginning of an item.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Node {
    next: AtomicPtr<Node>,
}

/// The beginning of an item.
#[derive(Debug)]
#[repr(C)]
struct Hashed {
    node: Node,
    hash: u64,
}

/// A node with a key and a value. What queues it when it is retired is not in it ([`free_later`](crate::free_later)):
/// most entries stay, and the smaller they are, the more of them are in the cache.
#[repr(C)]
pub(super) struct Item<K, V> {
    hashed: Hashed,
    pub(super) key: K,
    pub(super) value: V,
}

/// The content of a link, see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(*mut Node);

/// What a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Item(NonNull<Node>),
    Bucket(NonNull<Node>),
    End,
}

/// Where a node of some hash is, or belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'g> {
    before: &'g Node,
    /// The link of `before`.
    at: Link,
    /// What was looked for; `at` leads to it.
    pub(super) found: Option<NonNull<Node>>,
}

impl Link {
    /// Leads nowhere.
    const END: Link = Link(null_mut::<Node>().wrapping_byte_add(BUCKET));

    /// Leads to a bucket.
    pub(super) fn to_bucket(bucket: NonNull<Node>) -> Link {
        Link(bucket.as_ptr().map_addr(|address| address | BUCKET))
    }

    #[inline(always)]
    pub(super) fn target(self) -> Target {
        let node = self.0.map_addr(|address| address & !(REMOVED | BUCKET));
        if self.0.addr() & BUCKET == 0 {
            // SAFETY: without `BUCKET` a link is made of an item's address only.
            return Target::Item(unsafe { NonNull::new_unchecked(node) });
        }
        NonNull::new(node).map_or(Target::End, Target::Bucket)
    }

    #[inline(always)]
    pub(super) fn is_removed(self) -> bool {
        self.0.addr() & REMOVED != 0
    }

    /// Without `REMOVED`.
    #[inline(always)]
    pub(super) fn kept(self) -> Link {
        Link(self.0.map_addr(|address| address & !REMOVED))
    }

    fn removed(self) -> Link {
        Link(self.0.map_addr(|address| address | REMOVED))
    }

    /// Sets the link of the node that this leads to.
    ///
    /// # Safety
    /// The node is not linked, and the caller's (`chain-node-private`).
    unsafe fn prepare(self, next: Link) {
        if let Target::Item(node) | Target::Bucket(node) = self.target() {
            // SAFETY: the caller's promise.
            unsafe { node.as_ref() }.next.store(next.0, Ordering::Relaxed);
        }
    }
}

impl Node {
    /// Not in the list yet, or the last one.
    pub(super) fn new() -> Node {
        Node { next: AtomicPtr::new(Link::END.0) }
    }

    #[inline(always)]
    pub(super) fn next(&self) -> Link {
        Link(self.next.load(Ordering::Acquire))
    }

    /// Changes the link from `from` to `to`; `from` is without `REMOVED`. False when it was another.
    fn exchange(&self, from: Link, to: Link) -> bool {
        self.next.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Removes the node: the link that it had, or `None` when it was removed before.
    pub(super) fn remove(&self) -> Option<Link> {
        loop {
            let next = self.next();
            if next.is_removed() {
                return None;
            }
            if self.exchange(next, next.removed()) {
                return Some(next);
            }
        }
    }

    /// Removes the node and puts `new` in its place, in one step. False when it was removed before, or the next is
    /// another by now.
    ///
    /// # Safety
    /// `new` leads to an item that is not linked and the caller's.
    pub(super) unsafe fn supersede(&self, new: Link) -> bool {
        let next = self.next();
        // SAFETY: the caller's promise.
        unsafe { new.prepare(next) };
        !next.is_removed() && self.exchange(next, new.removed())
    }
}

impl Place<'_> {
    /// Inserts what `new` leads to (of the hash that was sought) here. False when something has changed: seek again.
    ///
    /// # Safety
    /// The node is not linked, and the caller's.
    pub(super) unsafe fn insert(&self, new: Link) -> bool {
        // SAFETY: the caller's promise.
        unsafe { new.prepare(self.at) };
        self.before.exchange(self.at, new)
    }

    /// Unlinks what was found, which has been removed and had the link `next`. False when another thread has to see to
    /// it.
    pub(super) fn unlink(&self, next: Link) -> bool {
        self.before.exchange(self.at, next.kept())
    }
}

/// Goes from `start` to behind all nodes up to `hash`, or to the item of this hash that `matches`. Unlinks the removed
/// nodes on the way: all that were removed before, up to there. It ends in front of a bucket that `is_behind` the hash,
/// which need not be looked at.
///
/// # Safety
/// `start` is in the list, of a smaller hash (or a bucket of the same); it is not removed before 'g ends. 'g is within
/// one read section of the list's flavour, or no other thread uses the list. `is_behind` is true of buckets behind
/// `hash` only, and false of one of those only if it is removed by then.
pub(super) unsafe fn seek<'g>(
    start: &'g Node,
    hash: u64,
    is_behind: impl Fn(NonNull<Node>) -> bool,
    mut matches: impl FnMut(NonNull<Node>) -> bool,
) -> Place<'g> {
    'again: loop {
        let mut before = start;
        let mut at = before.next();
        loop {
            let (pointer, is_item) = match at.target() {
                Target::Item(pointer) => (pointer, true),
                Target::Bucket(pointer) if !is_behind(pointer) => (pointer, false),
                Target::Bucket(_) | Target::End => return Place { before, at, found: None },
            };
            // SAFETY: linked, so initialised (A), and kept while the section lasts (`chain-retired-unlinked`).
            let node: &'g Node = unsafe { pointer.as_ref() };
            let next = node.next();
            if next.is_removed() {
                let next = next.kept();
                if !before.exchange(at, next) {
                    continue 'again;
                }
                at = next;
                continue;
            }
            if is_item {
                // SAFETY: as above, the beginning of an item.
                let its = unsafe { pointer.cast::<Hashed>().as_ref() }.hash;
                if its > hash {
                    return Place { before, at, found: None };
                }
                if its == hash && matches(pointer) {
                    return Place { before, at, found: Some(pointer) };
                }
            }
            (before, at) = (node, next);
        }
    }
}

/// An item that is not linked yet.
pub(super) struct Fresh<K, V>(NonNull<Item<K, V>>);

impl<K, V> Fresh<K, V> {
    pub(super) fn new(hash: u64, key: K, value: V) -> Fresh<K, V> {
        let hashed = Hashed { node: Node::new(), hash };
        Fresh(NonNull::from(Box::leak(Box::new(Item { hashed, key, value }))))
    }

    pub(super) fn key(&self) -> &K {
        // SAFETY: from a box, and ours.
        unsafe { &(*self.0.as_ptr()).key }
    }

    pub(super) fn link(&self) -> Link {
        Link(self.0.cast().as_ptr())
    }

    /// It has been linked: it is the list's now.
    pub(super) fn linked(self) -> NonNull<Node> {
        let node = self.0.cast();
        core::mem::forget(self);
        node
    }

    /// It is not needed.
    pub(super) fn into_value(self) -> V {
        let item = self.0;
        core::mem::forget(self);
        // SAFETY: from a box, never linked.
        unsafe { Box::from_raw(item.as_ptr()) }.value
    }
}

impl<K, V> Drop for Fresh<K, V> {
    fn drop(&mut self) {
        // SAFETY: from a box, never linked.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<K, V> Item<K, V> {
    /// The item of a node.
    ///
    /// # Safety
    /// The node is that of an `Item<K, V>`, which is kept for 'g.
    #[inline(always)]
    pub(super) unsafe fn of<'g>(node: NonNull<Node>) -> &'g Item<K, V> {
        // SAFETY: the caller's promise; the node is the item's first field, and its address was made from the item's.
        unsafe { node.cast().as_ref() }
    }

    /// The item of `key`, from a link on that is among those of its hash; or, without one, the link at which it has
    /// stopped: to a bucket, which may be behind `hash` or not, or to nothing.
    ///
    /// # Safety
    /// The link leads to a node of a list of `Item<K, V>`, and was read within a read section of the list's flavour,
    /// which lasts for 'g.
    #[inline(always)]
    pub(super) unsafe fn find<'g, Q: Eq + ?Sized>(mut at: Link, hash: u64, key: &Q) -> Result<&'g Self, Link>
    where
        K: Borrow<Q> + 'g,
        V: 'g,
    {
        while let Target::Item(node) = at.target() {
            // SAFETY: linked, and kept by the section (`chain-retired-unlinked`).
            let item: &'g Self = unsafe { Item::of(node) };
            if item.hashed.hash > hash {
                return Err(Link::END);
            }
            let is_it = item.hashed.hash == hash && item.key.borrow() == key;
            let next = item.next();
            if is_it && !next.is_removed() {
                return Ok(item);
            }
            at = next.kept();
        }
        Err(at)
    }

    pub(super) fn hash(&self) -> u64 {
        self.hashed.hash
    }

    #[inline(always)]
    pub(super) fn next(&self) -> Link {
        self.hashed.node.next()
    }
}
