//! What the calling thread knows of its slot: a thread-local word, which only this thread and its handlers touch. What
//! is in it, [`super`] says.

use mote_sync::{define_word, load_word, store_word};

define_word!("mote_thread_slot", "8");

/// The word as noted by [`set`]; 0 in a fresh thread.
#[inline(always)]
pub(super) fn get() -> u64 {
    load_word!("mote_thread_slot")
}

/// Notes what the thread knows.
#[inline]
pub(super) fn set(word: u64) {
    store_word!("mote_thread_slot", word);
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn each_thread_has_its_own_word() {
        let of_new_thread = || {
            let fresh = super::get();
            super::set(5);
            (fresh, super::get())
        };
        assert_eq!(std::thread::spawn(of_new_thread).join().expect("thread ends"), (0, 5));
        assert_eq!(std::thread::spawn(of_new_thread).join().expect("thread ends"), (0, 5));
    }
}
