//! Functions that begin in all ways, and what they return.

use std::arch::global_asm;

// Each takes two numbers and returns one. Alignment leaves room behind each; what they call is not probed.
global_asm!(
    ".pushsection .text.mote_entries, \"ax\", @progbits",
    ".macro mote_entry name",
    ".balign 16, 0xcc",
    ".globl \\name",
    ".type \\name, @function",
    "\\name:",
    ".endm",
    ".macro mote_end name",
    ".size \\name, . - \\name",
    ".endm",
    "mote_entry mote_frame",
    "push rbp",
    "mov rbp, rsp",
    "lea rax, [rdi + rsi]",
    "pop rbp",
    "ret",
    "mote_end mote_frame",
    "mote_entry mote_endbr",
    "endbr64",
    "lea rax, [rdi + rsi * 2]",
    "ret",
    "mote_end mote_endbr",
    "mote_entry mote_stack",
    "sub rsp, 0x18",
    "mov [rsp + 8], rdi",
    "mov rax, [rsp + 8]",
    "add rsp, 0x18",
    "ret",
    "mote_end mote_stack",
    "mote_entry mote_branch",
    "test edi, edi",
    "je 2f",
    "mov rax, rsi",
    "ret",
    "2: mov eax, 77",
    "ret",
    "mote_end mote_branch",
    "mote_entry mote_compare",
    "cmp edi, 5",
    "ja 2f",
    "lea rax, [rsi + 1]",
    "ret",
    "2: lea rax, [rsi + 2]",
    "ret",
    "mote_end mote_compare",
    "mote_entry mote_load",
    "mov rax, [rip + mote_number]",
    "add rax, rdi",
    "ret",
    "mote_end mote_load",
    "mote_entry mote_own_address",
    "push rdi",
    "lea rax, [rip + mote_own_address]",
    "pop rdi",
    "ret",
    "mote_end mote_own_address",
    "mote_entry mote_short",
    "mov eax, edi",
    "ret",
    "mote_end mote_short",
    "mote_entry mote_return",
    "ret",
    "mote_end mote_return",
    "mote_entry mote_room",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "lea rax, [rdi + 3]",
    "ret",
    "mote_end mote_room",
    "mote_entry mote_room_behind",
    "endbr64",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "lea rax, [rdi + 4]",
    "ret",
    "mote_end mote_room_behind",
    "mote_entry mote_call",
    "call mote_returns_to",
    "3: lea rdx, [rip + 3b]",
    "sub rax, rdx",
    "ret",
    "mote_end mote_call",
    "mote_entry mote_call_later",
    "sub rsp, 8",
    "call mote_returns_to",
    "3: lea rdx, [rip + 3b]",
    "sub rax, rdx",
    "add rsp, 8",
    "ret",
    "mote_end mote_call_later",
    "mote_entry mote_call_by_memory",
    "call [rip + mote_pointer]",
    "3: lea rdx, [rip + 3b]",
    "sub rax, rdx",
    "ret",
    "mote_end mote_call_by_memory",
    "mote_entry mote_pushes",
    "push rbx",
    "push rbp",
    "push r12",
    "push rsi",
    "mov rax, [rsp]",
    "pop rsi",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    "mote_end mote_pushes",
    "mote_entry mote_many",
    "push rbx",
    "push rbp",
    "push rsi",
    "push rdi",
    "push rax",
    "mov rax, [rsp + 8]",
    "add rsp, 24",
    "pop rbp",
    "pop rbx",
    "ret",
    "mote_end mote_many",
    "mote_entry mote_tail",
    "jmp mote_adds",
    "mote_end mote_tail",
    "mote_entry mote_counter",
    "mov rcx, rdi",
    "jrcxz 2f",
    "mov eax, 1",
    "ret",
    "2: mov eax, 2",
    "ret",
    "mote_end mote_counter",
    "mote_entry mote_clear",
    "xor eax, eax",
    "test rdi, rdi",
    "setne al",
    "ret",
    "mote_end mote_clear",
    "mote_entry mote_loop",
    "push rdi",
    "2: lea rdi, [rdi - 1]",
    "test edi, edi",
    "jg 2b",
    "pop rax",
    "ret",
    "mote_end mote_loop",
    ".balign 16, 0xcc",
    "mote_returns_to: mov rax, [rsp]",
    "ret",
    "mote_adds: lea rax, [rdi + rsi]",
    "ret",
    ".popsection",
    ".pushsection .data.mote_entries, \"aw\", @progbits",
    ".balign 8",
    "mote_number: .quad 1000",
    "mote_pointer: .quad mote_returns_to",
    ".popsection",
);

/// A function, and what it returns.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) function: extern "C" fn(u64, u64) -> u64,
    pub(crate) returns: fn(u64, u64) -> u64,
}

macro_rules! entries {
    ($($name:ident = $returns:expr;)*) => {
        unsafe extern "C" {
            $(safe fn $name(a: u64, b: u64) -> u64;)*
        }
        /// All of them.
        pub(crate) const ALL: &[Entry] = &[
            $(Entry { name: stringify!($name), function: $name, returns: $returns },)*
        ];
    };
}

entries! {
    mote_frame = |a, b| a + b;
    mote_endbr = |a, b| a + 2 * b;
    mote_stack = |a, _| a;
    mote_branch = |a, b| if a == 0 { 77 } else { b };
    mote_compare = |a, b| if a > 5 { b + 2 } else { b + 1 };
    mote_load = |a, _| 1000 + a;
    mote_own_address = |_, _| mote_own_address as *const () as u64;
    mote_short = |a, _| a;
    mote_room = |a, _| a + 3;
    mote_room_behind = |a, _| a + 4;
    mote_call = |_, _| 0;
    mote_call_later = |_, _| 0;
    mote_call_by_memory = |_, _| 0;
    mote_pushes = |_, b| b;
    mote_many = |a, _| a;
    mote_tail = |a, b| a + b;
    mote_counter = |a, _| if a == 0 { 2 } else { 1 };
    mote_clear = |a, _| u64::from(a != 0);
    mote_loop = |a, _| a;
}
