//! What tests of machine code need in assembly.

use crate::code::Code;
use core::arch::{asm, naked_asm};

/// `r0 = 1; exit`: mov eax, 1; xor edx, edx; ret.
pub(crate) const RETURNS_ONE: [u8; 8] = [0xb8, 1, 0, 0, 0, 0x31, 0xd2, 0xc3];

/// Calls machine code with marks in all registers that it must bring back, and counts those that it did not.
pub(crate) fn changed_registers(code: &Code, r1: u64) -> (u64, u64) {
    let changed: u64;
    let fault: u64;
    // SAFETY: a call of a function of this signature; what it may change is declared.
    unsafe {
        asm!(
            "push rbx", "push rbp",
            "mov rbx, 11", "mov rbp, 12", "mov r13, 13", "mov r14, 14", "mov r15, 15",
            "mov r12, rsp",
            "and rsp, -16",
            "push r12", "push r12",
            "call r10",
            "pop r9", "pop rsp",
            "sub r9, r12", "sub r12, rsp", "or r12, r9",
            "xor rbx, 11", "xor rbp, 12", "xor r13, 13", "xor r14, 14", "xor r15, 15",
            "or r12, rbx", "or r12, rbp", "or r12, r13", "or r12, r14", "or r12, r15",
            "pop rbp", "pop rbx",
            inout("r10") code.entry() => _,
            inout("rdi") r1 => _,
            inout("rsi") 0 => _, inout("rcx") 0 => _,
            out("r12") changed, out("rdx") fault, out("rax") _, out("r8") _, out("r9") _,
            out("r11") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    (changed, fault)
}

/// Leaves nonsense in all registers that it may, and looks at the stack's alignment.
#[unsafe(naked)]
pub(crate) extern "C" fn scramble() {
    naked_asm!(
        "mov rax, rsp",
        "and eax, 15",
        "mov rcx, -1",
        "mov rdx, rcx",
        "mov rsi, rcx",
        "mov rdi, rcx",
        "mov r8, rcx",
        "mov r9, rcx",
        "mov r10, rcx",
        "mov r11, rcx",
        "ret",
    )
}
