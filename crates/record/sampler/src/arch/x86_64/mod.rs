//! x86-64.

mod bodies;

pub(crate) use bodies::{AROUND, Moved, moved};

use framehop::UnwindRegsNative;

/// `rbp`, `rsp`, `rip`.
pub(crate) const REGISTERS: usize = 3;

/// What a handler of a signal returns to: `mov $__NR_rt_sigreturn, %rax; syscall`. Its frame, which the kernel has
/// made, is beyond what the unwinder calculates (`framehop` knows no `DW_OP_deref`).
pub(crate) const RESTORER: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Offsets of `rbp`, `rsp`, `rip` in the frame (`struct ucontext`, `asm/sigcontext.h`) that the stack pointer points to
/// there, and of `cs` with what it is in 64-bit programs.
const INTERRUPTED: [u64; REGISTERS] = [120, 160, 168];
const INTERRUPTED_CODE: (u64, u64) = (184, 0x33);

/// The registers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers([u64; REGISTERS]);

impl Registers {
    pub(crate) fn new(words: [u64; REGISTERS]) -> Registers {
        Registers(words)
    }

    pub(crate) fn stack_pointer(self) -> u64 {
        let Registers([_, rsp, _]) = self;
        rsp
    }

    pub(crate) fn instruction(self) -> u64 {
        let Registers([_, _, rip]) = self;
        rip
    }

    /// The registers where a signal has interrupted the program, at whose restorer the stack pointer is this.
    pub(crate) fn interrupted(
        stack: u64,
        mut read: impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Registers, ()> {
        let (offset, usual) = INTERRUPTED_CODE;
        if read(stack.wrapping_add(offset))? & 0xffff != usual {
            return Err(());
        }
        let mut words = [0; REGISTERS];
        for (word, offset) in words.iter_mut().zip(INTERRUPTED) {
            *word = read(stack.wrapping_add(offset))?;
        }
        Ok(Registers(words))
    }

    pub(crate) fn to_unwind(self) -> UnwindRegsNative {
        let Registers([rbp, rsp, rip]) = self;
        UnwindRegsNative::new(rip, rsp, rbp)
    }
}
