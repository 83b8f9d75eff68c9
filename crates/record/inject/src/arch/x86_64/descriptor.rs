//! The code that makes a descriptor in a process by a system call: put where a program has room, as that of `visit`.
//!
//! ```text
//! keeps all registers, and blocks signals
//! the call that is wanted: its number, and two arguments
//! until somebody says that it may go on, or for a second: ppoll(1 ms)
//!                                                     the descriptor is the call's fifth argument
//! makes system calls, if a list of them lies in what the descriptor is of by then: mmap (the list), each of them up to
//!     one that fails, munmap
//! close
//! back to where it was
//! ```
//! It uses no memory but the thread's stack, below what functions may use there, and the list while that is mapped. It
//! takes no lock. None of its calls is one that the kernel can begin again with the time that was left, as
//! nanosleep(2): that would take the place of what it knows of the call that the thread was sent from
//! (`restart_syscall`).

use crate::shared::descriptor::{self, Step};
use core::arch::global_asm;
use core::mem::offset_of;

unsafe extern "C" {
    static mote_descriptor_begin: u8;
    static mote_descriptor_runs: u8;
    static mote_descriptor_start: u8;
    static mote_descriptor_words: u8;
    static mote_descriptor_end: u8;
}

/// The code, as it is before its words are filled in.
pub(crate) fn code() -> &'static [u8] {
    // SAFETY: all between these labels is one piece of read-only data of this program.
    unsafe { super::between(&raw const mote_descriptor_begin, &raw const mote_descriptor_end) }
}

/// How far behind the first byte of the code its words begin.
pub(crate) fn words_at() -> usize {
    (&raw const mote_descriptor_words).addr() - (&raw const mote_descriptor_begin).addr()
}

/// Where in it a thread goes that runs code of its own, and has on its stack where that goes on
/// (`Registers::detour`).
pub(crate) fn runs_at() -> usize {
    (&raw const mote_descriptor_runs).addr() - (&raw const mote_descriptor_begin).addr()
}

/// Where in it a thread goes that is stopped at the program's begin.
pub(crate) fn start_at() -> usize {
    (&raw const mote_descriptor_start).addr() - (&raw const mote_descriptor_begin).addr()
}

/// Room for what rt_sigaction(2) writes.
const ACTION_BYTES: usize = 48;

