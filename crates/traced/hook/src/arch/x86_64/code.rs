//! The code between a function and its probe, and stubs.
//!
//! Both keep every register and the flags (all but those that functions never hand over: AF is kept, DF untouched), by
//! the caller's stack only, below what is in use: a function that begins or has returned has no red zone.
//!
//! The short way uses no vector registers. The other one keeps what XSAVE keeps of [`XSAVED`], on the stack.

use super::counting::{CALL, count};
use crate::calls;
use crate::stack::{NOWHERE, REGION, SLOTS_AT, STUB, Slot};
use core::arch::global_asm;
use core::arch::x86_64::__cpuid;
use core::mem::offset_of;
use mote_agent::{Counter, Function};
use mote_layout::functions::RECORD_AT;
use mote_sync::rseq;

/// x87, SSE, AVX, AVX-512: what functions may change. Nothing that runs here touches the rest.
const XSAVED: u32 = 0xe7;
/// Room for that (2696 bytes by the architecture, in the standard format), and to align it.
const XSAVE_BYTES: usize = 2696 + 64 + 56;

unsafe extern "C" {
    fn mote_function_entry();
    fn mote_function_entry_below();
    fn mote_function_entry_with_values_below();
    fn mote_function_count_below();
    fn mote_function_count_locked_below();
    fn mote_function_entry_counted_below();
    fn mote_function_entry_with_values();
    fn mote_function_entry_sampled();
    fn mote_function_entry_counted();
    fn mote_function_return();
}

/// The code that bodies call.
pub(crate) fn entry() -> usize {
    mote_function_entry as *const () as usize
}

/// The code that bodies of functions with values call.
pub(crate) fn entry_with_values() -> usize {
    mote_function_entry_with_values as *const () as usize
}

/// The code that bodies call, where calls are wanted below callers only.
pub(crate) fn entry_below() -> usize {
    mote_function_entry_below as *const () as usize
}

/// The same of functions with values.
pub(crate) fn entry_with_values_below() -> usize {
    mote_function_entry_with_values_below as *const () as usize
}

/// The same of functions whose entries are counted; in a process with restartable sequences if that is so.
pub(crate) fn entry_counted_below(has_sequences: bool) -> usize {
    if has_sequences {
        mote_function_count_below as *const () as usize
    } else {
        mote_function_count_locked_below as *const () as usize
    }
}

/// The same of functions whose entries and returns are counted.
pub(crate) fn entry_counted_both_below() -> usize {
    mote_function_entry_counted_below as *const () as usize
}

/// The code that bodies of functions call whose calls are samples.
pub(crate) fn entry_sampled() -> usize {
    mote_function_entry_sampled as *const () as usize
}

/// The code that bodies of functions call whose entries and returns are counted.
pub(crate) fn entry_counted_both() -> usize {
    mote_function_entry_counted as *const () as usize
}

/// The code of the stub `number`: it puts its own address into `rax`, which lies where the return address was, and goes
/// on where the first stub's word says.
pub(crate) fn stub(number: usize) -> [u8; STUB] {
    const ALL: usize = 14;
    let [a, b, c, d] = 0_i32.wrapping_sub((number * STUB + ALL) as i32).to_le_bytes();
    // push rax; lea rax, [rip - 8]; jmp [rip - distance]
    [0x50, 0x48, 0x8d, 0x05, 0xf8, 0xff, 0xff, 0xff, 0xff, 0x25, a, b, c, d, 0xcc, 0xcc]
}

/// The word that stubs go by.
pub(crate) fn first_stub() -> [u8; STUB] {
    let [a, b, c, d, e, f, g, h] = (mote_function_return as *const () as usize).to_le_bytes();
    [a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0]
}

/// Whether the processor has XSAVE, and the kernel allows it.
pub(crate) fn can_keep_registers() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    __cpuid(1).ecx & OSXSAVE != 0
}

