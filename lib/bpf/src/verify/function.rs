//! What is known of the functions of a verified program.

/// Most functions of a program, the main one included.
pub const FUNCTIONS_MAX: usize = 256;

/// What is known of one function of a verified program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) stack: u16,
    pub(crate) registers: u16,
    pub(crate) calls: bool,
}

impl Function {
    /// Slot of its first instruction, from 0.
    pub const fn start(&self) -> usize {
        self.start as usize
    }

    /// The slot behind its last one.
    pub const fn end(&self) -> usize {
        self.end as usize
    }

    /// Bytes below `r10` that it (or what it calls, through pointers) touches: a multiple of 8, 0 when it has no use
    /// for a stack.
    pub const fn stack_bytes(&self) -> usize {
        self.stack as usize
    }

    /// Registers that its instructions name, one bit each: bit 6 for `r6`.
    pub const fn registers(&self) -> u16 {
        self.registers
    }

    /// Whether it calls helpers or other functions.
    pub const fn calls(&self) -> bool {
        self.calls
    }
}
