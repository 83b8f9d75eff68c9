//! Tables of instructions that may fail, and of where a thread goes on then. As the kernel's `_ASM_EXTABLE`.
//!
//! A table is a section of the object ([`exception_table!`](crate::exception_table)); assembly adds to it where it is written
//! ([`exception!`](crate::exception)); a signal's handler looks an instruction up in it.

/// One entry: distances from its own words.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    instruction: i32,
    resume: i32,
}

const _: () = assert!(size_of::<Entry>() == 8);

/// Where a thread goes on whose instruction at `ip` failed, if an entry says so.
///
/// # Cost
/// Linear in the entries.
///
/// # Signal safety
/// Reads constants only.
///
/// # Safety
/// From `first` to `end` there are whole entries.
pub unsafe fn resume(first: *const Entry, end: *const Entry, ip: u64) -> Option<u64> {
    let mut entry = first;
    while entry < end {
        // SAFETY: the caller's promise.
        let Entry { instruction, resume } = unsafe { entry.read() };
        let at = entry as u64;
        // The empty entry would be found at its own address, where nothing is executed.
        if at.wrapping_add_signed(instruction.into()) == ip {
            return Some((at + 4).wrapping_add_signed(resume.into()));
        }
        entry = entry.wrapping_add(1);
    }
    None
}

/// Makes a table in the section of this name, and a function `(ip: u64) -> Option<u64>` that is [`resume`](crate::extable::resume) for it.
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
