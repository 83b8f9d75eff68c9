//! Adding one to a count: the code for functions whose calls are counted (`counts`).
//!
//! # The sequence
//! One restartable sequence (rseq(2); linux/rseq.h): it begins when its descriptor is in the thread's area, reads the
//! CPU's number, takes that CPU's row, and ends with the store of the sum. Whatever interrupts it before that store
//! makes it begin again. The handler for that is the beginning itself; the signature that has to stand in front of it
//! is the displacement of a NOP. A thread that has no registration finds no row, and goes to the code with a lock.
//!
//! # Copies
//! What bodies call may lie closer to them than this library does (`nearby`): in a page that begins with a [`Head`], to
//! which a copy of the code refers.

use core::arch::global_asm;
use core::mem::offset_of;
use mote_agent::{Counter, Function};
use mote_layout::functions::{COUNTING, RECORD_AT};
use mote_sync::rseq;

/// Bytes of `call [rip + distance]`, with which a body begins.
pub(super) const CALL: u64 = 6;

unsafe extern "C" {
    fn mote_function_count();
    fn mote_function_count_locked();
    static mote_counting: Head;
    static mote_counting_end: u8;
}

/// What stands before a copy of the code.
#[repr(C, align(32))]
struct Head {
    /// By which profilers know it.
    counting: u64,
    /// How far behind the thread pointer the area of sequences lies.
    area: isize,
    /// The code for threads without one.
    locked: usize,
    unused: u64,
    /// Of the sequence: the version; where it begins; its bytes; where its handler is.
    descriptor: [usize; 4],
}

/// Where a copy begins in its page.
pub(crate) const COUNTING_AT: usize = size_of::<Head>();

/// Writes a copy of the code that counts entries by sequences, behind what it refers to, to a page. The page is to be
/// read and executed only, and stays: the kernel reads it when a thread was in it last.
///
/// # Safety
/// The page is writable, and nothing refers to it. [`rseq::is_found`].
pub(crate) unsafe fn copy_counting(page: *mut u8) {
    let (from, end) = (&raw const mote_counting, &raw const mote_counting_end);
    // SAFETY: what is between these labels is less than a page, of this library, and read-only.
    unsafe { page.copy_from_nonoverlapping(from.cast(), end.addr() - from.addr()) };
    // SAFETY: it begins with one, and pages are aligned for any type.
    let head = unsafe { &mut *page.cast::<Head>() };
    let base = page.expose_provenance();
    head.area = rseq::offset();
    head.locked = mote_function_count_locked as *const () as usize;
    let [_, begin, _, again] = &mut head.descriptor;
    (*begin, *again) = (base + *begin, base + *again);
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

/// Adds one to the count of the function whose body has called this: on the stack is where the body goes on. It changes
/// no flags, and leaves the stack pointer where it is. Ends with a jump to code with a lock.
macro_rules! count_entry {
    (area: $area:literal, descriptor: $descriptor:literal, locked: $locked:literal) => {
        concat!(
            // Where handlers of signals leave 128 bytes alone.
            "mov [rsp - 8], rax\n",
            "mov [rsp - 16], rcx\n",
            ".byte 0x0f, 0x1f, 0x05\n",
            ".long {signature}\n",
            "6:\n",
            "mov rcx, [rip + ",
            $area,
            "]\n",
            "lea rax, [rip + ",
            $descriptor,
            "]\n",
            "mov fs:[rcx + {rseq_cs}], rax\n",
            "3:\n",
            "movsxd rcx, dword ptr fs:[rcx + {cpu_id}]\n",
            "mov rax, [rsp]\n",
            "mov rax, [rax - {call} - {record_at}]\n",
            // Read once: another one may come.
            "mov rax, [rax + {counter}]\n",
            "mov [rsp - 24], rax\n",
            "mov rax, [rax + {rows}]\n",
            "mov rcx, [rax + rcx * 8]\n",
            "jrcxz 9f\n",
            "mov rax, [rsp - 24]\n",
            "mov rax, [rax + {at}]\n",
            "lea rcx, [rcx + rax]\n",
            "mov rax, [rcx]\n",
            "lea rax, [rax + 1]\n",
            "mov [rcx], rax\n",
            "5:\n",
            "mov rcx, [rsp - 16]\n",
            "mov rax, [rsp - 8]\n",
            "ret\n",
            "9:\n",
            "mov rcx, [rsp - 16]\n",
            "mov rax, [rsp - 8]\n",
            "jmp ",
            $locked,
            "\n",
        )
    };
}

global_asm!(
    ".pushsection .rodata.mote_counting,\"a\",@progbits",
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_counting",
    ".hidden mote_counting",
    "mote_counting:",
    ".quad {counting}",
    "7: .quad 0",
    "8: .quad 0, 0",
    // The copy adds where it is.
    "2: .quad 0, 3f - mote_counting, 5f - 3f, 6f - mote_counting",
    count_entry!(area: "7b", descriptor: "2b", locked: "[rip + 8b]"),
    // For this library's other parts only.
    ".globl mote_counting_end",
    ".hidden mote_counting_end",
    "mote_counting_end:",
    ".popsection",
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
    count_entry!(area: "mote_rseq_offset", descriptor: "2b", locked: "mote_function_count_locked"),
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
    counting = const COUNTING,
    call = const CALL,
    record_at = const RECORD_AT,
    counter = const offset_of!(Function, counter),
    rows = const offset_of!(Counter, rows),
    at = const offset_of!(Counter, at),
);
