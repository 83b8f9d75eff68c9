//! Whether the calling thread does work of ours: then calls of functions that have probes are not the program's.

use mote_sync::{define_word, load_word, store_word};

define_word!("mote_own_work", "8");

/// Whether the calling thread does work of ours.
///
/// # Signal safety
/// Callable from a handler, as [`set_own_work`].
#[inline(always)]
pub fn is_own_work() -> bool {
    load_word!("mote_own_work") != 0
}

/// Says whether it does from now on.
#[inline(always)]
pub fn set_own_work(is_own: bool) {
    store_word!("mote_own_work", u64::from(is_own));
}
