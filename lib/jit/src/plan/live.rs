//! Which registers are read again: one walk backwards.
//!
//! Every slot begins with all registers live, and that is what a jump backwards finds at its target: a loop makes no
//! second walk necessary, only the answer less sharp.

use super::{HALF, LIVE, Plan, jump_of};
use mote_bpf::op::{AluOp, AtomicOp, Operand};
use mote_bpf::{Op, Reg};

/// All registers.
pub(super) const ALL: u32 = LIVE;

fn bit(reg: Reg) -> u32 {
    1 << reg.number()
}

fn bit_of(operand: Operand) -> u32 {
    match operand {
        Operand::Reg(reg) => bit(reg),
        Operand::Imm(_) => 0,
    }
}

/// `r1` to `r5`.
const ARGUMENTS: u32 = 0b11_1110;

/// What an instruction reads, and what it writes entirely.
fn effect(op: &Op) -> (u32, u32) {
    match *op {
        Op::Alu { op, dst, src, .. } => {
            let moves = matches!(op, AluOp::Mov | AluOp::MovSx8 | AluOp::MovSx16 | AluOp::MovSx32);
            (bit_of(src) | if moves { 0 } else { bit(dst) }, bit(dst))
        }
        Op::Neg { dst, .. } | Op::End { dst, .. } => (bit(dst), bit(dst)),
        Op::Wide { dst, .. } => (0, bit(dst)),
        Op::Load { dst, src, .. } => (bit(src), bit(dst)),
        Op::Store { dst, src, .. } => (bit(dst) | bit_of(src), 0),
        Op::Atomic { op, base, reg, .. } => match op {
            AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor | AtomicOp::StoreRelease => {
                (bit(base) | bit(reg), 0)
            }
            AtomicOp::CmpXchg => (bit(base) | bit(reg) | bit(Reg::R0), bit(Reg::R0)),
            AtomicOp::LoadAcquire => (bit(base), bit(reg)),
            AtomicOp::FetchAdd
            | AtomicOp::FetchOr
            | AtomicOp::FetchAnd
            | AtomicOp::FetchXor
            | AtomicOp::Xchg => (bit(base) | bit(reg), bit(reg)),
        },
        Op::Branch { dst, src, .. } => (bit(dst) | bit_of(src), 0),
        Op::Call { .. } | Op::CallLocal { .. } => (ARGUMENTS, ARGUMENTS | bit(Reg::R0)),
        Op::Exit => (bit(Reg::R0), 0),
        Op::Jump { .. } => (0, 0),
    }
}

impl Plan<'_> {
    /// Fills in the live registers of all slots. The program was looked through before.
    pub(super) fn find_live(&mut self) {
        for slot in (0..self.insns.len()).rev() {
            if self.fact(slot) & HALF != 0 {
                continue;
            }
            let Ok(op) = self.op(slot) else { continue };
            let next = self.fact(slot + op.slots());
            let jumps = jump_of(slot, &op).map_or(0, |target| self.fact(target as usize));
            let after = match op {
                Op::Exit => 0,
                Op::Jump { .. } => jumps,
                _ => next | jumps,
            };
            let (reads, writes) = effect(&op);
            let live = reads | after & LIVE & !writes | bit(Reg::R10);
            if let Some(facts) = self.facts.get_mut(slot) {
                *facts = *facts & !LIVE | live;
            }
        }
    }
}
