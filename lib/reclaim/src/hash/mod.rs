//! A resizable lock-free hash table: a split-ordered list (Shalev and Shavit 2006) with RCU readers, as liburcu's
//! rculfhash.
//!
//! All entries are in one list, sorted by hash; buckets are nodes in it. Twice as many buckets split each range in two,
//! and no entry moves: so readers and updaters go on while the table grows and shrinks. See `chain` (the list's
//! protocol), `buckets` (tables by order of size) and `resize`.
//!
//! # Progress
//! | operation | class |
//! |---|---|
//! | `get`, `contains_key`, `len`, a step of `iter` | wait-free: bounded by what is in the bucket (`iter`: by what was removed since) |
//! | `insert`, `insert_unique`, `replace`, `remove` | lock-free, but for the allocator and [`call`](crate::call)'s bound |
//! | growing, shrinking | in steps of 16 buckets, one updater at a time; no thread waits for it |
//! # Ordering
//! What was done before a value was inserted is seen by a thread that gets a reference to it. Operations on one key are
//! linearisable: an insertion at the exchange that links its entry, a removal or replacement at the one that marks the
//! old entry, `get` where it reads the mark of what it has found, or the link by which it has gone past the key's
//! place.
//! # Signal, fork
//! `get`, `contains_key` and `iter` may run in a handler, wherever it interrupts. Updates may not: they allocate. The
//! child of a fork has the whole table, but when another thread was resizing at that moment, the child's table keeps
//! its size.

mod buckets;
mod chain;
mod count;
mod iter;
mod resize;

pub use iter::Iter;

use crate::{Flavor, Guard, Library, free_later};
use chain::{Fresh, Item, Link, Node, Place, Target, seek};
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use core::ptr::NonNull;
use resize::Resized;
use std::hash::RandomState;

/// Items for which a new table has room.
const FIRST_ITEMS: usize = 64;
/// 2^64 over the golden ratio, odd: spreads hashes that have their information in the low bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash table from `K` to `V`, for readers of flavour `F`, with hasher `S`.
///
/// References to entries last as long as the read section in which they were got; entries that are removed or replaced
/// are freed after a grace period.
///
/// ```
/// use mote_reclaim::{HashMap, library};
/// let map: HashMap<&str, u32> = HashMap::new();
/// let guard = library::read();
/// assert_eq!(map.insert("one", 1, &guard), None);
/// assert_eq!(map.insert_unique("one", 2, &guard), Err((2, &1)));
/// let one = map.get("one", &guard);
/// assert_eq!(map.remove("one", &guard), Some(&1));
/// assert_eq!((one, map.get("one", &guard)), (Some(&1), None));
/// ```
pub struct HashMap<K, V, F: Flavor = Library, S = RandomState> {
    table: Resized,
    hasher: S,
    /// A pointer, because a thread that shares a table may insert: it is no table of values that could stand where
    /// these do.
    ///
    /// ```compile_fail,E0308
    /// use mote_reclaim::HashMap;
    /// fn takes_any(map: &HashMap<u32, for<'a> fn(&'a str)>) -> &HashMap<u32, fn(&'static str)> { map }
    /// ```
    owns: PhantomData<*mut (K, V)>,
    flavor: PhantomData<fn() -> F>,
}

// SAFETY: it owns entries, and hands out shared references to them.
unsafe impl<K: Send + Sync, V: Send + Sync, F: Flavor, S: Send> Send for HashMap<K, V, F, S> {}
// SAFETY: as above; all changes are atomic.
unsafe impl<K: Send + Sync, V: Send + Sync, F: Flavor, S: Sync> Sync for HashMap<K, V, F, S> {}

impl<K, V, F: Flavor> HashMap<K, V, F> {
    /// A table without entries, of the least number of buckets.
    pub fn new() -> HashMap<K, V, F> {
        HashMap::with_capacity_and_hasher(FIRST_ITEMS, RandomState::new())
    }
}

impl<K, V, F: Flavor, S> HashMap<K, V, F, S> {
    /// An empty table with this hasher.
    pub fn with_hasher(hasher: S) -> HashMap<K, V, F, S> {
        HashMap::with_capacity_and_hasher(FIRST_ITEMS, hasher)
    }

    /// An empty table that does not grow before it has more than `items`, and never shrinks below that.
    pub fn with_capacity_and_hasher(items: usize, hasher: S) -> HashMap<K, V, F, S> {
        HashMap { table: Resized::new(items), hasher, owns: PhantomData, flavor: PhantomData }
    }

    /// Number of entries; exact when no thread inserts or removes meanwhile.
    pub fn len(&self) -> usize {
        self.table.items()
    }

    /// True when there are no entries, as [`HashMap::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of buckets at this moment.
    pub fn buckets(&self) -> usize {
        1 << self.table.buckets.state().order()
    }

    /// All entries, in no useful order, while the table may change.
    pub fn iter<'g>(&'g self, _guard: &'g Guard<'_, F>) -> Iter<'g, K, V> {
        // SAFETY: the guard's section.
        let first = unsafe { self.table.buckets.of(0, self.table.buckets.state()) };
        // SAFETY: as above, for 'g.
        unsafe { Iter::from(first.next()) }
    }
}

