//! The function by which other copies of the library find return addresses that this one has replaced: they know it by
//! what stands in front of it. So do profilers, from outside (`mote_layout::stubs`).

use crate::stack;
use core::arch::global_asm;
use mote_agent::stack::Replaced;
use mote_layout::stack::FINDER;
use mote_layout::stubs::{VERSION, WORDS};

unsafe extern "C" {
    fn mote_function_find_replaced(
        calls: usize,
        from: usize,
        to: usize,
        into: *mut [usize; 2],
        room: usize,
    ) -> usize;
    fn mote_function_tops() -> Tops;
}

/// What the function returns in `rax` and `rdx`.
#[repr(C)]
struct Tops(u64, u64);

/// How far from a thread's pointer the words are that lead to its slots.
pub(crate) fn tops() -> [u64; WORDS] {
    // SAFETY: it changes what it returns in, and nothing else.
    let Tops(top, before) = unsafe { mote_function_tops() };
    [top, before]
}

/// As [`stack::replaced`].
pub(crate) fn finder() -> Replaced {
    mote_function_find_replaced
}

global_asm!(
    ".pushsection .text.mote_function_find,\"ax\",@progbits",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_tops",
    ".hidden mote_function_tops",
    ".type mote_function_tops,@function",
    "mote_function_tops:",
    ".cfi_startproc",
    "mov rax, [rip + mote_function_top@gottpoff]",
    "mov rdx, [rip + mote_function_top_before@gottpoff]",
    "ret",
    ".cfi_endproc",
    ".size mote_function_tops, . - mote_function_tops",
    ".balign 16",
    ".long 0, 0",
    ".long {version}",
    ".long {tops} - .",
    ".quad {first}, {second}",
    // For this library's other parts only.
    ".globl mote_function_find_replaced",
    ".hidden mote_function_find_replaced",
    ".type mote_function_find_replaced,@function",
    "mote_function_find_replaced:",
    "jmp {replaced}",
    ".size mote_function_find_replaced, . - mote_function_find_replaced",
    ".popsection",
    first = const FINDER[0],
    second = const FINDER[1],
    version = const VERSION,
    tops = sym stack::TOPS,
    replaced = sym stack::replaced,
);
