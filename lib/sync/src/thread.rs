//! The thread pointer, and the thread's id in a thread-local word that handlers may read at any moment.
//!
//! `std::thread_local!` in a shared object compiles to a call to `__tls_get_addr`, which may
//! allocate on first use. Words of [`define_word!`](crate::define_word), of which this is one, are initial-exec: their
//! offset from the thread pointer is a constant of the process that the dynamic linker stores in the global offset
//! table.

use crate::{define_word, load_word, store_word};

// Assembly of the same object reads it by its name.
define_word!("mote_thread_id", "8");

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
    }
}
