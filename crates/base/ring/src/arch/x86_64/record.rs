//! Writing a record.
//!
//! # Registers
//! ```text
//! {rs} rseq area   {wr} channel   {ch} its rings now   {pl} payload   {len} its bytes   {tag}, {tid}
//! {c} control      {d} data       {p} pos        {x} scratch       rax time/index   rdx scratch
//! ```

use super::frame::sequence;
use crate::control::Control;
use crate::sequence::Large;
use crate::writer::{Rings, Writer};
use core::mem::offset_of;
use mote_sync::rseq;

/// Writes prefix and `len` bytes from `from`, in whole words.
///
/// # Safety
/// As [`Writer::write_words`].
#[inline(always)]
pub(crate) unsafe fn write_words(
    channel: &Writer,
    tag: u16,
    thread: u32,
    from: *const u8,
    len: usize,
) -> u32 {
    let end: u32;
    // SAFETY: the sequence
    // 1. touches the control words and data of the ring of the CPU that it runs on, which the mapping
    //    holds for ever (`Writer::map`), and finds it in the table behind `Rings`, which never changes;
    // 2. writes behind `pos` and inside the sub-buffer: `x` is the offset of the record's end plus the up
    //    to 7 bytes that the last word reaches over, and is compared with the sub-buffer's size;
    // 3. reads the payload's words, the caller's promise;
    // 4. ends with the store of `pos`; an abort before it goes to `4:`, and thence to the start.
    unsafe {
        sequence!(
            "mov {d}, [{x} + {TABLE} + 8]",
            "mov {p}, [{c}]",
            "mov {x}, {p}",
            "and {x}, [{ch} + {SUB_MASK}]",
            "lea {x}, [{x} + {len} + 19]",
            "cmp {x}, [{ch} + {SUB_BYTES}]",
            "jae 8f",
            "mov {x}, {p}",
            "and {x}, [{ch} + {RING_MASK}]",
            "add {d}, {x}",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "shl rax, 16",
            "or rax, {tag}",
            "mov [{d}], rax",
            "mov [{d} + 8], {tid:e}",
            "xor eax, eax",
            "test {len}, {len}",
            "jz 13f",
            "12:",
            "mov rdx, [{pl} + rax]",
            "mov [{d} + rax + 12], rdx",
            "add rax, 8",
            "cmp rax, {len}",
            "jb 12b",
            "13:",
            "lea {p}, [{p} + {len} + 12]";
            commit "mov [{c}], {p}";
            SUB_MASK = const offset_of!(Rings, sub_mask),
            SUB_BYTES = const offset_of!(Rings, sub_bytes),
            RING_MASK = const offset_of!(Rings, ring_mask),
            rs = in(reg) rseq::area(),
            wr = in(reg) channel,
            ch = out(reg) _,
            pl = in(reg) from,
            len = in(reg) len,
            tag = in(reg) u64::from(tag),
            tid = in(reg) thread,
            c = out(reg) _,
            d = out(reg) _,
            p = out(reg) _,
            x = out(reg) _,
            out("rax") end,
            out("rdx") _,
            options(nostack),
        );
    }
    end
}

/// Writes prefix and fragments. `now` is 0 where the clock is the TSC.
///
/// # Safety
/// The fragments are readable, and together as long as the record says, which fits into a sub-buffer.
pub(crate) unsafe fn write_fragments(channel: &Writer, large: &Large) -> u32 {
    let end: u32;
    // SAFETY: as in `write_words`; the fragments are readable, the caller's promise, and copied exactly.
    // Where the clock is not the TSC, `last_time` is written before `pos`: should the sequence be aborted
    // between the two, later records are only made to wait for a time that has passed already.
    unsafe {
        sequence!(
            "mov rdi, [{x} + {TABLE} + 8]",
            "mov {p}, [{c}]",
            "mov {x}, {p}",
            "and {x}, [{ch} + {SUB_MASK}]",
            "add {x}, [{la} + {LEN}]",
            "add {x}, 13",
            "cmp {x}, [{ch} + {SUB_BYTES}]",
            "jae 8f",
            "mov {x}, {p}",
            "and {x}, [{ch} + {RING_MASK}]",
            "add rdi, {x}",
            "mov rax, [{la} + {NOW}]",
            "test rax, rax",
            "jnz 12f",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "jmp 13f",
            "12:",
            "cmp rax, [{c} + {LAST_TIME}]",
            "jb 17f",
            "mov [{c} + {LAST_TIME}], rax",
            "13:",
            "shl rax, 16",
            "or rax, [{la} + {TAG}]",
            "mov [rdi], rax",
            "mov eax, [{la} + {THREAD}]",
            "mov [rdi + 8], eax",
            "add rdi, 12",
            "mov {x}, [{la} + {LIST}]",
            "14:",
            "cmp {x}, [{la} + {END}]",
            "je 15f",
            "mov rsi, [{x}]",
            "mov rcx, [{x} + 8]",
            "rep movsb",
            "add {x}, 16",
            "jmp 14b",
            "15:",
            "add {p}, [{la} + {LEN}]",
            "add {p}, 12";
            commit "mov [{c}], {p}";
            SUB_MASK = const offset_of!(Rings, sub_mask),
            SUB_BYTES = const offset_of!(Rings, sub_bytes),
            RING_MASK = const offset_of!(Rings, ring_mask),
            LAST_TIME = const offset_of!(Control, last_time),
            LEN = const offset_of!(Large, len),
            NOW = const offset_of!(Large, now),
            TAG = const offset_of!(Large, tag),
            THREAD = const offset_of!(Large, thread),
            LIST = const offset_of!(Large, list),
            END = const offset_of!(Large, end),
            rs = in(reg) rseq::area(),
            wr = in(reg) channel,
            ch = out(reg) _,
            la = in(reg) large,
            c = out(reg) _,
            p = out(reg) _,
            x = out(reg) _,
            out("rax") end,
            out("rcx") _,
            out("rdx") _,
            out("rsi") _,
            out("rdi") _,
            options(nostack),
        );
    }
    end
}
