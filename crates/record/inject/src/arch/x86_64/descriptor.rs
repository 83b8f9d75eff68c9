//! The code that makes a userfaultfd(2) in a process: put where a program has room, as that of `visit`.
//!
//! ```text
//! keeps all registers, and blocks signals
//! userfaultfd(flags)
//! until somebody says that it may go on, or for a second: nanosleep(1 ms)
//!                                                     the descriptor is the call's fifth argument
//! close
//! back to where it was
//! ```
//! It uses no memory but the thread's stack, below what functions may use there, and takes no lock.

use crate::shared::track;
use core::arch::global_asm;

unsafe extern "C" {
    static mote_track_begin: u8;
    static mote_track_runs: u8;
    static mote_track_words: u8;
    static mote_track_end: u8;
}

/// The code, as it is before its words are filled in.
pub(crate) fn code() -> &'static [u8] {
    // SAFETY: all between these labels is one piece of read-only data of this program.
    unsafe { super::between(&raw const mote_track_begin, &raw const mote_track_end) }
}

/// How far behind the first byte of the code its words begin.
pub(crate) fn words_at() -> usize {
    (&raw const mote_track_words).addr() - (&raw const mote_track_begin).addr()
}

/// Where in it a thread goes that runs code of its own, and has on its stack where that goes on
/// (`Registers::detour`).
pub(crate) fn runs_at() -> usize {
    (&raw const mote_track_runs).addr() - (&raw const mote_track_begin).addr()
}

/// Room for what rt_sigaction(2) writes.
const ACTION_BYTES: usize = 48;

global_asm!(
    ".pushsection .rodata.mote_track,\"a\",@progbits",
    ".balign 16",
    ".globl mote_track_begin",
    ".hidden mote_track_begin",
    "mote_track_begin:",
    // Where a call arrives that is begun again: two bytes before.
    ".byte 0x66, 0x90",
    mote_sys::keep_registers!(),
    super::block_signals!(),
    "call 7f",
    "sub rsp, {action_bytes}",
    super::end_call!("rsp", "mote_track_words"),
    "mov rsp, r12",
    super::go_back!(),
    // A thread that runs: the address where it goes on is the word above its stack.
    ".balign 16",
    ".globl mote_track_runs",
    ".hidden mote_track_runs",
    "mote_track_runs:",
    mote_sys::keep_registers!(),
    super::block_signals!(),
    "call 7f",
    super::unblock_signals!(),
    mote_sys::put_back_registers!(),
    "ret {red_zone}",
    // The work. Registers are kept.
    "7:",
    "mov eax, {userfaultfd}",
    "mov edi, {flags}",
    "syscall",
    "movsxd r8, eax",
    // Room for the word by which it may go on, and a moment.
    "push {nanoseconds}",
    "push 0",
    "push 0",
    "mov ebx, {looks}",
    "8:",
    "mov eax, {nanosleep}",
    "lea rdi, [rsp + 8]",
    "xor esi, esi",
    "mov edx, {mark}",
    "syscall",
    "cmp qword ptr [rsp], 0",
    "jne 9f",
    "dec ebx",
    "jnz 8b",
    "9:",
    "add rsp, 24",
    "test r8d, r8d",
    "js 10f",
    "mov eax, {close}",
    "mov edi, r8d",
    "syscall",
    "10:",
    "ret",
    ".balign 8",
    ".globl mote_track_words",
    ".hidden mote_track_words",
    "mote_track_words:",
    ".fill 1, 8, 0",
    ".globl mote_track_end",
    ".hidden mote_track_end",
    "mote_track_end:",
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
    kind = const track::KIND,
    userfaultfd = const libc::SYS_userfaultfd,
    flags = const mote_sys::uffd::FLAGS,
    nanosleep = const libc::SYS_nanosleep,
    nanoseconds = const track::PAUSE_NS,
    looks = const track::LOOKS,
    mark = const track::MARK,
    close = const libc::SYS_close,
    red_zone = const super::RED_ZONE,
    action_bytes = const ACTION_BYTES,
);
