//! Iteration over a hash table while it changes.

use super::chain::{Item, Link};
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The entries of a [`HashMap`](super::HashMap), in the order of their hashes.
///
/// Entries that are there all the time are given exactly once, also while the table is resized. Those that are inserted
/// or removed meanwhile may be given or not; one that is removed and inserted again may be given twice.
///
/// # Progress
/// Each step is wait-free but for removed entries and buckets that it passes.
pub struct Iter<'g, K, V> {
    at: Link,
    /// The section, and the table.
    scope: PhantomData<(&'g (), &'g Item<K, V>)>,
}

impl<K, V> Iter<'_, K, V> {
    /// From a link on.
    ///
    /// # Safety
    /// The link is one of the first bucket's, read within a section of the list's flavour that lasts for 'g.
    pub(super) unsafe fn from(at: Link) -> Self {
        Iter { at, scope: PhantomData }
    }

    /// The next item that is not removed, or bucket.
    fn step(&mut self) -> Option<Option<NonNull<super::chain::Node>>> {
        let (at, node) = (self.at, self.at.node()?);
        // SAFETY: linked, and kept while the section lasts (chain, rule 3).
        let next = unsafe { node.as_ref() }.next();
        self.at = next.kept();
        Some((!at.is_bucket() && !next.is_removed()).then_some(node))
    }
}

impl<'g, K, V> Iterator for Iter<'g, K, V> {
    type Item = (&'g K, &'g V);

    fn next(&mut self) -> Option<(&'g K, &'g V)> {
        loop {
            if let Some(node) = self.step()? {
                // SAFETY: no bucket, so an item, kept for 'g.
                let item = unsafe { Item::<K, V>::of(node) };
                return Some((&item.key, &item.value));
            }
        }
    }
}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
