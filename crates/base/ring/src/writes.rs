//! How many writes of the atomic writer are under way in the calling thread, one interrupted by the next: a
//! thread-local word, which only this thread and its handlers touch.

use mote_sync::{define_word, load_word, store_word};

define_word!("mote_thread_writes", "8");

/// How many are under way, as noted by [`set`]; 0 in a fresh thread.
#[inline(always)]
pub(crate) fn get() -> u64 {
    load_word!("mote_thread_writes")
}

/// Notes how many are under way. No access to memory moves across it.
#[inline(always)]
pub(crate) fn set(writes: u64) {
    store_word!("mote_thread_writes", writes);
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn each_thread_counts_its_own() {
        super::set(3);
        assert_eq!(super::get(), 3);
        assert_eq!(std::thread::spawn(super::get).join().expect("thread ends"), 0);
        super::set(0);
    }
}
