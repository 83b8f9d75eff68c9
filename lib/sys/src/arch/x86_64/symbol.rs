//! Symbols that may not be there.

/// The address of a symbol that need not be defined, from the global offset table; null when it is not. The symbol is
/// weak in this object from then on, so that a program without it links and starts.
#[macro_export]
macro_rules! weak_symbol {
    ($name:literal) => {{
        let address: *const ();
        // SAFETY: reads the address that the linker has put into the table.
        unsafe {
            ::core::arch::asm!(
                ::core::concat!(".weak ", $name),
                ::core::concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        address
    }};
}
