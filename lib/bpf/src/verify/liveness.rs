//! The second pass: which registers may still be read, from each slot on, and which of their numbers matter.
//!
//! A register that is not live is not compared when two states are, so that what is left over in it keeps no path from
//! ending. Nor is the number in a register compared that is not *exact*: one that can reach neither a branch nor an
//! address nor the stack nor the size of something, however many operations later. So a loop that counts matches is
//! walked once per turn, not once per turn and count.
//!
//! Both are the greatest sets that flow backwards through the program; functions are taken together, an `exit` reading
//! what any caller may read, which is `r0`.

use super::structure::{Functions, Slots, jump_target};
use crate::environment::Environment;
use crate::helper::{Arg, Helper, Returns};
use crate::insn::{Insn, Reg};
use crate::op::{self, AluOp, AtomicOp, Op, Operand};

/// Most sweeps over the program. With more loops in each other than this everything counts as read.
const SWEEPS_MAX: usize = 64;

/// What an instruction does to the sets.
#[derive(Clone, Copy, Default)]
struct Sets {
    live: u16,
    exact: u16,
}

/// Fills in `live` and `exact` of all slots.
pub(crate) fn fill(insns: &[Insn], env: &Environment<'_>, functions: &Functions, slots: &mut Slots) {
    for _ in 0..SWEEPS_MAX {
        if !sweep(insns, env, functions, slots) {
            return;
        }
    }
    for slot in slots.first_mut(insns.len()) {
        (slot.live, slot.exact) = (u16::MAX, u16::MAX);
    }
}

/// From the last slot to the first. Whether another sweep may find more.
fn sweep(insns: &[Insn], env: &Environment<'_>, functions: &Functions, slots: &mut Slots) -> bool {
    let (mut changed, mut back) = (false, false);
    let main_end = functions.all[0].end as usize;
    for pc in (0..insns.len()).rev() {
        if slots[pc].is_half {
            continue;
        }
        let Ok(op) = op::decode(insns.get(pc..).unwrap_or_default()) else { continue };
        let mut after = Sets::default();
        if let Some(target) = jump_target(pc, &op) {
            back |= target <= pc;
            after = Sets { live: slots[target].live, exact: slots[target].exact };
        }
        if !super::structure::is_last(&op) && pc + op.slots() < insns.len() {
            let next = slots[pc + op.slots()];
            after = Sets { live: after.live | next.live, exact: after.exact | next.exact };
        }
        let before = match op {
            Op::CallLocal { offset } => {
                back |= offset < 0;
                let entry = slots[(pc as i64 + 1 + i64::from(offset)) as usize];
                call(after, Sets { live: entry.live & ARGS, exact: entry.exact & ARGS })
            }
            Op::Call { helper } => match env.helper(helper) {
                Some(helper) => call(after, arguments(helper)),
                None => after,
            },
            Op::Exit if pc < main_end => Sets { live: 1, exact: 0 },
            Op::Exit => Sets { live: 1, exact: 1 },
            _ => through(&op, after),
        };
        let slot = &mut slots[pc];
        changed |= slot.live != before.live || slot.exact != before.exact;
        (slot.live, slot.exact) = (before.live, before.exact);
    }
    // Without a way back everything that follows an instruction was seen before it.
    changed && back
}

/// `r1` to `r5`.
const ARGS: u16 = 0x3e;
/// What a call leaves nothing of.
const SCRATCH: u16 = 0x3f;

fn call(after: Sets, arguments: Sets) -> Sets {
    Sets { live: after.live & !SCRATCH | arguments.live, exact: after.exact & !SCRATCH | arguments.exact }
}

/// What a helper reads. A number that it only takes in need not be exact, unless it is the size of what comes back.
fn arguments(helper: &Helper) -> Sets {
    let mut sets = Sets::default();
    for (number, arg) in (1..).zip(helper.args) {
        let bit = 1u16 << number;
        sets.live |= if arg == Arg::None { 0 } else { bit };
        let loose = arg == Arg::Number && helper.returns != Returns::RecordOrNull;
        sets.exact |= if arg == Arg::None || loose { 0 } else { bit };
    }
    sets
}

fn bit(reg: Reg) -> u16 {
    1 << reg.number()
}

fn operand(src: Operand) -> u16 {
    match src {
        Operand::Reg(reg) => bit(reg),
        Operand::Imm(_) => 0,
    }
}

/// The sets before an instruction that is no call and no `exit`.
fn through(op: &Op, after: Sets) -> Sets {
    let (written, read, exact) = match *op {
        Op::Alu { op, dst, src, .. } => {
            let moves = matches!(op, AluOp::Mov | AluOp::MovSx8 | AluOp::MovSx16 | AluOp::MovSx32);
            let read = operand(src) | if moves { 0 } else { bit(dst) };
            // Operands matter as much as the result does.
            let exact = if after.exact & bit(dst) != 0 { read } else { 0 };
            (bit(dst), read, exact)
        }
        Op::Neg { dst, .. } | Op::End { dst, .. } => (bit(dst), bit(dst), after.exact & bit(dst)),
        Op::Wide { dst, .. } => (bit(dst), 0, 0),
        Op::Load { dst, src, .. } => (bit(dst), bit(src), bit(src)),
        Op::Store { dst, src, .. } => (0, bit(dst) | operand(src), bit(dst) | operand(src)),
        Op::Atomic { op, base, reg, .. } => atomic(op, bit(base), bit(reg)),
        Op::Branch { dst, src, .. } => (0, bit(dst) | operand(src), bit(dst) | operand(src)),
        Op::Jump { .. } | Op::Call { .. } | Op::CallLocal { .. } | Op::Exit => (0, 0, 0),
    };
    Sets { live: after.live & !written | read, exact: after.exact & !written | exact }
}

fn atomic(op: AtomicOp, base: u16, reg: u16) -> (u16, u16, u16) {
    let read = match op {
        AtomicOp::LoadAcquire => return (reg, base, base),
        AtomicOp::CmpXchg => base | reg | 1,
        _ => base | reg,
    };
    let written = match op {
        AtomicOp::FetchAdd | AtomicOp::FetchOr | AtomicOp::FetchAnd | AtomicOp::FetchXor | AtomicOp::Xchg => {
            reg
        }
        AtomicOp::CmpXchg => 1,
        _ => 0,
    };
    (written, read, read)
}
