//! Arithmetic on what registers hold: the registers stay in here and in [`super::code`]. All of it is of 64 bits.

use crate::emit::code::{Code, Held, Stop};
use mote_bpf::Reg;
use mote_bpf::op::{AluOp, Operand, Size, Width};

impl From<Held> for Operand {
    fn from(held: Held) -> Operand {
        held.reg.into()
    }
}

impl Code<'_> {
    /// A register with a constant.
    pub(in crate::emit) fn constant(&mut self, value: u64) -> Result<Held, Stop> {
        let held = self.alloc()?;
        self.b.constant(held.reg, value);
        Ok(held)
    }

    /// Another register with the same value, which may be changed; the first one stays held.
    pub(in crate::emit) fn copied(&mut self, from: Held) -> Result<Held, Stop> {
        let held = self.alloc()?;
        self.apply(AluOp::Mov, held, from);
        Ok(held)
    }

    /// `to = to OP by`
    pub(in crate::emit) fn apply(&mut self, op: AluOp, to: Held, by: impl Into<Operand>) {
        self.b.alu(Width::W64, op, to.reg, by);
    }

    /// `held = -held`
    pub(in crate::emit) fn negate(&mut self, held: Held) {
        self.b.neg(Width::W64, held.reg);
    }

    /// Subtracts a constant of any size.
    pub(in crate::emit) fn subtract(&mut self, from: Held, value: u64) -> Result<(), Stop> {
        match i32::try_from((value as i64).wrapping_neg()) {
            Ok(0) => {}
            Ok(less) => self.apply(AluOp::Add, from, less),
            Err(_) => {
                let constant = self.constant(value.wrapping_neg())?;
                self.apply(AluOp::Add, from, constant);
                self.release(constant);
            }
        }
        Ok(())
    }

    /// Loads what lies `offset` bytes behind the address in `at`, extended by zeros.
    pub(in crate::emit) fn load_into(&mut self, into: Held, size: Size, at: Held, offset: i16) {
        self.b.load(size, into.reg, at.reg, offset);
    }

    /// The same, extended by its sign.
    pub(in crate::emit) fn load_signed_into(&mut self, into: Held, size: Size, at: Held, offset: i16) {
        self.b.load_signed(size, into.reg, at.reg, offset);
    }

    /// Stores a word on the stack.
    pub(in crate::emit) fn put_on_stack(&mut self, slot: i16, held: Held) {
        self.b.store(Size::DW, Reg::R10, slot, held.reg);
    }

    /// A register with a word from the stack.
    pub(in crate::emit) fn taken_from_stack(&mut self, slot: i16) -> Result<Held, Stop> {
        let held = self.alloc()?;
        self.b.load(Size::DW, held.reg, Reg::R10, slot);
        Ok(held)
    }
}
