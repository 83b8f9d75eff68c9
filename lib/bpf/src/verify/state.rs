//! What is known at one point of one path: the registers and stack slots of each frame, and the records that are held.

use super::value::{Kind, Value};
use crate::environment::{FRAMES_MAX, STACK_BYTES};
use crate::insn::Reg;
use crate::table::{ByReg, Table};

/// Slots of a stack frame, of 8 bytes.
pub(crate) const SLOTS: usize = STACK_BYTES / 8;
/// Most records that are held at once.
pub(crate) const RECORDS_MAX: usize = 8;

/// What is known of a byte of the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Byte {
    /// It may not be read.
    #[default]
    Nothing = 0,
    /// Part of a number.
    Any = 1,
    /// It is 0.
    Zero = 2,
    /// A byte of the value that was spilled here; of its lowest byte first.
    Part = 3,
}

/// Eight bytes of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) bytes: [Byte; 8],
    /// What the bytes that are `Part` are the low ones of; the others are 0 in it.
    pub(crate) value: Value,
}

impl Slot {
    pub(crate) const NOTHING: Slot = Slot { bytes: [Byte::Nothing; 8], value: Value::NOTHING };

    /// Bytes `from..to` of it.
    pub(crate) fn part(&self, from: usize, to: usize) -> &[Byte] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// As [`Slot::part`], to be changed.
    pub(crate) fn part_mut(&mut self, from: usize, to: usize) -> &mut [Byte] {
        self.bytes.get_mut(from..to).unwrap_or_default()
    }

    /// Whether bytes of a pointer are here.
    pub(crate) fn has_pointer(&self) -> bool {
        self.bytes[0] == Byte::Part && self.value.is_pointer()
    }

    /// Forgets what was spilled: what is left of a pointer may not be read, of a number it may.
    pub(crate) fn break_up(&mut self) {
        let rest = if self.value.is_pointer() { Byte::Nothing } else { Byte::Any };
        for byte in self.bytes.iter_mut().filter(|byte| **byte == Byte::Part) {
            *byte = rest;
        }
    }
}

/// A call of a function that has not returned yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) registers: ByReg<Value>,
    pub(crate) slots: Table<Slot, SLOTS>,
    /// Slots that may hold something, one bit each; the others hold nothing, whatever `slots` says.
    pub(crate) used: u64,
    /// Slots that were wholly written since the last checkpoint.
    pub(crate) written: u64,
    /// Index of the function.
    pub(crate) function: u32,
    /// Where the caller goes on; 0 for the main function.
    pub(crate) back: u32,
}

impl Frame {
    const NOTHING: Frame = Frame {
        registers: ByReg([Value::NOTHING; Reg::COUNT]),
        slots: Table([Slot::NOTHING; SLOTS]),
        used: 0,
        written: 0,
        function: 0,
        back: 0,
    };

    /// What a slot holds.
    pub(crate) fn slot(&self, index: usize) -> Slot {
        if self.used >> index & 1 == 0 { Slot::NOTHING } else { self.slots[index] }
    }

    /// A slot, to be changed.
    pub(crate) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        if self.used >> index & 1 == 0 {
            self.slots[index] = Slot::NOTHING;
            self.used |= 1 << index;
        }
        &mut self.slots[index]
    }

    /// Begins a call.
    pub(crate) fn enter(&mut self, number: u32, function: u32, back: u32) {
        self.registers = ByReg([Value::NOTHING; Reg::COUNT]);
        self.registers[Reg::R10] = Value::pointer(Kind::Stack, number);
        (self.used, self.written, self.function, self.back) = (0, u64::MAX, function, back);
    }
}

/// All that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) frames: Table<Frame, FRAMES_MAX>,
    /// Index of the running frame.
    pub(crate) top: usize,
    /// Ids of the records that are held.
    pub(crate) records: Table<u32, RECORDS_MAX>,
    pub(crate) record_count: usize,
    /// Values and words that were looked at, written or changed so far, on all paths. No part of what is known.
    pub(crate) work: u64,
}

impl State {
    pub(crate) const NOTHING: State = State {
        frames: Table([Frame::NOTHING; FRAMES_MAX]),
        top: 0,
        records: Table([0; RECORDS_MAX]),
        record_count: 0,
        work: 0,
    };

    /// The running frame.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frames[self.top]
    }

    /// The running frame, to be changed.
    pub(crate) fn frame_mut(&mut self) -> &mut Frame {
        &mut self.frames[self.top]
    }

    /// All frames up to the running one.
    pub(crate) fn running(&self) -> &[Frame] {
        self.frames.first(self.top + 1)
    }

    /// Ids of the records that are held.
    pub(crate) fn held(&self) -> &[u32] {
        self.records.first(self.record_count)
    }

    /// What a register of the running frame holds.
    pub(crate) fn register(&self, reg: Reg) -> &Value {
        &self.frames[self.top].registers[reg]
    }

    /// What a register of the running frame holds, to be changed.
    pub(crate) fn register_mut(&mut self, reg: Reg) -> &mut Value {
        &mut self.frames[self.top].registers[reg]
    }

    /// Puts something into a register of the running frame.
    pub(crate) fn set(&mut self, reg: Reg, value: Value) {
        self.frames[self.top].registers[reg] = value;
    }

    /// Changes every value that is known, in registers and where it was spilled.
    pub(crate) fn for_each(&mut self, mut change: impl FnMut(&mut Value)) {
        for frame in self.frames.first_mut(self.top + 1) {
            self.work += Reg::COUNT as u64 + u64::from(frame.used.count_ones());
            frame.registers.0.iter_mut().for_each(&mut change);
            let mut used = frame.used;
            while used != 0 {
                let slot = &mut frame.slots[used.trailing_zeros() as usize];
                used &= used - 1;
                if slot.bytes[0] == Byte::Part {
                    change(&mut slot.value);
                    if slot.value.kind == Kind::Nothing {
                        slot.bytes = [Byte::Nothing; 8];
                    }
                }
            }
        }
    }

    /// Takes a record as given back; whether it was held.
    pub(crate) fn drop_record(&mut self, id: u32) -> bool {
        let Some(at) = self.held().iter().position(|one| *one == id) else { return false };
        for at in at + 1..self.record_count {
            self.records[at - 1] = self.records[at];
        }
        self.record_count -= 1;
        true
    }
}
