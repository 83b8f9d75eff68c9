//! x86-64: the thread pointer is the base of `fs`, and a word's distance from it stands in the global offset table
//! (ELF TLS ABI, variant II, initial-exec).

use core::arch::asm;

/// Part of `ud1`, which a disassembler reads over.
pub(crate) const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// The address that `fs:0` holds.
#[inline(always)]
pub(crate) fn thread_pointer() -> *mut u8 {
    let pointer;
    // SAFETY: on x86-64 Linux `fs:0` holds its own address (ELF TLS ABI, variant II).
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    pointer
}

/// The calling thread's copy of a word of [`define_word!`](crate::define_word), which is in the same object. Never
/// cached: a signal's handler may write it.
#[macro_export]
macro_rules! load_word {
    ($name:expr) => {{
        let word: u64;
        // SAFETY: reads the thread's own copy of the initialised TLS word.
        unsafe {
            ::core::arch::asm!(
                ::core::concat!("mov {word}, qword ptr [rip + ", $name, "@gottpoff]"),
                "mov {word}, qword ptr fs:[{word}]",
                word = out(reg) word,
                options(readonly, nostack, preserves_flags),
            );
        }
        word
    }};
}

/// Writes the calling thread's copy of a word of [`define_word!`](crate::define_word), which is in the same object. No
/// access to memory moves across it.
#[macro_export]
macro_rules! store_word {
    ($name:expr, $word:expr) => {{
        let word: u64 = $word;
        // SAFETY: writes the thread's own copy of the TLS word, which no other thread accesses.
        unsafe {
            ::core::arch::asm!(
                ::core::concat!("mov {offset}, qword ptr [rip + ", $name, "@gottpoff]"),
                "mov qword ptr fs:[{offset}], {word}",
                offset = out(reg) _,
                word = in(reg) word,
                options(nostack, preserves_flags),
            );
        }
    }};
}
