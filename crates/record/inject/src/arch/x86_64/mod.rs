//! x86-64. See [`crate::arch`] for what each item is.

/// Blocks all signals but `TRAPS` behind `keep_registers!`; `r12` is where the stack ends then, with two words of
/// signals: rt_sigprocmask(SIG_BLOCK, all but `TRAPS`, &before).
macro_rules! block_signals {
    () => {
        "push -1 - {traps}
        push 0
        mov eax, {sigprocmask}
        mov edi, {block}
        lea rsi, [rsp + 8]
        mov rdx, rsp
        mov r10d, 8
        syscall
        mov r12, rsp"
    };
}

/// Undoes [`block_signals!`], with `rsp` where that has left it.
macro_rules! unblock_signals {
    () => {
        "mov eax, {sigprocmask}
        mov edi, {setmask}
        mov rsi, rsp
        xor edx, edx
        mov r10d, 8
        syscall
        lea rsp, [rsp + 16]"
    };
}

/// Signals that have come meanwhile end the call if they would have (`agent/src/late.rs`): rt_sigpending, and for each
/// rt_sigaction(signal, NULL, &action, 8), whose handler is `SIG_DFL` and `SIG_IGN` up to 1. `$memory`: where that may
/// be; `$words`: a label, from which on why the call was interrupted lies at `{kind}`. Uses `r13`, `r14`.
macro_rules! end_call {
    ($memory:literal, $words:literal) => {
        concat!(
            "mov eax, {sigpending}
            lea rdi, [",
            $memory,
            "]
            mov esi, 8
            syscall
            mov r13, [",
            $memory,
            "]
            mov rax, [r12]
            not rax
            and r13, rax
            mov r14d, 1
            11:
            mov ecx, r14d
            dec ecx
            bt r13, rcx
            jnc 12f
            mov eax, {sigaction}
            mov edi, r14d
            xor esi, esi
            lea rdx, [",
            $memory,
            "]
            mov r10d, 8
            syscall
            cmp qword ptr [",
            $memory,
            "], 1
            jbe 12f
            mov rax, [rip + ",
            $words,
            " + {kind}]
            cmp rax, {nohand}
            je 13f
            cmp rax, {sys}
            jne 12f
            test dword ptr [",
            $memory,
            " + 8], {restarts}
            jnz 12f
            13:
            mov qword ptr [r12 + {frame_rax}], -{interrupted}
            12:
            inc r14d
            cmp r14d, 64
            jbe 11b"
        )
    };
}

/// Goes back to the instruction of the call, or behind it, from where [`block_signals!`] has left the stack.
macro_rules! go_back {
    () => {
        concat!(
            "cmp qword ptr [r12 + {frame_rax}], -{interrupted}
            je 4f
            sub qword ptr [r12 + {frame_rcx}], 2
            4:
            ",
            super::unblock_signals!(),
            "
            ",
            mote_sys::put_back_registers!(),
            "
            jmp rcx"
        )
    };
}

use {block_signals, end_call, go_back, unblock_signals};

pub(crate) mod counting;
pub(crate) mod descriptor;
pub(crate) mod visit;

/// The code between two labels.
///
/// # Safety
/// Both lie in one piece of read-only data of this program, in this order.
unsafe fn between(begin: *const u8, end: *const u8) -> &'static [u8] {
    // SAFETY: as this function's.
    unsafe { core::slice::from_raw_parts(begin, end.addr() - begin.addr()) }
}

use crate::thread::Call;
use mote_sys::{Result, ptrace};

/// The segment of 64-bit code.
const CODE_64: u64 = 0x33;
/// `cs`, `gs`, `fs`, `ss` in a signal's frame (`struct sigcontext`): user space's segments.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;

/// What functions may use below the stack pointer.
const RED_ZONE: u64 = 128;

/// Where registers lie in what a thread keeps on its stack (`keep_registers!`), behind two words of signals.
const FRAME_RAX: usize = (2 + 13) * 8;
const FRAME_RCX: usize = FRAME_RAX + 8;

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

/// What signals have interrupted whose frames are among these words of a stack, which begins at `at`: where each goes
/// on, and what its registers hold (`struct sigcontext`: `r8` to `rsp`, `rip`, flags, segments, four words, and where
/// the vector registers are, which is behind it and a multiple of 64: arch/x86/kernel/signal.c, `get_sigframe`). What
/// is left of frames that have gone has not all of that, as a rule.
pub(crate) fn interrupted(at: u64, stack: &[u64]) -> impl Iterator<Item = (u64, &[u64])> {
    const REGISTERS: usize = 16;
    const WORDS: usize = REGISTERS + 8;
    const VECTORS_BEHIND: u64 = 1024;
    (at..).step_by(8).zip(stack.windows(WORDS)).filter_map(|(at, words)| {
        let (registers, rest) = words.split_at_checked(REGISTERS)?;
        let [instruction, _, segments, .., vectors] = rest else { return None };
        let is_whole = vectors.wrapping_sub(at) < VECTORS_BEHIND && vectors.is_multiple_of(64);
        (is_signal_frame(*segments) && is_whole).then_some((*instruction, registers))
    })
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

    /// The value of the thread pointer.
    pub(crate) fn thread_pointer(&self) -> u64 {
        self.0.fs_base
    }

    /// The registers that may hold an address.
    pub(crate) fn words(&self) -> [u64; 16] {
        let libc::user_regs_struct { rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, .. } = self.0;
        let libc::user_regs_struct { r8, r9, r10, r11, r12, r13, r14, r15, .. } = self.0;
        [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15]
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

    /// Lets it go on at `code`, which finds on its stack where it was: returns the address, and the word that is to be
    /// written there before.
    pub(crate) fn detour(&mut self, code: u64) -> (u64, u64) {
        let (at, back) = (self.0.rsp.wrapping_sub(RED_ZONE + 8), self.0.rip);
        self.0.rsp = at;
        self.0.rip = code;
        self.0.orig_rax = u64::MAX;
        (at, back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_signal_has_interrupted_is_found_by_its_whole_frame() {
        const AT: u64 = 0x7fff_0000_1000;
        let frame = |vectors: u64| {
            let mut stack = vec![7; 10];
            stack.extend(1..=16);
            stack.extend([0x40_1000, 0x202, SEGMENTS, 0, 0, 0, 0, vectors, 9]);
            stack
        };
        let found = |stack: &[u64]| {
            interrupted(AT, stack).map(|(at, registers)| (at, registers.to_vec())).collect::<Vec<_>>()
        };
        let behind = (AT + 10 * 8).next_multiple_of(64) + 512;
        assert_eq!(found(&frame(behind)), [(0x40_1000, (1..=16).collect())]);
        // What is left of one.
        for vectors in [0, behind + 8, behind - 1024, behind + 4096] {
            assert_eq!(found(&frame(vectors)), [], "{vectors:#x}");
        }
        assert_eq!(found(&frame(behind)[..30]), []);
    }
}
