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
/// Bytes of `push rax; lea rax, [rip + 6]; jmp [rip + distance]`, with which a body begins whose calls have slots.
const JUMP: u64 = 14;
/// Where the stub's call finds where it leads, from the place of the return address (below: P).
const GOES_ON: isize = -48;
/// The stack pointer at that call, from there.
const AFTER: isize = 8;
/// Room for what XSAVE keeps (2696 bytes by the architecture, in the standard format), and to align it.
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

/// The code that bodies lead to.
pub(crate) fn entry() -> usize {
    mote_function_entry as *const () as usize
}

/// The code that bodies of functions with values lead to.
pub(crate) fn entry_with_values() -> usize {
    mote_function_entry_with_values as *const () as usize
}

/// The code that bodies lead to, where calls are wanted below callers only.
pub(crate) fn entry_below() -> usize {
    mote_function_entry_below as *const () as usize
}

/// The same of functions with values.
pub(crate) fn entry_with_values_below() -> usize {
    mote_function_entry_with_values_below as *const () as usize
}

/// The code that bodies of functions call whose entries are counted, where they are wanted below callers only; in a
/// process with restartable sequences if that is so.
pub(crate) fn entry_counted_below(has_sequences: bool) -> usize {
    if has_sequences {
        mote_function_count_below as *const () as usize
    } else {
        mote_function_count_locked_below as *const () as usize
    }
}

/// The code that bodies of functions lead to whose entries and returns are counted, where they are wanted below callers
/// only.
pub(crate) fn entry_counted_both_below() -> usize {
    mote_function_entry_counted_below as *const () as usize
}

/// The code that bodies of functions lead to whose calls are samples.
pub(crate) fn entry_sampled() -> usize {
    mote_function_entry_sampled as *const () as usize
}

/// The code that bodies of functions lead to whose entries and returns are counted.
pub(crate) fn entry_counted_both() -> usize {
    mote_function_entry_counted as *const () as usize
}

/// The code of the stub `number`: it calls the function, at the address below the stack that the entry's code has left
/// there. Behind the call it goes on where the first stub's word says, with its slot's address in `rax`, which itself
/// lies below the stack. It changes no flags, and leaves the stack pointer where it is: one description of its frame
/// holds for each instruction (`frames`).
pub(crate) fn stub(number: usize) -> [u8; STUB] {
    // Where the instructions end.
    const LEA: usize = 16;
    const JMP: usize = 22;
    let [a, b, c, d] = ((SLOTS_AT - LEA) as u32).to_le_bytes();
    let [e, f, g, h] = 0_i32.wrapping_sub((number * STUB + JMP) as i32).to_le_bytes();
    let mut code = [0xcc; STUB];
    let parts: [&[u8]; 4] = [
        // call [rsp - 56]
        &[0xff, 0x54, 0x24, (GOES_ON - AFTER) as u8],
        // mov [rsp - 16], rax
        &[0x48, 0x89, 0x44, 0x24, 0xf0],
        // lea rax, [rip + distance]
        &[0x48, 0x8d, 0x05, a, b, c, d],
        // jmp [rip - distance]
        &[0xff, 0x25, e, f, g, h],
    ];
    code.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
    code
}

/// Where calls return to, in bytes from the begin of their stub: behind its call.
pub(crate) const RETURNS_AT: usize = mote_layout::stubs::RETURNS_AT;

/// The word that stubs go by.
pub(crate) fn first_stub() -> [u8; STUB] {
    let [a, b, c, d, e, f, g, h] = (mote_function_return as *const () as usize).to_le_bytes();
    let mut bytes = [0; STUB];
    bytes.iter_mut().zip([a, b, c, d, e, f, g, h]).for_each(|(to, from)| *to = from);
    bytes
}

/// How many bytes of a body are before the copy of a function whose calls return by stubs, or do not.
pub(crate) fn copy_at(returns: bool) -> u64 {
    if returns { JUMP } else { CALL }
}

