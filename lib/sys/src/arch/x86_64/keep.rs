//! Assembly that keeps a thread's registers where it is called away from its own code, and puts them back.

/// Keeps the flags and all general registers but `rsp` on the stack, below the red zone, in the order of
/// [`put_back_registers!`](crate::put_back_registers): 16 words, of which `rcx` is the second last and `rax` the one
/// before.
#[macro_export]
macro_rules! keep_registers {
    () => {
        "lea rsp, [rsp - 128]
        pushfq
        cld
        push rcx
        push rax
        push rdx
        push rbx
        push rbp
        push rsi
        push rdi
        push r8
        push r9
        push r10
        push r11
        push r12
        push r13
        push r14
        push r15"
    };
}

/// Undoes [`keep_registers!`](crate::keep_registers), with `rsp` where that has left it.
#[macro_export]
macro_rules! put_back_registers {
    () => {
        "pop r15
        pop r14
        pop r13
        pop r12
        pop r11
        pop r10
        pop r9
        pop r8
        pop rdi
        pop rsi
        pop rbp
        pop rbx
        pop rdx
        pop rax
        pop rcx
        popfq
        lea rsp, [rsp + 128]"
    };
}

/// Makes the header of what XSAVE is to write at `rsp` zeros, which it has to be (SDM vol. 1, 13.4.2). `rax` is 0 then.
#[macro_export]
macro_rules! clear_xsave_header {
    () => {
        "xor eax, eax
        mov [rsp + 512], rax
        mov [rsp + 520], rax
        mov [rsp + 528], rax
        mov [rsp + 536], rax
        mov [rsp + 544], rax
        mov [rsp + 552], rax
        mov [rsp + 560], rax
        mov [rsp + 568], rax"
    };
}
