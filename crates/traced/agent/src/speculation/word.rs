//! The calling thread's word of each session, which says where it keeps records aside: thread-local, and touched by
//! this thread and its handlers only. What is in it, [`super`] says.

use crate::arch::{load_word_at, store_word_at};
use mote_sync::define_word;
use mote_wire::SESSIONS_MAX;

define_word!("mote_thread_speculation", "64");
/// How many there are.
const WORDS: usize = 8;
const _: () = assert!(SESSIONS_MAX <= WORDS);

/// The word of this session, as noted by [`set`]; 0 in a fresh thread, and for sessions that cannot be.
#[inline(always)]
pub(super) fn get(session: usize) -> u64 {
    if session >= WORDS {
        return 0;
    }
    // SAFETY: there are `WORDS` words.
    unsafe { load_word_at(session) }
}

/// Notes the word of this session.
#[inline]
pub(super) fn set(session: usize, word: u64) {
    if session >= WORDS {
        return;
    }
    // SAFETY: there are `WORDS` words.
    unsafe { store_word_at(session, word) };
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn each_thread_has_its_own_words() {
        super::set(2, u64::MAX - 1);
        super::set(super::WORDS, 5);
        let all = || std::array::from_fn::<u64, 9, _>(super::get);
        assert_eq!(all(), [0, 0, u64::MAX - 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(std::thread::spawn(all).join().expect("thread ends"), [0; 9]);
        super::set(2, 0);
    }
}
