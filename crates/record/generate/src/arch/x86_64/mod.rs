//! x86-64. See [`crate::arch`] for what each item is.

/// `asm/ptrace.h`: rdi, rsi, rdx, r10, r8, r9.
pub const CALL_ARGUMENTS: [i16; 6] = [112, 104, 96, 56, 72, 64];
/// orig_rax.
pub const CALL_NUMBER: i16 = 120;
/// rax.
pub const RETURNED: i16 = 80;

/// `asm/thread_info.h`.
pub const ABI_WORD: Option<&str> = Some("thread_info.status");
/// `TS_COMPAT`: of the 32-bit ABI.
pub const OTHER_ABI: i32 = 2;

/// `asm/preempt.h`.
pub const PREEMPT_COUNT: Option<&str> = Some("__preempt_count");

/// rbp, rsp, rip.
pub const STACK_REGISTERS: [i32; 3] = [32, 152, 128];
/// cs of 64-bit programs: `__USER_CS` (`asm/segment.h`).
pub const USER_CODE: (i32, i32) = (136, 0x33);
/// fs is what the C libraries have their thread's structure by; as the thread left it when it last left a CPU.
pub const THREAD_POINTER: Option<&str> = Some("thread.fsbase");
