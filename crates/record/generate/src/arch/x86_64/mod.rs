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
