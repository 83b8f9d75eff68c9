//! Sections of the object that assembly fills: directives only, which are the same for every processor.
//!
//! The two macros make and fill a table of [`crate::extable`].

/// Makes a table in the section of this name, and a function `(ip: u64) -> Option<u64>` that is
/// [`resume`](crate::extable::resume) for it.
#[macro_export]
macro_rules! exception_table {
    ($section:ident: $(#[$about:meta])* $reach:vis fn $look_up:ident) => {
        // An empty entry, so that the section and the linker's symbols for it exist in every object.
        ::core::arch::global_asm!(
            ::core::concat!(".pushsection ", ::core::stringify!($section), ",\"aR\",@progbits"),
            ".balign 4",
            ".long 0, 0",
            ".popsection",
            ::core::concat!(".hidden __start_", ::core::stringify!($section)),
            ::core::concat!(".hidden __stop_", ::core::stringify!($section)),
        );

        $(#[$about])*
        $reach fn $look_up(ip: u64) -> ::core::option::Option<u64> {
            unsafe extern "C" {
                #[link_name = ::core::concat!("__start_", ::core::stringify!($section))]
                static FIRST: $crate::extable::Entry;
                #[link_name = ::core::concat!("__stop_", ::core::stringify!($section))]
                static END: $crate::extable::Entry;
            }
            // SAFETY: the linker makes the section of whole entries, from first to end.
            unsafe { $crate::extable::resume(&raw const FIRST, &raw const END, ip) }
        }
    };
}

/// Assembly for an entry of a table: the instruction at a label, and the label where to go on.
#[macro_export]
macro_rules! exception {
    ($section:ident, $instruction:literal => $resume:literal) => {
        ::core::concat!(
            ".pushsection ",
            ::core::stringify!($section),
            ",\"aR\",@progbits\n",
            ".balign 4\n",
            ".long ",
            $instruction,
            " - .\n",
            ".long ",
            $resume,
            " - .\n",
            ".popsection",
        )
    };
}
