//! x86-64. See [`crate::arch`] for what each item is.

use super::Ring;
use mote_sync::rseq;
use std::arch::asm;
use std::mem::offset_of;

// As the sequence has them.
const _: () = assert!(size_of::<Ring>() == 64 && offset_of!(Ring, pos) == 0 && offset_of!(Ring, limit) == 8);
const _: () = assert!(offset_of!(Ring, data) == 16 && offset_of!(Ring, mask) == 24);

/// The sequence, with the instructions that write the fields.
macro_rules! bare {
    ($rings:ident, $area:ident, $id:ident, $bytes:literal, [$($copy:literal),*] $($operand:tt)*) => {{
        let full: u64;
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "2:",
            ".long 0, 0",
            ".quad 3f, (5f - 3f), 4f",
            ".popsection",
            "6:",
            "lea {t}, [rip + 2b]",
            "mov [{rs} + {RSEQ_CS}], {t}",
            "3:",
            "mov {t:e}, [{rs} + {CPU_ID}]",
            "shl {t}, 6",
            "add {t}, {rings}",
            "mov {p}, [{t}]",
            ::core::concat!("lea {n}, [{p} + ", $bytes, "]"),
            "cmp {n}, [{t} + 8]",
            "ja 7f",
            "mov {d}, {p}",
            "and {d}, [{t} + 24]",
            "add {d}, [{t} + 16]",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "shl rax, 16",
            "or rax, {id}",
            "mov [{d}], rax",
            "mov eax, fs:[0x10]",
            "mov [{d} + 8], eax",
            $($copy,)*
            "mov [{t}], {n}",
            "5:",
            "xor eax, eax",
            "jmp 9f",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "4:",
            "jmp 6b",
            "7:",
            "mov eax, 1",
            "9:",
            RSEQ_CS = const rseq::RSEQ_CS,
            CPU_ID = const rseq::CPU_ID,
            SIGNATURE = const rseq::SIGNATURE,
            rs = in(reg) $area,
            rings = in(reg) $rings,
            id = in(reg) $id,
            t = out(reg) _,
            p = out(reg) _,
            n = out(reg) _,
            d = out(reg) _,
            out("rax") full,
            out("rdx") _,
            $($operand)*
            options(nostack),
        );
        full == 0
    }};
}

/// Writes a record of 24 bytes; false when the sub-buffer is full.
///
/// # Safety
/// `rings` has a ring with memory for the CPU that the thread stays on.
#[inline(never)]
pub(crate) unsafe fn write_two(
    rings: *const Ring,
    area: *mut rseq::Area,
    id: u64,
    fields: &[u64; 2],
) -> bool {
    let from = fields.as_ptr();
    // SAFETY: the sequence touches the thread's own area and the ring of its CPU only, the caller's promise. The
    // mapping has a page more than the ring, for the record that goes over its end.
    unsafe {
        bare!(
            rings, area, id, "24",
            ["mov rdx, [{from}]", "mov [{d} + 12], rdx", "mov edx, [{from} + 8]", "mov [{d} + 20], edx"]
            from = in(reg) from,
        )
    }
}

/// As [`write_two`], of a record without fields: 12 bytes.
///
/// # Safety
/// As [`write_two`].
#[inline(never)]
pub(crate) unsafe fn write_none(rings: *const Ring, area: *mut rseq::Area, id: u64) -> bool {
    // SAFETY: as in `write_two`.
    unsafe { bare!(rings, area, id, "12", []) }
}
