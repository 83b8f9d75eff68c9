//! The memory of a map, as words that any thread or process may change at any moment.
//!
//! All that maps do to their memory goes through [`Memory`]: the map's logic has no pointers, and a model checker can
//! put its own atomics below it. [`Words`] is the real one: a range of bytes, of which no word outside is ever touched,
//! whatever the words inside say.

use mote_sync::atomic::{AtomicU64, Ordering, fence};

/// Words of 8 bytes by index. Outside of its bounds reads give 0 and writes are forgotten.
///
/// # Ordering
/// `load` acquires, `swap_if` and `add` acquire and release. `peek` and `put` order nothing: they are for contents,
/// between [`before_contents`] and [`after_contents`] or an exchange.
pub(crate) trait Memory: Copy {
    /// Reads, acquiring.
    fn load(self, at: usize) -> u64;
    /// Reads.
    fn peek(self, at: usize) -> u64;
    /// Writes.
    fn put(self, at: usize, value: u64);
    /// Writes, releasing.
    fn publish(self, at: usize, value: u64);
    /// Writes `new` where `old` is; true when it was there.
    #[must_use]
    fn swap_if(self, at: usize, old: u64, new: u64) -> bool;
    /// Adds, wrapping, and gives what was there.
    fn add(self, at: usize, delta: u64) -> u64;
}

/// What was written before is seen by each thread that sees any content that is written after.
///
/// Pairs with [`after_contents`]: a reader that met a new content meets the state before it, too.
pub(crate) fn before_contents() {
    fence(Ordering::Release);
}

/// What is read after is not older than the contents that were read before. Pairs with [`before_contents`].
pub(crate) fn after_contents() {
    fence(Ordering::Acquire);
}

/// A range of the address space: words that other threads and processes change too.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    base: *mut u64,
    count: usize,
}

// SAFETY: the range outlives each copy (promise at `new`), and is only accessed by atomic operations.
#[cfg(not(loom))]
unsafe impl Send for Words {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Words {}

#[cfg(not(loom))]
impl Words {
    /// The words from `base` on.
    ///
    /// # Safety
    /// `base` is aligned to 8, and `count` words from it are mapped, readable and writable, as long as this value or a
    /// copy of it is used. Other code accesses them by atomic operations, or in machine code.
    pub(crate) unsafe fn new(base: *mut u8, count: usize) -> Words {
        Words { base: base.cast(), count }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> Option<&AtomicU64> {
        if at >= self.count {
            return None;
        }
        // SAFETY: `map-access-checked`: `at` lies inside the range, checked above.
        let place = unsafe { self.base.add(at) };
        // SAFETY: aligned and mapped by the promise at `new`; others access it atomically.
        Some(unsafe { AtomicU64::from_ptr(place) })
    }

    /// Address of a word, for programs; that of the base when there is no such word.
    #[inline(always)]
    pub(crate) fn address(&self, at: usize) -> u64 {
        let at = if at < self.count { at } else { 0 };
        self.base.wrapping_add(at) as u64
    }
}

#[cfg(not(loom))]
impl Memory for Words {
    #[inline(always)]
    fn load(self, at: usize) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    #[inline(always)]
    fn peek(self, at: usize) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn put(self, at: usize, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn publish(self, at: usize, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    #[inline(always)]
    fn swap_if(self, at: usize, old: u64, new: u64) -> bool {
        self.word(at)
            .is_some_and(|word| word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    #[inline(always)]
    fn add(self, at: usize, delta: u64) -> u64 {
        self.word(at).map_or(0, |word| word.fetch_add(delta, Ordering::AcqRel))
    }
}

/// The words of a model: loom's atomics.
///
/// Each access is followed by one of word 0 that changes nothing and orders nothing. Loom looks for another order of
/// two accesses only if one was the last of its word before the other, so a thread that reads a word before it writes
/// it would hide that others read it, too; with the common word no order is left out.
#[cfg(loom)]
impl Memory for &[AtomicU64] {
    fn load(self, at: usize) -> u64 {
        with_turn(self, |words| words.get(at).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    fn peek(self, at: usize) -> u64 {
        with_turn(self, |words| words.get(at).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    fn put(self, at: usize, value: u64) {
        with_turn(self, |words| words.get(at).map(|word| word.store(value, Ordering::Relaxed)));
    }

    fn publish(self, at: usize, value: u64) {
        with_turn(self, |words| words.get(at).map(|word| word.store(value, Ordering::Release)));
    }

    fn swap_if(self, at: usize, old: u64, new: u64) -> bool {
        let swap = |word: &AtomicU64| word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed);
        with_turn(self, |words| words.get(at).is_some_and(|word| swap(word).is_ok()))
    }

    fn add(self, at: usize, delta: u64) -> u64 {
        with_turn(self, |words| words.get(at).map_or(0, |word| word.fetch_add(delta, Ordering::AcqRel)))
    }
}

#[cfg(loom)]
fn with_turn<R>(words: &[AtomicU64], access: impl FnOnce(&[AtomicU64]) -> R) -> R {
    let result = access(words);
    if let Some(first) = words.first() {
        first.fetch_add(0, Ordering::Relaxed);
    }
    result
}