global_asm!(
    ".pushsection .rodata.mote_descriptor,\"a\",@progbits",
    ".balign 16",
    ".globl mote_descriptor_begin",
    ".hidden mote_descriptor_begin",
    "mote_descriptor_begin:",
    // Where a call arrives that is begun again: two bytes before.
    ".byte 0x66, 0x90",
    mote_sys::keep_registers!(),
    super::block_signals!(),
    "call 7f",
    "sub rsp, {action_bytes}",
    super::end_call!("rsp", "mote_descriptor_words"),
    "mov rsp, r12",
    super::go_back!(),
    // A thread that runs: the address where it goes on is the word above its stack.
    ".balign 16",
    ".globl mote_descriptor_runs",
    ".hidden mote_descriptor_runs",
    "mote_descriptor_runs:",
    mote_sys::keep_registers!(),
    super::block_signals!(),
    "call 7f",
    super::unblock_signals!(),
    mote_sys::put_back_registers!(),
    "ret {red_zone}",
    // The work. Registers are kept.
    "7:",
    "mov rax, [rip + mote_descriptor_words + {number}]",
    "mov rdi, [rip + mote_descriptor_words + {first}]",
    "mov rsi, [rip + mote_descriptor_words + {second}]",
    "syscall",
    "movsxd r8, eax",
    // Room for a moment.
    "push 0",
    "push 0",
    "mov ebx, {looks}",
    "8:",
    // The kernel writes there how much is left.
    "mov qword ptr [rsp + 8], {nanoseconds}",
    "mov eax, {ppoll}",
    "mov edi, {mark}",
    "xor esi, esi",
    "mov rdx, rsp",
    "xor r10d, r10d",
    "syscall",
    "cmp qword ptr [rip + mote_descriptor_words + {go}], 0",
    "jne 9f",
    "dec ebx",
    "jnz 8b",
    "9:",
    "test r8d, r8d",
    "js 25f",
    // How many steps there are, and one.
    "mov rbx, [rip + mote_descriptor_words + {go}]",
    "dec rbx",
    "jle 24f",
    "mov r15, rbx",
    "shl r15, {step_shift}",
    "mov eax, {mmap}",
    "xor edi, edi",
    "mov rsi, r15",
    "mov edx, {readable}",
    "mov r10d, {private}",
    "mov r9, [rip + mote_descriptor_words + {list}]",
    "syscall",
    "cmp rax, -4096",
    "ja 24f",
    "mov r13, rax",
    "mov r14, rax",
    "22:",
    "mov rax, [r14 + {step_number}]",
    "mov rdi, [r14 + {arguments}]",
    "mov rsi, [r14 + {arguments} + 8]",
    "mov rdx, [r14 + {arguments} + 16]",
    "mov r10, [r14 + {arguments} + 24]",
    "mov r9, [r14 + {offset}]",
    "syscall",
    "cmp rax, [r14 + {wanted}]",
    "jne 23f",
    "add r14, {step_bytes}",
    "dec rbx",
    "jnz 22b",
    "23:",
    "mov eax, {munmap}",
    "mov rdi, r13",
    "mov rsi, r15",
    "syscall",
    "24:",
    "mov eax, {close}",
    "mov edi, r8d",
    "syscall",
    "25:",
    "add rsp, 16",
    "ret",
    // A thread that is stopped at the program's begin.
    ".globl mote_descriptor_start",
    ".hidden mote_descriptor_start",
    "mote_descriptor_start:",
    "call 7b",
    "int3",
    ".balign 8",
    ".globl mote_descriptor_words",
    ".hidden mote_descriptor_words",
    "mote_descriptor_words:",
    ".fill {words}, 8, 0",
    ".globl mote_descriptor_end",
    ".hidden mote_descriptor_end",
    "mote_descriptor_end:",
    ".popsection",
    frame_rax = const super::FRAME_RAX,
    frame_rcx = const super::FRAME_RCX,
    traps = const mote_sys::signal::TRAPS,
    sigprocmask = const libc::SYS_rt_sigprocmask,
    sigpending = const libc::SYS_rt_sigpending,
    sigaction = const libc::SYS_rt_sigaction,
    block = const libc::SIG_BLOCK,
    setmask = const libc::SIG_SETMASK,
    restarts = const libc::SA_RESTART,
    interrupted = const libc::EINTR,
    nohand = const mote_layout::join::restart::NOHAND,
    sys = const mote_layout::join::restart::SYS,
    kind = const descriptor::KIND,
    number = const descriptor::CALL,
    first = const descriptor::CALL + 8,
    second = const descriptor::CALL + 16,
    words = const descriptor::WORDS_BYTES / 8,
    go = const descriptor::GO,
    list = const descriptor::LIST,
    step_bytes = const Step::BYTES,
    step_shift = const Step::BYTES.trailing_zeros(),
    step_number = const offset_of!(Step, number),
    arguments = const offset_of!(Step, arguments),
    offset = const offset_of!(Step, offset),
    wanted = const offset_of!(Step, wanted),
    mmap = const libc::SYS_mmap,
    munmap = const libc::SYS_munmap,
    readable = const libc::PROT_READ,
    private = const libc::MAP_PRIVATE,
    ppoll = const libc::SYS_ppoll,
    nanoseconds = const descriptor::PAUSE_NS,
    looks = const descriptor::LOOKS,
    mark = const descriptor::MARK,
    close = const libc::SYS_close,
    red_zone = const super::RED_ZONE,
    action_bytes = const ACTION_BYTES,
);
