//! The code that bodies of functions call (`mote_layout::functions`) whose calls are counted where no library of ours
//! is: it adds one to the function's count, which all threads share, and changes neither registers nor flags.

use core::arch::global_asm;
use mote_layout::functions::RECORD_AT;

/// Bytes of `call [rip + distance]`, with which a body begins.
const CALL: u64 = 6;

unsafe extern "C" {
    static mote_count_begin: u8;
    static mote_count_end: u8;
}

/// The code, which works at any address. It finds the address of the function's count in the word that is for the
/// library's record of the function.
pub(crate) fn code() -> &'static [u8] {
    // SAFETY: all between these labels is one piece of read-only data of this program.
    unsafe { super::between(&raw const mote_count_begin, &raw const mote_count_end) }
}

// On the stack at entry: where the body goes on.
global_asm!(
    ".pushsection .rodata.mote_count,\"a\",@progbits",
    ".balign 16",
    ".globl mote_count_begin",
    ".hidden mote_count_begin",
    "mote_count_begin:",
    "push rax",
    "lahf",
    "seto al",
    "push rax",
    "mov rax, [rsp + 16]",
    "mov rax, [rax - {call} - {record_at}]",
    "lock inc qword ptr [rax]",
    "pop rax",
    // The overflow flag: 1 + 127 overflows.
    "add al, 127",
    "sahf",
    "pop rax",
    "ret",
    ".globl mote_count_end",
    ".hidden mote_count_end",
    "mote_count_end:",
    ".popsection",
    call = const CALL,
    record_at = const RECORD_AT,
);
