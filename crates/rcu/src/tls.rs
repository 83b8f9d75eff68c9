//! Thread-local words, initial-exec: nothing is allocated on first use, a handler may read them at any moment.
//!
//! As `mote_sync::thread`: a word in `.tbss` whose distance from the thread pointer the linker knows. `std::thread_local!` in
//! a shared object would call `__tls_get_addr`.

/// Defines a module with `get` and `set` of one thread-local word that is 0 in a new thread.
macro_rules! thread_word {
    ($name:ident, $symbol:literal) => {
        mod $name {
            core::arch::global_asm!(
                concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
                ".balign 8",
                concat!(".hidden ", $symbol),
                concat!(".weak ", $symbol),
                concat!(".type ", $symbol, ",@tls_object"),
                concat!(".size ", $symbol, ", 8"),
                concat!($symbol, ": .zero 8"),
                ".popsection",
            );

            /// The calling thread's word.
            #[inline(always)]
            pub(super) fn get() -> usize {
                let word: usize;
                // SAFETY: reads the thread's own copy of a TLS word of this object. Not pure: a handler may write it.
                unsafe {
                    core::arch::asm!(
                        concat!("mov {word}, qword ptr [rip + ", $symbol, "@gottpoff]"),
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
                        concat!("mov {offset}, qword ptr [rip + ", $symbol, "@gottpoff]"),
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
