//! x86-64. See [`crate::arch`] for what each item is.

pub(crate) mod visit;

use crate::thread::Call;
use mote_sys::{Result, ptrace};

/// The segment of 64-bit code.
const CODE_64: u64 = 0x33;
/// `cs`, `gs`, `fs`, `ss` in a signal's frame (`struct sigcontext`): user space's segments.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;

/// What functions may use below the stack pointer.
const RED_ZONE: u64 = 128;

/// An instruction that stops a traced thread behind it.
pub(crate) const BREAKPOINT: [u8; 1] = [0xcc];

pub(crate) const KEEPS_REGISTERS: &str = "XSAVE";

/// Whether the processor has it.
pub(crate) fn can_keep_registers() -> bool {
    std::arch::is_x86_feature_detected!("xsave")
}

/// Whether this word of a stack is of a signal's frame: it has segments at a fixed place.
pub(crate) fn is_signal_frame(word: u64) -> bool {
    word == SEGMENTS
}

/// The registers of a stopped thread.
#[derive(Clone, Copy)]
pub(crate) struct Registers(libc::user_regs_struct);

impl Registers {
    /// Reads them.
    ///
    /// # Errors
    /// As `ptrace::registers`.
    pub(crate) fn of(tid: i32) -> Result<Registers> {
        ptrace::registers(tid).map(Registers)
    }

    /// Gives them to the thread.
    ///
    /// # Errors
    /// As `ptrace::set_registers`.
    pub(crate) fn give(&self, tid: i32) -> Result<()> {
        ptrace::set_registers(tid, &self.0)
    }

    /// The system call that the thread is in, if it is one of 64-bit code.
    pub(crate) fn call(&self) -> Option<Call> {
        let now = &self.0;
        let arguments = [now.rdi, now.rsi, now.rdx, now.r10, now.r8, now.r9];
        (now.cs == CODE_64).then_some(Call { number: now.orig_rax as i64, arguments })
    }

    /// What the kernel has answered to it.
    pub(crate) fn answer(&self) -> i64 {
        self.0.rax as i64
    }

    /// Has the kernel do with the call what it does after this answer, an error above 0.
    pub(crate) fn set_answer(&mut self, kind: u64) {
        self.0.rax = 0u64.wrapping_sub(kind);
    }

    /// The value of `rsp`.
    pub(crate) fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// Where it goes on: behind the instruction of a call that it waits in.
    pub(crate) fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// Has it go on there.
    pub(crate) fn set_instruction(&mut self, at: u64) {
        self.0.rip = at;
        self.0.orig_rax = u64::MAX;
    }

    /// Lets it go on at `code`, somewhere else on its stack, as if it were in no call.
    pub(crate) fn go(&mut self, code: u64) {
        self.0.rip = code;
        self.0.rsp = self.0.rsp.wrapping_sub(RED_ZONE);
        self.0.orig_rax = u64::MAX;
    }

    /// Lets it go on at `code`, which finds the nonce in `r11` and in `rcx` where the call returns to.
    pub(crate) fn send(&mut self, code: u64, nonce: u64) {
        (self.0.rcx, self.0.r11) = (self.0.rip, nonce);
        self.0.rip = code;
    }
}
