//! Copies by machine instructions.

use core::arch::asm;

/// Copies bytes as `mem::copy_shared` says: `rep movsb` for large ones, 32 bytes at a time for others.
///
/// # Safety
/// `len` bytes are readable at `from` and writable at `to`, and the two do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_shared(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: reads `len` bytes at `from` and writes as many at `to`, the caller's promise; the direction flag is clear
    // by the calling convention. Without `nomem`: the compiler takes it for a function that it does not know.
    unsafe {
        asm!(
            "cmp rcx, 768",
            "jae 7f",
            "sub rcx, 32",
            "jb 3f",
            "2:",
            "movups {low}, [rsi]",
            "movups {high}, [rsi + 16]",
            "movups [rdi], {low}",
            "movups [rdi + 16], {high}",
            "add rsi, 32",
            "add rdi, 32",
            "sub rcx, 32",
            "jae 2b",
            // What is left: the five low bits of the length are as they were.
            "3:",
            "and ecx, 31",
            "4:",
            "sub ecx, 8",
            "jb 5f",
            "mov {word}, [rsi]",
            "mov [rdi], {word}",
            "add rsi, 8",
            "add rdi, 8",
            "jmp 4b",
            // And now the three low ones.
            "5:",
            "test cl, 4",
            "jz 6f",
            "mov {word:e}, [rsi]",
            "mov [rdi], {word:e}",
            "add rsi, 4",
            "add rdi, 4",
            "6:",
            "and ecx, 3",
            "jz 8f",
            "7:",
            "rep movsb",
            "8:",
            word = out(reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            inout("rcx") len => _,
            options(nostack),
        );
    }
}
