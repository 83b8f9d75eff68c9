//! Thread-local words, initial-exec: nothing is allocated on first use, a handler may read them at any moment.
//!
//! As `mote_sync::thread`: a word in `.tbss` whose distance from the thread pointer the linker knows. `std::thread_local!` in
//! a shared object would call `__tls_get_addr`.

/// The name of a word. With the version: slots of another version of this crate in the same object are not in our registry, and the
/// linker makes symbols of one name one.
macro_rules! symbol {
    ($before:literal, $flavor:literal, $behind:literal) => {
        concat!(
            $before,
            "mote_rcu_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            $flavor,
            "_slot",
            $behind
        )
    };
}
pub(crate) use symbol;

/// Defines a module with `get` and `set` of one thread-local word, the slot's of a flavour, that is 0 in a new thread.
macro_rules! thread_word {
    ($name:ident, $flavor:literal) => {
        mod $name {
            use crate::tls::symbol;

            core::arch::global_asm!(
                symbol!(".pushsection .tbss.", $flavor, ",\"awT\",@nobits"),
                ".balign 8",
                symbol!(".hidden ", $flavor, ""),
                symbol!(".weak ", $flavor, ""),
                symbol!(".type ", $flavor, ",@tls_object"),
                symbol!(".size ", $flavor, ", 8"),
                symbol!("", $flavor, ": .zero 8"),
                ".popsection",
            );

            /// The calling thread's word.
            #[inline(always)]
            pub(super) fn get() -> usize {
                let word: usize;
                // SAFETY: reads the thread's own copy of a TLS word of this object. Not pure: a handler may write it.
                unsafe {
                    core::arch::asm!(
                        symbol!("mov {word}, qword ptr [rip + ", $flavor, "@gottpoff]"),
                        "mov {word}, qword ptr fs:[{word}]",
                        word = out(reg) word,
                        options(readonly, nostack, preserves_flags),
                    );
                }
                word
            }

            /// Sets the calling thread's word.
            pub(super) fn set(word: usize) {
                // SAFETY: writes the thread's own copy of a TLS word of this object, which nobody else accesses.
                unsafe {
                    core::arch::asm!(
                        symbol!("mov {offset}, qword ptr [rip + ", $flavor, "@gottpoff]"),
                        "mov qword ptr fs:[{offset}], {word}",
                        offset = out(reg) _,
                        word = in(reg) word,
                        options(nostack, preserves_flags),
                    );
                }
            }
        }
    };
}
pub(crate) use thread_word;
