//! x86-64. See [`crate::arch`] for what each item is.

mod syscalls;

pub(crate) use syscalls::SYSCALLS;

pub(crate) const SYSCALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];
