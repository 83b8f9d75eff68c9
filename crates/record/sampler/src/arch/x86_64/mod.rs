//! x86-64.

use framehop::UnwindRegsNative;

/// `rbp`, `rsp`, `rip`.
pub(crate) const REGISTERS: usize = 3;

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

    pub(crate) fn to_unwind(self) -> UnwindRegsNative {
        let Registers([rbp, rsp, rip]) = self;
        UnwindRegsNative::new(rip, rsp, rbp)
    }
}