/// Whether the processor has XSAVE, and the kernel allows it.
pub(crate) fn can_keep_registers() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    __cpuid(1).ecx & OSXSAVE != 0
}

// # The stack
// P is the place of the return address. A body has pushed `rax`, has put into it where it goes on itself, behind its
// jump to here, and changes no flags:
//
//   P       return address; from a slot's being taken until its place is taken away, that of the stub
//   P - 8   rax
//   P - 16  rcx
//   P - 24  rdx
//   P - 32  flags; the stack ends here in the code below, but where it calls
//   P - 40  where the last jump leads when there is a slot: the stub, whose call pushes its return address to P
//   P - 48  where the body goes on: for that call, or for the last jump when there is no slot
//
// The last two lie below the stack when they are used, no farther than 56 bytes: handlers of signals leave 128 alone.
// The end of a call finds its stack in the same order.
//
// The processor predicts that a function returns to where the last call is that has not: so the function is called by
// the stub, and what follows the stub returns by `ret` to its caller, and nothing here is called but what returns.
global_asm!(
    ".pushsection .text.mote_function,\"ax\",@progbits",
    // What unwinders are told of a function here: its frame ends behind P, where its return address is. So it begins
    // with the stack pointer so many bytes below that end.
    ".macro mote_begins below",
    ".cfi_startproc",
    ".cfi_def_cfa_offset \\below",
    ".endm",
    ".macro mote_push what",
    "push \\what",
    ".cfi_adjust_cfa_offset 8",
    ".endm",
    ".macro mote_pop what",
    "pop \\what",
    ".cfi_adjust_cfa_offset -8",
    ".endm",
    // Keeps the registers that an entry works with, and the flags. Where the body goes on is in `rcx`.
    ".macro mote_keep_for_entry",
    "mote_push rcx",
    "mote_push rdx",
    "mov rcx, rax",
    "lahf",
    "seto al",
    "mote_push rax",
    "mov [rsp - 16], rcx",
    ".endm",
    // Leaves the stack pointer at P.
    ".macro mote_restore_for_entry",
    "mote_pop rax",
    // The overflow flag: 1 + 127 overflows.
    "add al, 127",
    "sahf",
    "mote_pop rdx",
    "mote_pop rcx",
    "mote_pop rax",
    ".endm",
    // Calls a function with all that it may change kept: `rax` has its result. Other registers are pushed here, behind
    // a word that was pushed before; where they lie, and those of vectors, are its third and fourth arguments (`kept`),
    // the frame pointer its fifth.
    ".macro mote_call_with_all_kept function",
    "mote_push rsi",
    "mote_push rdi",
    "mote_push r8",
    "mote_push r9",
    "mote_push r10",
    "mote_push r11",
    "mote_push rbp",
    ".cfi_rel_offset 6, 0",
    "mov rbp, rsp",
    ".cfi_def_cfa_register 6",
    "sub rsp, {xsave}",
    "and rsp, -64",
    mote_sys::clear_xsave_header!(),
    "mov rdi, rcx",
    "mov rsi, rdx",
    "mov eax, {xsaved}",
    "xor edx, edx",
    "xsave64 [rsp]",
    "mov rdx, rbp",
    "mov rcx, rsp",
    // As it was when the function returned.
    "mov r8, [rbp]",
    "call \\function",
    "mov rcx, rax",
    "mov eax, {xsaved}",
    "xor edx, edx",
    "xrstor64 [rsp]",
    "mov rax, rcx",
    "mov rsp, rbp",
    ".cfi_def_cfa_register 7",
    "mote_pop rbp",
    ".cfi_restore 6",
    "mote_pop r11",
    "mote_pop r10",
    "mote_pop r9",
    "mote_pop r8",
    "mote_pop rdi",
    "mote_pop rsi",
    ".endm",
    // The begin of a call that is noted in a slot, and is to be `recorded` or `counted`.
    ".macro mote_enter becomes",
    "mote_keep_for_entry",
    ".Lmote_\\becomes:",
    "mov rax, [rip + mote_function_top@gottpoff]",
    "mov rdx, fs:[rax]",
    "test edx, {region} - 1",
    "jz 3f",
    "lea rax, [rsp + 32]",
    "cmp rax, [rdx - {slot} + {place}]",
    "jae 7f",
    "8:",
    // Taken before it is filled: for handlers (`stack`). `rdx` is where the slot ends.
    "mov rax, [rip + mote_function_top@gottpoff]",
    "lea rdx, [rdx + {slot}]",
    "mov fs:[rax], rdx",
    "2:",
    "mov rax, [rsp + 32]",
    "mov [rdx - {slot} + {returns_to}], rax",
    "mov rax, [rcx - {jump} - {record_at}]",
    "mov [rdx - {slot} + {function}], rax",
    "lea rax, [rdx - {slot} - {slots_at}]",
    "mov [rsp - 8], rax",
    // It stands on the stack before the slot has its place (`stack`).
    "lea rax, [rdx - {slot} - {slots_at} + {returns_at}]",
    "mov [rsp + 32], rax",
    ".ifc \\becomes, recorded",
    "mov rcx, rdx",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov [rcx - {slot} + {began}], rax",
    "lea rax, [rsp + 32]",
    "mov [rcx - {slot} + {place}], rax",
    ".else",
    // It has no time: that is how its end knows it.
    "mov qword ptr [rdx - {slot} + {began}], 0",
    "lea rax, [rsp + 32]",
    "mov [rdx - {slot} + {place}], rax",
    "mov rax, [rcx - {jump} - {record_at}]",
    "mov rdx, [rax + {counter}]",
    count!("0"),
    ".endif",
    "mote_restore_for_entry",
    "lea rsp, [rsp + 8]",
    ".cfi_adjust_cfa_offset -8",
    "jmp [rsp - 48]",
    ".cfi_def_cfa_offset 40",
    // Not inside of the last call. A function that has jumped to this one (tail call) is under way at the same place,
    // where its stub is; the slow way counts rows of these, and sees loops.
    "7:",
    "jne 3f",
    "cmp rax, [rdx - 2 * {slot} + {place}]",
    "je 3f",
    "mov rax, [rcx - {jump} - {record_at}]",
    "cmp rax, [rdx - {slot} + {function}]",
    "je 3f",
    "lea rax, [rdx - {slot} - {slots_at} + {returns_at}]",
    "cmp rax, [rsp + 32]",
    "je 8b",
    "3:",
    "mote_push rcx",
    "mov rdx, [rcx - {jump} - {record_at}]",
    "lea rcx, [rsp + 40]",
    "mote_call_with_all_kept {begin}",
    "mote_pop rcx",
    "mov [rsp - 16], rcx",
    "lea rdx, [rax + {slot}]",
    "cmp rax, {left_out}",
    "ja 2b",
    ".ifc \\becomes, counted",
    "je 4f",
    // Without a slot nothing is told of its end.
    "mov rax, [rcx - {jump} - {record_at}]",
    "mov rdx, [rax + {counter}]",
    count!("0"),
    count!("8"),
    ".endif",
    "4:",
    "mote_restore_for_entry",
    "jmp [rsp - 48]",
    ".endm",
    // Whether the thread is in one of the callers that the function in `rax` is to be below of: `jz` leads on where
    // not.
    ".macro mote_look_for_callers",
    "mov rax, [rax + {below}]",
    "mov rdx, [rip + mote_function_callers@gottpoff]",
    "test fs:[rdx], rax",
    ".endm",
    // The begin of a call that is counted by other code, if it is below one of its callers. One that is not inside of
    // the innermost caller's call by its place has the calls given up that have ended without returning.
    //
    // It is called by the body, as that code is: on the stack is where the body goes on, and the return address.
    ".macro mote_count_below counts",
    "mote_push rax",
    "mote_push rcx",
    "mote_push rdx",
    "lahf",
    "seto al",
    "mote_push rax",
    "mov rcx, [rsp + 32]",
    "mov rcx, [rcx - {call} - {record_at}]",
    "mov rax, rcx",
    "mote_look_for_callers",
    "jz 4f",
    "mov rdx, [rip + mote_function_caller_place@gottpoff]",
    "lea rax, [rsp + 40]",
    "cmp rax, fs:[rdx]",
    "jae 5f",
    "6:",
    "mote_restore_for_entry",
    "jmp \\counts",
    ".cfi_def_cfa_offset 48",
    "5:",
    "mote_push rcx",
    "mov rdx, rcx",
    "mov rcx, rax",
    "mote_call_with_all_kept {is_wanted}",
    "mote_pop rcx",
    "test al, al",
    "jnz 6b",
    "4:",
    "mote_restore_for_entry",
    "ret",
    ".endm",
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_entry",
    ".hidden mote_function_entry",
    ".type mote_function_entry,@function",
    "mote_function_entry:",
    "mote_begins 16",
    "mote_enter recorded",
    ".cfi_endproc",
    ".size mote_function_entry, . - mote_function_entry",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_below",
    ".hidden mote_function_entry_below",
    ".type mote_function_entry_below,@function",
    "mote_function_entry_below:",
    "mote_begins 16",
    "mote_keep_for_entry",
    "mov rax, [rcx - {jump} - {record_at}]",
    "mote_look_for_callers",
    "jz 4b",
    "jmp .Lmote_recorded",
    ".cfi_endproc",
    ".size mote_function_entry_below, . - mote_function_entry_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_with_values_below",
    ".hidden mote_function_entry_with_values_below",
    ".type mote_function_entry_with_values_below,@function",
    "mote_function_entry_with_values_below:",
    "mote_begins 16",
    "mote_keep_for_entry",
    "mov rax, [rcx - {jump} - {record_at}]",
    "mote_look_for_callers",
    "jz 4b",
    "jmp 3b",
    ".cfi_endproc",
    ".size mote_function_entry_with_values_below, . - mote_function_entry_with_values_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_with_values",
    ".hidden mote_function_entry_with_values",
    ".type mote_function_entry_with_values,@function",
    "mote_function_entry_with_values:",
    "mote_begins 16",
    "mote_keep_for_entry",
    "jmp 3b",
    ".cfi_endproc",
    ".size mote_function_entry_with_values, . - mote_function_entry_with_values",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_sampled",
    ".hidden mote_function_entry_sampled",
    ".type mote_function_entry_sampled,@function",
    "mote_function_entry_sampled:",
    "mote_begins 16",
    "mote_keep_for_entry",
    "mov rax, [rcx - {jump} - {record_at}]",
    "cmp dword ptr [rax + {left}], 0",
    "jg 3b",
    "lock inc dword ptr [rax + {passed}]",
    "jmp 4b",
    ".cfi_endproc",
    ".size mote_function_entry_sampled, . - mote_function_entry_sampled",
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_entry_counted",
    ".hidden mote_function_entry_counted",
    ".type mote_function_entry_counted,@function",
    "mote_function_entry_counted:",
    "mote_begins 16",
    "mote_enter counted",
    ".cfi_endproc",
    ".size mote_function_entry_counted, . - mote_function_entry_counted",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_entry_counted_below",
    ".hidden mote_function_entry_counted_below",
    ".type mote_function_entry_counted_below,@function",
    "mote_function_entry_counted_below:",
    "mote_begins 16",
    "mote_keep_for_entry",
    "mov rax, [rcx - {jump} - {record_at}]",
    "mote_look_for_callers",
    "jz 4b",
    "jmp .Lmote_counted",
    ".cfi_endproc",
    ".size mote_function_entry_counted_below, . - mote_function_entry_counted_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_count_below",
    ".hidden mote_function_count_below",
    ".type mote_function_count_below,@function",
    "mote_function_count_below:",
    "mote_begins 16",
    "mote_count_below mote_function_count",
    ".cfi_endproc",
    ".size mote_function_count_below, . - mote_function_count_below",
    ".balign 16",
    // For this library's other parts only.
    ".globl mote_function_count_locked_below",
    ".hidden mote_function_count_locked_below",
    ".type mote_function_count_locked_below,@function",
    "mote_function_count_locked_below:",
    "mote_begins 16",
    "mote_count_below mote_function_count_locked",
    ".cfi_endproc",
    ".size mote_function_count_locked_below, . - mote_function_count_locked_below",
    // From a stub, with its slot's address in `rax`, whose own value lies at P - 8, below the stack.
    ".balign 64",
    // For this library's other parts only.
    ".globl mote_function_return",
    ".hidden mote_function_return",
    ".type mote_function_return,@function",
    "mote_function_return:",
    "mote_begins 0",
    "lea rsp, [rsp - 16]",
    ".cfi_adjust_cfa_offset 16",
    "mote_push rcx",
    "mote_push rdx",
    "mov rcx, rax",
    "lahf",
    "seto al",
    "mote_push rax",
    "mov rax, [rip + mote_function_top@gottpoff]",
    "lea rdx, [rcx + {slot}]",
    "cmp fs:[rax], rdx",
    "jne 5f",
    "cmp qword ptr [rcx + {began}], 0",
    "je 7f",
    "mote_push rcx",
    "mote_push rdi",
    "mote_push rsi",
    "mote_push r8",
    "mote_push r9",
    "mote_push r10",
    "mote_push r11",
    "mov rdi, [rcx + {function}]",
    "mov rsi, [rcx + {began}]",
    "call {record}",
    "mote_pop r11",
    "mote_pop r10",
    "mote_pop r9",
    "mote_pop r8",
    "mote_pop rsi",
    "mote_pop rdi",
    "mote_pop rcx",
    "test al, al",
    "jz 5f",
    // The stub's address stands at P until the slot has no place any more, and the slot is the call's until then.
    "mov rdx, [rcx + {returns_to}]",
    "mov qword ptr [rcx + {place}], {nowhere}",
    "mov rax, [rip + mote_function_top@gottpoff]",
    "mov [rsp + 32], rdx",
    "mov fs:[rax], rcx",
    "mote_restore_for_entry",
    "ret",
    ".cfi_def_cfa_offset 40",
    // Of a call that is counted.
    "7:",
    "mov rdx, [rcx + {returns_to}]",
    "mov qword ptr [rcx + {place}], {nowhere}",
    "mov [rsp + 32], rdx",
    "mov rdx, [rcx + {function}]",
    "mov fs:[rax], rcx",
    "mov rdx, [rdx + {counter}]",
    count!("8"),
    "mote_restore_for_entry",
    "ret",
    ".cfi_def_cfa_offset 40",
    "5:",
    "mote_push \"qword ptr [rcx + {returns_to}]\"",
    "mote_call_with_all_kept {end}",
    "mote_pop rdx",
    "mov [rsp + 32], rdx",
    "mote_restore_for_entry",
    "ret",
    ".cfi_endproc",
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
    jump = const JUMP,
    returns_at = const RETURNS_AT,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_knows_its_slot_and_the_first_stub() {
        for number in [1, 2, 1023] {
            let code = stub(number);
            let at = (number * STUB) as i64;
            let distance = |from: usize| {
                let bytes = [code[from], code[from + 1], code[from + 2], code[from + 3]];
                at + from as i64 + 4 + i64::from(i32::from_le_bytes(bytes))
            };
            // Its call goes by the word 48 bytes below the return address: 56 below the stack pointer.
            assert_eq!(code[..RETURNS_AT], [0xff, 0x54, 0x24, 0xc8]);
            assert_eq!(code[9..12], [0x48, 0x8d, 0x05]);
            assert_eq!(distance(12), at + SLOTS_AT as i64);
            assert_eq!(code[16..18], [0xff, 0x25]);
            assert_eq!(distance(18), 0);
        }
    }
}