impl<K: Hash + Eq, V, F: Flavor, S: BuildHasher> HashMap<K, V, F, S> {
    /// The value of `key`.
    ///
    /// # Cost
    /// Bench `rcu`, case `hash/lookup`: the bucket's link and, on average, 1.1 entries.
    #[inline(always)]
    pub fn get<'g, Q>(&'g self, key: &Q, guard: &'g Guard<'_, F>) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_key_value(key, guard).map(|(_, value)| value)
    }

    /// The entry of `key`, with the key that was inserted.
    #[inline(always)]
    pub fn get_key_value<'g, Q>(&'g self, key: &Q, _guard: &'g Guard<'_, F>) -> Option<(&'g K, &'g V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (hash, buckets) = (self.hash(key), &self.table.buckets);
        let state = buckets.state();
        // SAFETY: the guard's section.
        let first = unsafe { buckets.of(hash, state) };
        // SAFETY: as above, for 'g.
        let item = match unsafe { Item::<K, V>::find(first.next(), hash, key) } {
            Ok(item) => item,
            Err(_) if buckets.rested_in(state) => return None,
            // SAFETY: as above.
            Err(at) => unsafe { self.find_beyond(at, hash, key) }?,
        };
        Some((&item.key, &item.value))
    }

    /// The item of `key`, from a link on that may lead to a bucket among the items of its hash, because the table
    /// changes.
    ///
    /// # Safety
    /// As [`Item::find`].
    #[cold]
    unsafe fn find_beyond<'g, Q>(&'g self, mut at: Link, hash: u64, key: &Q) -> Option<&'g Item<K, V>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        while let Target::Bucket(bucket) = at.target()
            && !self.table.buckets.is_behind(bucket, hash)
        {
            // SAFETY: linked, and kept by the section (`chain-retired-unlinked`).
            let next = unsafe { bucket.as_ref() }.next().kept();
            // SAFETY: the caller's promise.
            match unsafe { Item::find(next, hash, key) } {
                Ok(item) => return Some(item),
                Err(link) => at = link,
            }
        }
        None
    }

    /// True when `key` has a value.
    pub fn contains_key<Q>(&self, key: &Q, guard: &Guard<'_, F>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get_key_value(key, guard).is_some()
    }

    #[inline(always)]
    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key).wrapping_mul(SPREAD)
    }

    /// Where `key` is, or belongs.
    fn seek<'g, Q>(&'g self, hash: u64, key: &Q, _guard: &'g Guard<'_, F>) -> Place<'g>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let buckets = &self.table.buckets;
        let state = buckets.state();
        // SAFETY: the guard's section.
        let start = unsafe { buckets.of(hash, state) };
        // SAFETY: `seek` shows items only, which the section keeps.
        let is_it = |node| unsafe { Item::<K, V>::of(node) }.key.borrow() == key;
        // SAFETY: a bucket that `state` has told of in this section is not unlinked before its end.
        unsafe {
            seek(start, hash, |bucket| buckets.rested_in(state) || buckets.is_behind(bucket, hash), is_it)
        }
    }
}

