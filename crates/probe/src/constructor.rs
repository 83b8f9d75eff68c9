//! Runs before `main`: joins the sessions that the environment names. And what a recorder has a thread run in a process that is in no session.

use core::arch::global_asm;
use core::ffi::{c_char, c_int};
use mote_layout::site::SiteRecord;

// An empty record, so that the section and the linker's `__start_`/`__stop_` symbols exist in every object.
global_asm!(
    ".pushsection mote_sites,\"aR\",@progbits",
    ".balign 4",
    ".long 0, 0, 0, 0",
    ".popsection",
    ".hidden __start_mote_sites",
    ".hidden __stop_mote_sites",
);

unsafe extern "C" {
    #[link_name = "__start_mote_sites"]
    static FIRST: SiteRecord;
    #[link_name = "__stop_mote_sites"]
    static END: SiteRecord;
    /// The C library's; not every one passes it to constructors.
    static environ: *const *const c_char;
}

/// Entry in `.init_array`, early, so that constructors of the program can be traced. Every site refers
/// to it, which makes the linker keep it.
#[used]
#[unsafe(link_section = ".init_array.00101")]
pub static CONSTRUCTOR: mote_agent::Constructor = before_main;

unsafe extern "C" fn before_main(
    _count: c_int,
    _arguments: *const *const c_char,
    _environment: *const *const c_char,
) {
    // SAFETY: the C library has set it before it calls constructors.
    let environment = unsafe { environ };
    // SAFETY: `environ` is a NULL-terminated array of strings; the section symbols are made by the linker for this
    // object.
    unsafe { mote_agent::start(environment, &raw const FIRST, &raw const END) };
}

// Where a recorder that has stopped a thread of this process (ptrace(2)) sends it, to join a session: section `mote_join` says how far it is to
// there. The thread may be anywhere in the program, so everything is kept that a call need not keep: the recorder keeps the general registers, this
// the others (XSAVE; without it the thread traps here, and the recorder puts everything back). rdi: the place, as in the environment; the answer is in rax
// at the breakpoint.
global_asm!(
    ".pushsection mote_join,\"aR\",@progbits",
    ".balign 4",
    ".long 2f - .",
    ".popsection",
    ".pushsection .text.mote_join,\"axR\",@progbits",
    ".balign 16",
    "2:",
    "cld",
    "sub rsp, 8192",
    "and rsp, -64",
    "xor eax, eax",
    "mov [rsp + 512], rax",
    "mov [rsp + 520], rax",
    "mov [rsp + 528], rax",
    "mov [rsp + 536], rax",
    "mov [rsp + 544], rax",
    "mov [rsp + 552], rax",
    "mov [rsp + 560], rax",
    "mov [rsp + 568], rax",
    "mov eax, 0xe7",
    "xor edx, edx",
    "xsave64 [rsp]",
    "call {join}",
    "mov rbx, rax",
    "mov eax, 0xe7",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "mov rax, rbx",
    "int3",
    "ud2",
    ".popsection",
    join = sym join_here,
);

unsafe extern "C" fn join_here(place: *const c_char) -> i64 {
    // SAFETY: the recorder has put a NUL-terminated text there; the section symbols are made by the linker for this object.
    unsafe { mote_agent::attach(place, &raw const FIRST, &raw const END) }
}

/// Adds the sites of an object that shares this copy of the library.
///
/// # Safety
/// As `mote_agent::add_object`.
pub unsafe fn add_object(first: *const SiteRecord, end: *const SiteRecord) {
    // SAFETY: the caller's promise.
    unsafe { mote_agent::add_object(first, end) };
}

/// Forgets the sites of such an object.
pub fn remove_object(first: *const SiteRecord) {
    mote_agent::remove_object(first);
}
