//! What a thread has executed, as engines report it and everything else takes it: packets, truth, tests.

use mote_pt::digest::Digest;

/// A step of one thread; which one stands beside it ([`crate::Observer::fact`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// Instructions that lie one behind the other, all executed.
    Run(Run<'a>),
    /// The kernel returns to the thread, which goes on at this address: its begin, after a system call, in a handler.
    /// Of a processor whose kernel is traced, too: where it begins, and behind [`Fact::Interrupt`] where that leads.
    Enter(u64),
    /// An exception or an interrupt leads to the kernel, before the instruction at this address is executed.
    Interrupt(u64),
    /// The value of CR3: the first fact of a processor whose kernel is traced. Later ones are said by
    /// [`Exit::Space`].
    Space(u64),
    /// PTWRITE, executed: it follows the run that ends with it.
    Data {
        /// The instruction's address.
        ip: u64,
        /// The operand.
        value: u64,
        /// It has 8 bytes, not 4.
        is_wide: bool,
    },
    /// The thread has ended, in the kernel: a thread that was in its program has been interrupted before. So has a
    /// processor whose kernel is traced: tracing is switched off there.
    End,
}

/// Instructions that lie one behind the other in memory and were executed in this order. A REP-prefixed string
/// instruction is one, however often it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// The address of the first one.
    pub start: u64,
    /// The lengths of all of them, in bytes: one at least.
    pub lengths: &'a [u8],
    /// Their digest.
    pub digest: Digest,
    /// How the last one was left.
    pub exit: Exit,
    /// The address of the next instruction; without meaning after [`Exit::System`].
    pub to: u64,
}

/// How the last instruction of a run was left (the kinds of SDM 3C, 33.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// No branch, or a direct jump: nothing that a trace has to say.
    Plain,
    /// A conditional branch: Jcc, J*CXZ, LOOP.
    Conditional {
        /// It was taken.
        is_taken: bool,
    },
    /// A near call with a displacement, to the run's `to`.
    Call {
        /// Where it returns to.
        back: u64,
    },
    /// A near call through a register or memory.
    IndirectCall {
        /// Where it returns to.
        back: u64,
    },
    /// A near jump through a register or memory.
    IndirectJump,
    /// A near return.
    Return,
    /// SYSCALL, or another instruction that leads to the kernel by itself. INT n and INT3 do not: they are
    /// [`Fact::Interrupt`], as their packets are those of an event (SDM 3C, 33.4.2.6, table "FUP Cases and IP
    /// Payload").
    System,
    /// A far transfer to the run's `to` that is traced, too: a system call and its return where the kernel is traced,
    /// IRET, far branches.
    Far,
    /// A MOV to CR3: what is behind it is of another address space.
    Space {
        /// What CR3 has now.
        cr3: u64,
    },
}

impl Run<'_> {
    /// How many instructions.
    pub fn count(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// The address behind the last instruction.
    pub fn end(&self) -> u64 {
        self.lengths.iter().fold(self.start, |ip, length| ip.wrapping_add(u64::from(*length)))
    }

    /// The addresses of the instructions.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.lengths.iter().scan(self.start, |at, length| {
            let this = *at;
            *at = at.wrapping_add(u64::from(*length));
            Some(this)
        })
    }
}
