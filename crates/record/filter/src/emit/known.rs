//! What is in which register, at the place that is being written.

use crate::typed::Context;
use mote_bpf::Reg;

/// A value that may be wanted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::emit) enum Cached {
    /// A word of the context.
    Word(u16),
    /// Process and thread.
    PidTgid,
    /// What a helper answered.
    Context(Context),
}

/// What is known at a place in the program, on all ways there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emit) struct Known {
    registers: [Option<Cached>; Reg::COUNT],
    /// One bit for each slot of the stack that has its value.
    slots: u8,
}

/// Slots of the stack for what is dear to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emit) enum Slot {
    PidTgid = 0,
    Cpu = 1,
    Elapsed = 2,
    Comm = 3,
    Executable = 4,
}

impl Known {
    /// No register has a value that is known.
    pub(in crate::emit) const fn nothing() -> Known {
        Known { registers: [None; Reg::COUNT], slots: 0 }
    }

    /// What is known whichever of two ways was taken.
    pub(in crate::emit) fn and(&self, other: &Known) -> Known {
        let mut both = *self;
        for (mine, theirs) in both.registers.iter_mut().zip(&other.registers) {
            if mine != theirs {
                *mine = None;
            }
        }
        both.slots &= other.slots;
        both
    }

    pub(in crate::emit) fn at(&self, register: Reg) -> Option<Cached> {
        self.registers[register.index()]
    }

    pub(in crate::emit) fn set(&mut self, register: Reg, value: Option<Cached>) {
        self.registers[register.index()] = value;
    }

    /// The register that has this value.
    pub(in crate::emit) fn find(&self, value: Cached) -> Option<Reg> {
        let at = self.registers.iter().position(|cached| *cached == Some(value))?;
        Reg::new(at as u8)
    }

    /// After a call.
    pub(in crate::emit) fn call(&mut self) {
        self.registers[..6].fill(None);
    }

    pub(in crate::emit) fn has(&self, slot: Slot) -> bool {
        self.slots >> slot as u8 & 1 == 1
    }

    pub(in crate::emit) fn fill(&mut self, slot: Slot) {
        self.slots |= 1 << slot as u8;
    }
}
