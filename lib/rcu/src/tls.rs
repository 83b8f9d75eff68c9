//! Thread-local words, initial-exec: nothing is allocated on first use, a handler may read them at any moment.
//!
//! A word in `.tbss` whose distance from the thread pointer the linker knows (`mote_sync::define_word`).
//! `std::thread_local!` in a shared object would call `__tls_get_addr`.

/// Defines a module with `get` and `set` of one thread-local word, the slot's of a flavour, that is 0 in a new thread.
///
/// The word's name has the version in it: slots of another version of this crate in the same object are not in our
/// registry, and the linker makes symbols of one name one.
macro_rules! thread_word {
    ($name:ident, $flavor:literal) => {
        thread_word!(@named $name, concat!(
            "mote_rcu_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            $flavor,
            "_slot"
        ));
    };
    (@named $name:ident, $symbol:expr) => {
        mod $name {
            mote_sync::define_word!($symbol, "8");

            /// The calling thread's word.
            #[inline(always)]
            pub(super) fn get() -> usize {
                mote_sync::load_word!($symbol) as usize
            }

            /// Sets the calling thread's word.
            pub(super) fn set(word: usize) {
                mote_sync::store_word!($symbol, word as u64);
            }
        }
    };
}
pub(crate) use thread_word;
