//! The code that a recorder sends a thread to.
//!
//! The thread waits in a system call, which the recorder has interrupted. One change of its registers leads it here:
//! `rip` is the second instruction, `rcx` where the call returns to, `r11` which join it is (the nonce of
//! `mote_layout::join`); all other registers are the program's, `rax` and `orig_rax` too. Before the thread runs, the
//! kernel therefore does with the call what it does with any that was interrupted (`arch_do_signal_or_restart`):
//!
//! | what it does | arrives at | `rax` |
//! |---|---|---|
//! | begins it again: no handler has run | the first instruction, two bytes before | the call's number, or restart_syscall(2) |
//! | ends it: a handler has run, or will at once | the second instruction | `-EINTR` |
//!
//! So nothing of the call is decided here. The code puts everything back by itself, and goes to the `syscall`
//! instruction, or behind it. It needs no tracer, so a recorder may be killed at any moment.
//!
//! | step | on which stack |
//! |---|---|
//! | below the red zone: flags and registers, 144 bytes; signals are blocked; the nonce is looked at, the memory taken | the thread's |
//! | XSAVE; `agent::enter` makes a thread, which does all the rest, and looks whether a signal that has come meanwhile ends the call; XRSTOR | the memory's |
//! | the memory is given back, signals are let in, registers put back | the thread's |
//!
//! `rcx` and `r11` are free: the instruction `syscall` overwrites both.

use crate::join::{AREA, enter_here};
use core::arch::global_asm;
use mote_agent::Interrupted;
use mote_layout::join;

/// Room for what XSAVE keeps of `XSAVED`: 2696 bytes by the architecture, in the standard format.
const XSAVE_BYTES: usize = 4096;
/// x87, SSE, AVX, AVX-512: what functions may change. Nothing that runs here touches the rest.
const XSAVED: u32 = 0xe7;

global_asm!(
    ".pushsection mote_join,\"aR\",@progbits",
    ".balign 4",
    // By this name the linker takes this code from its library: nothing calls it.
    ".globl mote_join_record",
    ".hidden mote_join_record",
    "mote_join_record:",
    ".long {version}",
    ".long 2f + 2 - .",
    ".long {area} - .",
    ".popsection",
    ".pushsection .text.mote_join,\"axR\",@progbits",
    ".balign 16",
    ".cfi_startproc simple",
    ".cfi_signal_frame",
    ".cfi_def_cfa rsp, 0",
    ".cfi_register rip, rcx",
    "2:",
    ".byte 0x66, 0x90",
    mote_sys::keep_registers!(),
    // rt_sigprocmask(SIG_BLOCK, all but `TRAPS`, &before): code cannot be patched while a thread blocks these.
    "push -1 - {traps}",
    "push 0",
    "mov eax, {sigprocmask}",
    "mov edi, {block}",
    "lea rsi, [rsp + 8]",
    "mov rdx, rsp",
    "mov r10d, 8",
    "syscall",
    "mov r12, rsp",
    // For unwinders: from here to the first `pop`.
    ".cfi_remember_state",
    ".cfi_def_cfa r12, {frame} + 128",
    ".cfi_offset rip, {frame_rcx} - {frame} - 128",
    ".cfi_offset rbx, {frame_rbx} - {frame} - 128",
    ".cfi_offset rbp, {frame_rbx} - 8 - {frame} - 128",
    ".cfi_offset r12, {frame_nonce} - 8 - {frame} - 128",
    ".cfi_offset r13, {frame_nonce} - 16 - {frame} - 128",
    ".cfi_offset r14, {frame_nonce} - 24 - {frame} - 128",
    ".cfi_offset r15, {frame_nonce} - 32 - {frame} - 128",
    "lea rbx, [rip + {area}]",
    // Sent by a recorder that has died before this, and another one has come meanwhile.
    "mov rax, [r12 + {frame_nonce}]",
    "cmp rax, [rbx + {nonce}]",
    "jne 3f",
    // The process's id, so that a child of fork does not take its parent's thread for its own.
    "mov eax, {getpid}",
    "syscall",
    "mov edx, eax",
    "xor eax, eax",
    "lock cmpxchg dword ptr [rbx + {busy}], edx",
    "jne 3f",
    "lea rsp, [rbx + {stack}]",
    mote_sys::clear_xsave_header!(),
    "mov eax, {xsaved}",
    "xor edx, edx",
    "xsave64 [rsp]",
    "mov rdi, r12",
    "call {enter}",
    "mov eax, {xsaved}",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "mov rsp, r12",
    "mov dword ptr [rbx + {busy}], 0",
    "3:",
    // Back to the instruction, or behind it.
    "cmp qword ptr [r12 + {frame_rax}], -{interrupted}",
    "je 4f",
    "sub qword ptr [r12 + {frame_rcx}], 2",
    "4:",
    // rt_sigprocmask(SIG_SETMASK, &before, NULL): handlers of what has come meanwhile run now.
    "mov eax, {sigprocmask}",
    "mov edi, {setmask}",
    "mov rsi, rsp",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    ".cfi_restore_state",
    "lea rsp, [rsp + 16]",
    mote_sys::put_back_registers!(),
    "jmp rcx",
    ".cfi_endproc",
    ".popsection",
    version = const join::VERSION,
    area = sym AREA,
    sigprocmask = const libc::SYS_rt_sigprocmask,
    setmask = const libc::SIG_SETMASK,
    block = const libc::SIG_BLOCK,
    traps = const mote_sys::signal::TRAPS,
    getpid = const libc::SYS_getpid,
    nonce = const join::NONCE,
    busy = const join::BUSY,
    stack = const join::AREA_BYTES - XSAVE_BYTES,
    xsaved = const XSAVED,
    enter = sym enter_here,
    interrupted = const libc::EINTR,
    frame = const size_of::<Interrupted>(),
    frame_rbx = const core::mem::offset_of!(Interrupted, nonce) + 7 * 8,
    frame_nonce = const core::mem::offset_of!(Interrupted, nonce),
    frame_rax = const core::mem::offset_of!(Interrupted, rax),
    frame_rcx = const core::mem::offset_of!(Interrupted, rcx),
);
