//! Adding one to a count: the code for functions whose calls are counted (`counts`).
//!
//! # The sequence
//! One restartable sequence (rseq(2); linux/rseq.h): it begins when its descriptor is in the thread's area, reads the
//! CPU's number, takes that CPU's row, and ends with the store of the sum. Whatever interrupts it before that store
//! makes it begin again. The handler for that is the beginning itself; the signature that has to stand in front of it
//! is the displacement of a NOP. A thread that has no registration finds no row, and goes to the code with a lock.

use core::arch::global_asm;
use core::mem::offset_of;
use mote_agent::{Counter, Function};
use mote_layout::functions::RECORD_AT;
use mote_sync::rseq;

/// Bytes of `call [rip + distance]`, with which a body begins.
pub(super) const CALL: u64 = 6;

unsafe extern "C" {
    fn mote_function_count();
    fn mote_function_count_locked();
}

/// The code that bodies of functions call whose entries are counted; in a process with restartable sequences if that is
/// so.
pub(crate) fn entry_counted(has_sequences: bool) -> usize {
    if has_sequences {
        mote_function_count as *const () as usize
    } else {
        mote_function_count_locked as *const () as usize
    }
}

/// Adds one to the word that lies `$offset` bytes behind the first of a function, whose counter is in `rdx`; changes
/// `rax`, `rcx` and the flags. For code that names `rseq_cs`, `cpu_id`, `signature`, `rows` and `at`.
macro_rules! count {
    ($offset:literal) => {
        concat!(
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "22: .long 0, 0\n",
            ".quad 23f, (25f - 23f), 26f\n",
            ".popsection\n",
            "mov rcx, [rip + mote_rseq_offset]\n",
            // Where sequences were not found, it is the number whose double is 0.
            "lea rax, [rcx + rcx]\n",
            "test rax, rax\n",
            "jz 27f\n",
            ".byte 0x0f, 0x1f, 0x05\n",
            ".long {signature}\n",
            "26:\n",
            "mov rcx, [rip + mote_rseq_offset]\n",
            "lea rax, [rip + 22b]\n",
            "mov fs:[rcx + {rseq_cs}], rax\n",
            "23:\n",
            "movsxd rcx, dword ptr fs:[rcx + {cpu_id}]\n",
            "mov rax, [rdx + {rows}]\n",
            "mov rcx, [rax + rcx * 8]\n",
            "test rcx, rcx\n",
            "jz 27f\n",
            "add rcx, [rdx + {at}]\n",
            "inc qword ptr [rcx + ",
            $offset,
            "]\n",
            "25:\n",
            "jmp 28f\n",
            "27:\n",
            "mov rax, [rdx + {at}]\n",
            "lock inc qword ptr [rax + ",
            $offset,
            "]\n",
            "28:\n",
        )
    };
}
pub(super) use count;

// On the stack at entry: where the body goes on. It changes no flags: nothing has to keep them.
global_asm!(
    ".pushsection .text.mote_function,\"ax\",@progbits",
    ".pushsection __rseq_cs, \"aw\"",
    ".balign 32",
    "2: .long 0, 0",
    ".quad 3f, (5f - 3f), 6f",
    ".popsection",
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_count",
    ".hidden mote_function_count",
    ".type mote_function_count,@function",
    "mote_function_count:",
    // Its frame ends behind the return address of the function (`code`).
    ".cfi_startproc",
    ".cfi_def_cfa_offset 16",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "push rcx",
    ".cfi_adjust_cfa_offset 8",
    ".byte 0x0f, 0x1f, 0x05",
    ".long {signature}",
    "6:",
    "mov rcx, [rip + mote_rseq_offset]",
    "lea rax, [rip + 2b]",
    "mov fs:[rcx + {rseq_cs}], rax",
    "3:",
    "movsxd rcx, dword ptr fs:[rcx + {cpu_id}]",
    "mov rax, [rsp + 16]",
    "mov rax, [rax - {call} - {record_at}]",
    // Read once: another one may come. It is kept where handlers of signals leave 128 bytes alone.
    "mov rax, [rax + {counter}]",
    "mov [rsp - 8], rax",
    "mov rax, [rax + {rows}]",
    "mov rcx, [rax + rcx * 8]",
    "jrcxz 9f",
    "mov rax, [rsp - 8]",
    "mov rax, [rax + {at}]",
    "lea rcx, [rcx + rax]",
    "mov rax, [rcx]",
    "lea rax, [rax + 1]",
    "mov [rcx], rax",
    "5:",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_def_cfa_offset 32",
    "9:",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "jmp mote_function_count_locked",
    ".cfi_endproc",
    ".size mote_function_count, . - mote_function_count",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_count_locked",
    ".hidden mote_function_count_locked",
    ".type mote_function_count_locked,@function",
    "mote_function_count_locked:",
    ".cfi_startproc",
    ".cfi_def_cfa_offset 16",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "lahf",
    "seto al",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "mov rax, [rsp + 16]",
    "mov rax, [rax - {call} - {record_at}]",
    "mov rax, [rax + {counter}]",
    "mov rax, [rax + {at}]",
    "lock inc qword ptr [rax]",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    // The overflow flag: 1 + 127 overflows.
    "add al, 127",
    "sahf",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size mote_function_count_locked, . - mote_function_count_locked",
    ".popsection",
    rseq_cs = const rseq::RSEQ_CS,
    cpu_id = const rseq::CPU_ID,
    signature = const rseq::SIGNATURE,
    call = const CALL,
    record_at = const RECORD_AT,
    counter = const offset_of!(Function, counter),
    rows = const offset_of!(Counter, rows),
    at = const offset_of!(Counter, at),
);
