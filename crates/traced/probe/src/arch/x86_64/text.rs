//! A short text as a number, by one load that reaches beyond its end.
//!
//! Memory can be read or not by whole pages: where a text's first byte can be read, so can the other bytes of its page.
//! What lies behind the text may change at any time, and does not count.

use core::arch::asm;

/// For each number of bytes: the bits of so many bytes, and a 1 in each of them.
#[repr(C)]
struct Masks {
    bits: [u64; 8],
    ones: [u64; 8],
}

const _: () = assert!(core::mem::offset_of!(Masks, ones) == 64);

const fn low(pattern: u64) -> [u64; 8] {
    [
        0,
        pattern >> 56,
        pattern >> 48,
        pattern >> 40,
        pattern >> 32,
        pattern >> 24,
        pattern >> 16,
        pattern >> 8,
    ]
}

static MASKS: Masks = Masks { bits: low(!0), ones: low(0x0101_0101_0101_0101) };

/// Whether 8 bytes from there on are in one page.
#[inline(always)]
pub(crate) fn is_in_one_page(from: *const u8) -> bool {
    from.addr() & 4095 <= 4096 - 8
}

/// The `len` bytes at `from`, zeros above. If one of them is 0, `nul` gets a highest bit of one of its bytes; other
/// bits of it are without meaning.
///
/// # Safety
/// `len` is below 8, the first byte can be read, and [`is_in_one_page`].
#[inline(always)]
pub(crate) unsafe fn short_text(from: *const u8, len: usize, nul: &mut u64) -> u64 {
    let value;
    let mut seen = *nul;
    // SAFETY: the load reads one page, of which the first byte can be read, the caller's promise; nothing is made of
    // what is behind the text. The tables have 8 numbers.
    unsafe {
        asm!(
            "mov {value}, [{from}]",
            "and {value}, [{masks} + 8 * {len}]",
            "mov {scratch}, {value}",
            "sub {scratch}, [{masks} + 8 * {len} + 64]",
            // The bits that it has, and the value has not.
            "or {scratch}, {value}",
            "xor {scratch}, {value}",
            "or {seen}, {scratch}",
            from = in(reg) from,
            len = in(reg) len,
            masks = in(reg) &raw const MASKS,
            value = out(reg) value,
            scratch = out(reg) _,
            seen = inout(reg) seen,
            options(readonly, nostack),
        );
    }
    *nul = seen;
    value
}
