//! Thread-local words in the object: directives only, which are the same for every processor.

/// Makes the thread-local word `$name` of `$bytes` bytes (both are texts), 0 in a fresh thread. Weak, because several
/// objects of one program may hold the crate that makes it; hidden, so that each object has its own.
#[macro_export]
macro_rules! define_word {
    ($name:expr, $bytes:literal) => {
        ::core::arch::global_asm!(
            ::core::concat!(".pushsection .tbss.", $name, ",\"awT\",@nobits"),
            ".balign 8",
            ::core::concat!(".hidden ", $name),
            ::core::concat!(".weak ", $name),
            ::core::concat!(".type ", $name, ",@tls_object"),
            ::core::concat!(".size ", $name, ", ", $bytes),
            ::core::concat!($name, ": .zero ", $bytes),
            ".popsection",
        );
    };
}

/// Makes the word `$name` that all threads share, with the value `$value` (both are texts): for assembly of the same
/// object, which reaches it without the linker's table. Weak and hidden, as with [`define_word!`](crate::define_word).
macro_rules! define_shared_word {
    ($name:expr, $value:literal) => {
        ::core::arch::global_asm!(
            ::core::concat!(".pushsection .data.", $name, ",\"aw\""),
            ".balign 8",
            ::core::concat!(".hidden ", $name),
            ::core::concat!(".weak ", $name),
            ::core::concat!(".type ", $name, ",@object"),
            ::core::concat!(".size ", $name, ", 8"),
            ::core::concat!($name, ": .quad ", $value),
            ".popsection",
        );
    };
}
pub(crate) use define_shared_word;
