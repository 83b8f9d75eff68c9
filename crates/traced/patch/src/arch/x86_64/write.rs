//! Stores to code that others execute, and what makes a core see them.

use super::site::HOP;
use core::arch::asm;
use core::arch::x86_64::__cpuid;

/// Stores a byte by an instruction of its own, which no compiler moves, merges or splits.
///
/// # Safety
/// The byte at `addr` is writable, and may hold this as far as whatever runs it is concerned.
pub(crate) unsafe fn store(addr: usize, byte: u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mov byte ptr [{}], {}", in(reg) addr, in(reg_byte) byte, options(nostack, preserves_flags));
    }
}

/// Stores the bytes of a hop, or what takes its place, by one instruction. x86-64 stores may be unaligned.
///
/// # Safety
/// As [`store`].
pub(crate) unsafe fn store_pair(addr: usize, pair: [u8; HOP.len()]) {
    let pair = u16::from_le_bytes(pair);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mov word ptr [{}], {:x}", in(reg) addr, in(reg) pair, options(nostack, preserves_flags));
    }
}

/// Makes this core drop instructions that it fetched before (SDM vol. 3, "Serializing Instructions").
pub(crate) fn serialise() {
    let _ = __cpuid(0);
}
