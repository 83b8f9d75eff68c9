//! The thread pointer, and a few thread-local words that are safe on a probe.
//!
//! `std::thread_local!` in a shared object compiles to a call to `__tls_get_addr`, which may
//! allocate on first use. The words here are initial-exec: their offset from the thread pointer is a
//! constant of the process that the dynamic linker stores in the global offset table.

use crate::arch::{load_word_at, store_word_at};
use crate::{define_word, load_word, store_word};

define_word!("mote_thread_id", "8");
define_word!("mote_thread_speculation", "64");
define_word!("mote_thread_slot", "8");
define_word!("mote_thread_writes", "8");

/// The thread pointer: the address that thread-local words and the thread's rseq area lie beside.
#[inline(always)]
pub fn pointer() -> *mut u8 {
    crate::arch::thread_pointer()
}

/// The calling thread's id as noted by [`set_id`]; 0 before that and in a fresh thread.
#[inline(always)]
pub fn id() -> u32 {
    load_word!("mote_thread_id") as u32
}

/// Notes the calling thread's id; 0 makes it unknown again, as after fork.
#[inline]
pub fn set_id(id: u32) {
    store_word!("mote_thread_id", u64::from(id));
}

/// How many words [`speculation`] has.
pub const SPECULATIONS: usize = 8;

/// Where the calling thread keeps records aside for the session `session`, as noted by [`set_speculation`]; 0 in a
/// fresh thread. Of sessions from [`SPECULATIONS`] on there is none.
#[inline(always)]
pub fn speculation(session: usize) -> u64 {
    if session >= SPECULATIONS {
        return 0;
    }
    // SAFETY: the word is one of `SPECULATIONS`.
    unsafe { load_word_at(session) }
}

/// Notes where the calling thread keeps records aside for the session `session`; what the number means is its caller's
/// affair.
#[inline]
pub fn set_speculation(session: usize, word: u64) {
    if session >= SPECULATIONS {
        return;
    }
    // SAFETY: the word is one of `SPECULATIONS`.
    unsafe { store_word_at(session, word) };
}

/// What the calling thread knows of its slot in the memory that it shares with the kernel's programs, as noted by
/// [`set_slot`]; 0 in a fresh thread.
#[inline(always)]
pub fn slot() -> u64 {
    load_word!("mote_thread_slot")
}

/// Notes what the calling thread knows of its slot; what the number means is its caller's affair.
#[inline]
pub fn set_slot(slot: u64) {
    store_word!("mote_thread_slot", slot);
}

/// How many writes of the ring's atomic writer are under way in the calling thread, one interrupted by the next, as
/// noted by [`set_writes`]; 0 in a fresh thread.
#[inline(always)]
pub fn writes() -> u64 {
    load_word!("mote_thread_writes")
}

/// Notes how many writes are under way. No access to memory moves across it.
#[inline(always)]
pub fn set_writes(writes: u64) {
    store_word!("mote_thread_writes", writes);
}

#[cfg(test)]
mod tests {
    extern crate std;

    #[test]
    fn each_thread_has_its_own_word() {
        super::set_id(7);
        let other = std::thread::spawn(|| {
            let fresh = super::id();
            super::set_id(9);
            (fresh, super::id())
        });
        assert_eq!(other.join().expect("thread ends"), (0, 9));
        assert_eq!(super::id(), 7);
        super::set_speculation(2, u64::MAX - 1);
        super::set_speculation(super::SPECULATIONS, 5);
        let all = || std::array::from_fn::<u64, 9, _>(super::speculation);
        assert_eq!((all(), super::id()), ([0, 0, u64::MAX - 1, 0, 0, 0, 0, 0, 0], 7));
        assert_eq!(std::thread::spawn(all).join().expect("thread ends"), [0; 9]);
        super::set_slot(5);
        assert_eq!((super::speculation(2), super::slot()), (u64::MAX - 1, 5));
        assert_eq!(std::thread::spawn(super::slot).join().expect("thread ends"), 0);
        super::set_writes(3);
        assert_eq!((super::slot(), super::writes()), (5, 3));
        assert_eq!(std::thread::spawn(super::writes).join().expect("thread ends"), 0);
    }
}
