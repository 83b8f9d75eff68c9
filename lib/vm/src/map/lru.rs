//! Which entry of an LRU hash gives way: a clock (second chance).
//!
//! Use sets a bit in the entry's mark. The hand goes round the nodes: where the bit is set it clears it, where it is
//! not, the entry is deleted. So an entry that was used since the hand's last visit stays for one more round.
//!
//! # Progress
//! The hand moves at most [`LOOKS_MAX`] nodes for one insertion; then the next entry goes whether it was used or not.

use super::hash::{Find, Hash, Spare};
use super::key::{KEY_WORDS, Key, USED};
use super::memory::Memory;
use super::place::HAND;

/// Most nodes that one insertion looks at before it takes any entry.
const LOOKS_MAX: usize = 1024;
/// And most that it looks at in all: nodes that are no entries are passed by.
const GIVE_UP: usize = 2 * LOOKS_MAX;

/// Makes room by deleting what was not used for long.
pub(crate) struct Clock;

impl<M: Memory> Spare<M> for Clock {
    fn make(&self, hash: &Hash<M>) -> bool {
        (0..GIVE_UP).any(|look| evict(hash, look >= LOOKS_MAX))
    }
}

/// Notes that an entry is used.
#[inline(always)]
pub(crate) fn touch<M: Memory>(hash: &Hash<M>, node: usize) {
    let at = hash.place.mark(node);
    let mark = hash.memory.peek(at);
    // Most of the time it is set, and the cache line stays shared.
    if mark & USED == 0 {
        hash.memory.put(at, mark | USED);
    }
}

/// Moves the hand by one node; true when an entry went.
fn evict<M: Memory>(hash: &Hash<M>, used_too: bool) -> bool {
    let node = (hash.memory.add(HAND, 1).checked_rem(hash.place.entries as u64).unwrap_or(0)) as usize;
    let at = hash.place.mark(node);
    let mark = hash.memory.peek(at);
    if mark & USED != 0 && !used_too {
        hash.memory.put(at, mark & !USED);
        return false;
    }
    let mut words = [0; KEY_WORDS];
    let Some(words) = words.get_mut(..hash.place.key_words) else { return false };
    let is_entry = hash.visit(node, |memory, key, _| {
        words.iter_mut().enumerate().for_each(|(i, word)| *word = memory.peek(key + i));
    });
    if !is_entry {
        return false;
    }
    let key = Key::new(words);
    match hash.find(&key) {
        Find::Found(found) if found.node == node => hash.delete_found(&key, found),
        _ => false,
    }
}
