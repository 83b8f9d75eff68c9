//! What is in which register, at the place that is being written.

use crate::tree::Context;
use mote_bpf::Reg;

/// A value that may be wanted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cached {
    /// A word of the context.
    Word(u16),
    /// Process and thread.
    PidTgid,
    /// What a helper answered.
    Context(Context),
}

/// What is known at a place in the program, on all ways there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    registers: [Option<Cached>; Reg::COUNT],
    /// One bit for each slot of the stack that has its value.
    slots: u8,
}

/// Slots of the stack for what is dear to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    PidTgid = 0,
    Cpu = 1,
    Elapsed = 2,
    Comm = 3,
    Executable = 4,
}

impl Known {
    /// Nothing.
    pub(super) const fn nothing() -> Known {
        Known { registers: [None; Reg::COUNT], slots: 0 }
    }

    /// What is known whichever of two ways was taken.
    pub(super) fn and(&self, other: &Known) -> Known {
        let mut both = *self;
        for (mine, theirs) in both.registers.iter_mut().zip(&other.registers) {
            if mine != theirs {
                *mine = None;
            }
        }
        both.slots &= other.slots;
        both
    }

    pub(super) fn at(&self, register: Reg) -> Option<Cached> {
        self.registers[register.index()]
    }

    pub(super) fn set(&mut self, register: Reg, value: Option<Cached>) {
        self.registers[register.index()] = value;
    }

    /// The register that has this value.
    pub(super) fn find(&self, value: Cached) -> Option<Reg> {
        let at = self.registers.iter().position(|cached| *cached == Some(value))?;
        Reg::new(at as u8)
    }

    /// After a call.
    pub(super) fn call(&mut self) {
        self.registers[..6].fill(None);
    }

    pub(super) fn has(&self, slot: Slot) -> bool {
        self.slots >> slot as u8 & 1 == 1
    }

    pub(super) fn fill(&mut self, slot: Slot) {
        self.slots |= 1 << slot as u8;
    }
}