// On the stack at entry: where the body goes on, and the call's return address, whose place the call is known by.
global_asm!(
    ".pushsection .text.mote_function,\"ax\",@progbits",
    // Keeps the registers that an entry works with, and the flags.
    ".macro mote_keep_for_entry",
    "push rcx",
    "push rdx",
    "push rax",
    "lahf",
    "seto al",
    "push rax",
    ".endm",
    ".macro mote_restore_for_entry",
    "pop rax",
    // The overflow flag: 1 + 127 overflows.
    "add al, 127",
    "sahf",
    "pop rax",
    "pop rdx",
    "pop rcx",
    ".endm",
    // Calls a function with all that it may change kept: `rax` has its result. Other registers are pushed here; where
    // they lie, and those of vectors, are its third and fourth arguments (`kept`).
    ".macro mote_call_with_all_kept function",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push rbx",
    "mov rbx, rsp",
    "sub rsp, {xsave}",
    "and rsp, -64",
    mote_sys::clear_xsave_header!(),
    "mov rdi, rcx",
    "mov rsi, rdx",
    "mov eax, {xsaved}",
    "xor edx, edx",
    "xsave64 [rsp]",
    "mov rdx, rbx",
    "mov rcx, rsp",
    "call \\function",
    "mov rcx, rax",
    "mov eax, {xsaved}",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "mov rax, rcx",
    "mov rsp, rbx",
    "pop rbx",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    ".endm",
    // The begin of a call that is noted in a slot, and is to be `recorded` or `counted`.
    ".macro mote_enter becomes",
    "mote_keep_for_entry",
    ".Lmote_\\becomes:",
    "mov rcx, [rip + mote_function_top@gottpoff]",
    "mov rdx, fs:[rcx]",
    "test edx, {region} - 1",
    "jz 3f",
    "lea rax, [rsp + 40]",
    "cmp rax, [rdx - {slot} + {place}]",
    "jae 7f",
    "8:",
    // Taken before it is filled: for handlers (`stack`).
    "lea rax, [rdx + {slot}]",
    "mov fs:[rcx], rax",
    "2:",
    "mov rax, [rsp + 40]",
    "mov [rdx + {returns_to}], rax",
    "mov rax, [rsp + 32]",
    "mov rax, [rax - {call} - {record_at}]",
    "mov [rdx + {function}], rax",
    // The stub: in the same region, half as far from its begin as the slot is from that of the slots.
    "mov rcx, rdx",
    "mov eax, edx",
    "and eax, {region} - 1",
    "sub rcx, rax",
    "sub eax, {slots_at}",
    "shr eax, 1",
    "add rcx, rax",
    "mov [rsp + 40], rcx",
    "mov rcx, rdx",
    ".ifc \\becomes, recorded",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rcx + {began}], rax",
    ".else",
    // It has no time: that is how its end knows it.
    "mov qword ptr [rcx + {began}], 0",
    ".endif",
    "lea rax, [rsp + 40]",
    "mov [rcx + {place}], rax",
    ".ifc \\becomes, counted",
    "mov rax, [rsp + 32]",
    "mov rax, [rax - {call} - {record_at}]",
    "mov rdx, [rax + {counter}]",
    count!("0"),
    ".endif",
    "4:",
    "mote_restore_for_entry",
    "ret",
    // Not inside of the last call. A function that has jumped to this one (tail call) is under way at the same place,
    // where its stub is; the slow way counts rows of these, and sees loops.
    "7:",
    "jne 3f",
    "cmp rax, [rdx - 2 * {slot} + {place}]",
    "je 3f",
    "mov rax, [rsp + 32]",
    "mov rax, [rax - {call} - {record_at}]",
    "cmp rax, [rdx - {slot} + {function}]",
    "je 3f",
    "lea rcx, [rdx - {slot}]",
    "mov eax, ecx",
    "and eax, {region} - 1",
    "sub rcx, rax",
    "sub eax, {slots_at}",
    "shr eax, 1",
    "add rcx, rax",
    "cmp rcx, [rsp + 40]",
    "mov rcx, [rip + mote_function_top@gottpoff]",
    "je 8b",
    "3:",
    "lea rcx, [rsp + 40]",
    "mov rdx, [rsp + 32]",
    "mov rdx, [rdx - {call} - {record_at}]",
    "mote_call_with_all_kept {begin}",
    "mov rdx, rax",
    "cmp rax, {left_out}",
    "ja 2b",
    ".ifc \\becomes, counted",
    "je 4b",
    // Without a slot nothing is told of its end.
    "mov rax, [rsp + 32]",
    "mov rax, [rax - {call} - {record_at}]",
    "mov rdx, [rax + {counter}]",
    count!("0"),
    count!("8"),
    ".endif",
    "jmp 4b",
    ".endm",
    // Whether the thread is in one of the callers that a function is to be below of: `jz` leads on where not.
    ".macro mote_look_for_callers",
    "mov rax, [rsp + 32]",
    "mov rax, [rax - {call} - {record_at}]",
    "mov rax, [rax + {below}]",
    "mov rcx, [rip + mote_function_callers@gottpoff]",
    "test fs:[rcx], rax",
    ".endm",
    // The begin of a call that is counted by other code, if it is below one of its callers. One that is not inside of
    // the innermost caller's call by its place has the calls given up that have ended without returning.
    ".macro mote_count_below counts",
    "mote_keep_for_entry",
    "mote_look_for_callers",
    "jz 4b",
    "mov rcx, [rip + mote_function_caller_place@gottpoff]",
    "lea rax, [rsp + 40]",
    "cmp rax, fs:[rcx]",
    "jae 5f",
    "6:",
    "mote_restore_for_entry",
    "jmp \\counts",
    "5:",
    "mov rcx, rax",
    "mov rdx, [rsp + 32]",
    "mov rdx, [rdx - {call} - {record_at}]",
    "mote_call_with_all_kept {is_wanted}",
    "test al, al",
    "jnz 6b",
    "jmp 4b",
    ".endm",
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_entry",
    ".hidden mote_function_entry",
    ".type mote_function_entry,@function",
    "mote_function_entry:",
    "mote_enter recorded",
    ".size mote_function_entry, . - mote_function_entry",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_below",
    ".hidden mote_function_entry_below",
    ".type mote_function_entry_below,@function",
    "mote_function_entry_below:",
    "mote_keep_for_entry",
    "mote_look_for_callers",
    "jz 4b",
    "jmp .Lmote_recorded",
    ".size mote_function_entry_below, . - mote_function_entry_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_with_values_below",
    ".hidden mote_function_entry_with_values_below",
    ".type mote_function_entry_with_values_below,@function",
    "mote_function_entry_with_values_below:",
    "mote_keep_for_entry",
    "mote_look_for_callers",
    "jz 4b",
    "jmp 3b",
    ".size mote_function_entry_with_values_below, . - mote_function_entry_with_values_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_with_values",
    ".hidden mote_function_entry_with_values",
    ".type mote_function_entry_with_values,@function",
    "mote_function_entry_with_values:",
    "mote_keep_for_entry",
    "jmp 3b",
    ".size mote_function_entry_with_values, . - mote_function_entry_with_values",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_sampled",
    ".hidden mote_function_entry_sampled",
    ".type mote_function_entry_sampled,@function",
    "mote_function_entry_sampled:",
    "mote_keep_for_entry",
    "mov rax, [rsp + 32]",
    "mov rax, [rax - {call} - {record_at}]",
    "cmp dword ptr [rax + {left}], 0",
    "jg 3b",
    "lock inc dword ptr [rax + {passed}]",
    "jmp 4b",
    ".size mote_function_entry_sampled, . - mote_function_entry_sampled",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_count_below",
    ".hidden mote_function_count_below",
    ".type mote_function_count_below,@function",
    "mote_function_count_below:",
    "mote_count_below mote_function_count",
    ".size mote_function_count_below, . - mote_function_count_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_count_locked_below",
    ".hidden mote_function_count_locked_below",
    ".type mote_function_count_locked_below,@function",
    "mote_function_count_locked_below:",
    "mote_count_below mote_function_count_locked",
    ".size mote_function_count_locked_below, . - mote_function_count_locked_below",
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_entry_counted",
    ".hidden mote_function_entry_counted",
    ".type mote_function_entry_counted,@function",
    "mote_function_entry_counted:",
    "mote_enter counted",
    ".size mote_function_entry_counted, . - mote_function_entry_counted",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_counted_below",
    ".hidden mote_function_entry_counted_below",
    ".type mote_function_entry_counted_below,@function",
    "mote_function_entry_counted_below:",
    "mote_keep_for_entry",
    "mote_look_for_callers",
    "jz 4b",
    "jmp .Lmote_counted",
    ".size mote_function_entry_counted_below, . - mote_function_entry_counted_below",
    // From a stub, with its address in `rax`; on the stack is what was in `rax`, where the return address was.
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_return",
    ".hidden mote_function_return",
    ".type mote_function_return,@function",
    "mote_function_return:",
    "push rcx",
    "mov rcx, rax",
    "lahf",
    "seto al",
    "push rax",
    "mov eax, ecx",
    "and eax, {region} - 1",
    "lea rcx, [rcx + rax + {slots_at}]",
    // Where it goes on, in the place that the last jump finds it.
    "push qword ptr [rcx + {returns_to}]",
    "push rdx",
    "mov rax, [rip + mote_function_top@gottpoff]",
    "push rdi",
    "lea rdi, [rcx + {slot}]",
    "cmp fs:[rax], rdi",
    "jne 5f",
    "cmp qword ptr [rcx + {began}], 0",
    "je 7f",
    "push rcx",
    "push rsi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "mov rdi, [rcx + {function}]",
    "mov rsi, [rcx + {began}]",
    "call {record}",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rsi",
    "pop rcx",
    "test al, al",
    "jz 5f",
    "mov qword ptr [rcx + {place}], {nowhere}",
    "mov rax, [rip + mote_function_top@gottpoff]",
    "mov fs:[rax], rcx",
    "6:",
    "pop rdi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "add al, 127",
    "sahf",
    "pop rcx",
    "pop rax",
    "jmp [rsp - 32]",
    // Of a call that is counted.
    "7:",
    "mov rdi, [rcx + {function}]",
    "mov qword ptr [rcx + {place}], {nowhere}",
    "mov fs:[rax], rcx",
    "mov rdx, [rdi + {counter}]",
    count!("8"),
    "jmp 6b",
    "5:",
    "mote_call_with_all_kept {end}",
    "jmp 6b",
    ".size mote_function_return, . - mote_function_return",
    ".popsection",
    xsave = const XSAVE_BYTES,
    xsaved = const XSAVED,
    region = const REGION,
    slots_at = const SLOTS_AT,
    slot = const size_of::<Slot>(),
    place = const offset_of!(Slot, place),
    returns_to = const offset_of!(Slot, returns_to),
    function = const offset_of!(Slot, function),
    began = const offset_of!(Slot, began),
    nowhere = const NOWHERE as isize,
    record_at = const RECORD_AT,
    call = const CALL,
    counter = const offset_of!(Function, counter),
    rows = const offset_of!(Counter, rows),
    at = const offset_of!(Counter, at),
    rseq_cs = const rseq::RSEQ_CS,
    cpu_id = const rseq::CPU_ID,
    signature = const rseq::SIGNATURE,
    below = const offset_of!(Function, callers.below),
    left_out = const calls::LEFT_OUT,
    is_wanted = sym calls::is_wanted,
    left = const offset_of!(Function, quota.left),
    passed = const offset_of!(Function, quota.passed),
    begin = sym calls::begin,
    record = sym calls::record,
    end = sym calls::end,
);