impl<K, V, F, S> HashMap<K, V, F, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    F: Flavor,
    S: BuildHasher,
{
    /// Sets the value of `key`. Returns the one before, if it had one; its entry is replaced, key included, in one
    /// step: readers see the one or the other.
    ///
    /// # Cost
    /// An allocation and a compare-and-exchange; and, for an entry that is replaced, another of each and a
    /// [`call`](crate::call).
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g Guard<'_, F>) -> Option<&'g V> {
        let hash = self.hash(&key);
        let new = Fresh::new(hash, key, value);
        loop {
            let place = self.seek(hash, new.key(), guard);
            let Some(old) = place.found else {
                // SAFETY: `new` is ours.
                if unsafe { place.insert(new.link()) } {
                    new.linked();
                    self.table.inserted(guard);
                    return None;
                }
                continue;
            };
            if self.supersede(&place, old, &new, guard) {
                new.linked();
                // SAFETY: an item, which the section keeps.
                return Some(&unsafe { Item::<K, V>::of(old) }.value);
            }
        }
    }

    /// Gives `key` a value if it has none. Returns where it is in the table.
    ///
    /// # Errors
    /// It has one: gives `value` back, with the other.
    ///
    /// # Cost
    /// As [`HashMap::insert`], without the allocation when it has one.
    pub fn insert_unique<'g>(
        &'g self,
        key: K,
        value: V,
        guard: &'g Guard<'_, F>,
    ) -> Result<&'g V, (V, &'g V)> {
        let hash = self.hash(&key);
        let mut place = self.seek(hash, &key, guard);
        if let Some(old) = place.found {
            // SAFETY: an item, which the section keeps.
            return Err((value, &unsafe { Item::<K, V>::of(old) }.value));
        }
        let new = Fresh::new(hash, key, value);
        // SAFETY: `new` is ours.
        while !unsafe { place.insert(new.link()) } {
            place = self.seek(hash, new.key(), guard);
            if let Some(old) = place.found {
                // SAFETY: as above.
                return Err((new.into_value(), &unsafe { Item::<K, V>::of(old) }.value));
            }
        }
        let node = new.linked();
        self.table.inserted(guard);
        // SAFETY: an item that was linked in this section, which keeps it if it is removed.
        Ok(&unsafe { Item::<K, V>::of(node) }.value)
    }

    /// Sets the value of `key` if it has one, and returns that one.
    ///
    /// # Errors
    /// It has none: gives `value` back.
    ///
    /// # Cost
    /// As [`HashMap::insert`]; the allocation also when it has none.
    pub fn replace<'g>(&'g self, key: K, value: V, guard: &'g Guard<'_, F>) -> Result<&'g V, V> {
        let hash = self.hash(&key);
        let new = Fresh::new(hash, key, value);
        loop {
            let place = self.seek(hash, new.key(), guard);
            let Some(old) = place.found else { return Err(new.into_value()) };
            if self.supersede(&place, old, &new, guard) {
                new.linked();
                // SAFETY: an item, which the section keeps.
                return Ok(&unsafe { Item::<K, V>::of(old) }.value);
            }
        }
    }

    /// Removes `key`. Returns its value, if this call has removed it.
    ///
    /// # Cost
    /// Two compare-and-exchanges, and [`defer`](crate::defer): an allocation and a [`call`](crate::call).
    pub fn remove<'g, Q>(&'g self, key: &Q, guard: &'g Guard<'_, F>) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.remove_if(key, |_, _| true, guard)
    }

    /// Removes `key` if `condition` says so of its entry. Returns its value, if this call has removed it.
    pub fn remove_if<'g, Q>(
        &'g self,
        key: &Q,
        mut condition: impl FnMut(&K, &V) -> bool,
        guard: &'g Guard<'_, F>,
    ) -> Option<&'g V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        loop {
            let place = self.seek(hash, key, guard);
            let old = place.found?;
            // SAFETY: an item, which the section keeps.
            let item = unsafe { Item::<K, V>::of(old) };
            if !condition(&item.key, &item.value) {
                return None;
            }
            // SAFETY: its first field.
            let removed = unsafe { old.as_ref() }.remove();
            // Else another thread was faster; by now there may be another.
            if let Some(next) = removed {
                if !place.unlink(next) {
                    self.sweep(hash, guard);
                }
                // SAFETY: removed by us, unlinked.
                unsafe { free_later::<F, Item<K, V>>(old.cast()) };
                self.table.removed(guard);
                return Some(&item.value);
            }
        }
    }

    /// Puts `new` in the place of `old`. False when something has changed: seek again.
    fn supersede(
        &self,
        place: &Place<'_>,
        old: NonNull<Node>,
        new: &Fresh<K, V>,
        guard: &Guard<'_, F>,
    ) -> bool {
        // SAFETY: found in the guard's section, which keeps it.
        let node = unsafe { old.as_ref() };
        // SAFETY: `new` is ours.
        if !unsafe { node.supersede(new.link()) } {
            return false;
        }
        if !place.unlink(new.link()) {
            // SAFETY: as above, an item.
            self.sweep(unsafe { Item::<K, V>::of(old) }.hash(), guard);
        }
        // SAFETY: removed by us, unlinked.
        unsafe { free_later::<F, Item<K, V>>(old.cast()) };
        true
    }

    /// Unlinks what is removed, of this hash.
    #[cold]
    fn sweep(&self, hash: u64, _guard: &Guard<'_, F>) {
        let buckets = &self.table.buckets;
        // SAFETY: the guard's section.
        let start = unsafe { buckets.of(hash, buckets.state()) };
        // SAFETY: as in `seek`.
        unsafe { seek(start, hash, |bucket| buckets.is_behind(bucket, hash), |_| false) };
    }
}

impl<K, V, F: Flavor, S> Drop for HashMap<K, V, F, S> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: no other thread uses it.
        let mut at = unsafe { self.table.buckets.of(0, self.table.buckets.state()) }.next();
        loop {
            at = match at.target() {
                Target::Item(node) => {
                    let item = node.cast::<Item<K, V>>();
                    // SAFETY: an item from a box, which no thread uses any more. The thread that has removed one has
                    // unlinked it, so none is freed twice.
                    unsafe { Box::from_raw(item.as_ptr()) }.next().kept()
                }
                // SAFETY: linked; tables are freed later.
                Target::Bucket(bucket) => unsafe { bucket.as_ref() }.next().kept(),
                Target::End => return,
            }
        }
    }
}

impl<K, V, F: Flavor, S: Default> Default for HashMap<K, V, F, S> {
    fn default() -> HashMap<K, V, F, S> {
        HashMap::with_hasher(S::default())
    }
}

impl<K, V, F: Flavor, S> fmt::Debug for HashMap<K, V, F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashMap").field("table", &self.table).finish_non_exhaustive()
    }
}
