//! Iteration over a hash table while it changes.

use super::chain::{Item, Link, Target};
use core::fmt;
use core::marker::PhantomData;

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
}

impl<'g, K, V> Iterator for Iter<'g, K, V> {
    type Item = (&'g K, &'g V);

    fn next(&mut self) -> Option<(&'g K, &'g V)> {
        loop {
            match self.at.target() {
                Target::Item(node) => {
                    // SAFETY: an item, linked, and kept while the section lasts (`chain-retired-unlinked`).
                    let item = unsafe { Item::<K, V>::of(node) };
                    let next = item.next();
                    self.at = next.kept();
                    if !next.is_removed() {
                        return Some((&item.key, &item.value));
                    }
                }
                // SAFETY: as above.
                Target::Bucket(bucket) => self.at = unsafe { bucket.as_ref() }.next().kept(),
                Target::End => return None,
            }
        }
    }
}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").finish_non_exhaustive()
    }
}
