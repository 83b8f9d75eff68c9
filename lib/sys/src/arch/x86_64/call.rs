//! Entering the kernel, returning from its signals, and trapping into it.

use crate::Result;
use crate::raw::syscall;
use core::arch::{asm, naked_asm};

/// The kernel's answer: below 0 and not below -4095 an error.
///
/// # Safety
/// The caller answers for what the call does to memory and descriptors.
#[inline(always)]
pub(crate) unsafe fn system_call(number: libc::c_long, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the instruction clobbers rcx and r11 (SDM vol. 2, SYSCALL), which are declared; the
    // kernel's effect on memory is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// poll(2) for `count` entries at `polls`; returns how many are ready.
///
/// # Errors
/// `EINTR`, `ENOMEM`.
///
/// # Safety
/// There are `count` entries, which nothing else accesses meanwhile.
pub(crate) unsafe fn poll(polls: *mut libc::pollfd, count: usize, millis: i32) -> Result<usize> {
    // SAFETY: the caller's promise.
    unsafe { syscall(libc::SYS_poll, [polls as usize, count, millis as isize as usize, 0, 0, 0]) }
}

/// Address of the code that a handler returns to. It begins behind the function's leading NOP, see there.
pub(crate) fn restorer() -> usize {
    restorer_behind_nop as *const () as usize + 1
}

/// What a handler returns to: `mov rax, 15; syscall` (rt_sigreturn).
///
/// Unwinders and debuggers know a signal frame by exactly these nine bytes (gcc `MD_FALLBACK_FRAME_STATE_FOR`,
/// LLVM libunwind `setInfoForSigReturn`), and look one byte before a return address: hence the NOP,
/// which keeps that look inside this function.
#[unsafe(naked)]
extern "C" fn restorer_behind_nop() {
    naked_asm!("nop", ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05")
}

/// Raises SIGTRAP in the calling thread, which the kernel makes deadly while the thread blocks it.
///
/// # Safety
/// Whatever the process does about SIGTRAP is what is wanted.
pub(crate) unsafe fn breakpoint() {
    // SAFETY: the caller's promise.
    unsafe { asm!("int3") };
}
