//! Instructions that become one: what the emitters are given instead of single operations.
//!
//! Only neighbours are looked at, and only if nothing jumps between them. A register that a fused step does not write
//! must not be live after it: that is what the plan's liveness is for.

mod memory;

use crate::Error;
use crate::plan::Plan;
use mote_bpf::op::{AluOp, Cond, Operand, Size, Wide, Width};
use mote_bpf::{Op, Reg};

/// A piece of memory that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) base: Reg,
    pub(crate) off: i32,
    pub(crate) size: Size,
}

/// What stood between a load and the branch that uses it, and goes before both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// `dst = value`
    Constant { dst: Reg, value: u64 },
    /// `dst = left + right`
    Sum { dst: Reg, left: Reg, right: Operand },
}

/// A condition, perhaps turned round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) cond: Cond,
    pub(crate) negated: bool,
}

/// What becomes machine code at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing has to be done.
    Nothing,
    /// An operation as it is; no jump, no branch.
    Op(Op),
    /// `dst = left + right`, 64 bits.
    Sum { dst: Reg, left: Reg, right: Operand },
    /// `dst op= memory`, by the width of the memory.
    AluMemory { op: AluOp, dst: Reg, read: Read },
    /// Goes on at `target`.
    Jump { target: usize },
    /// `r0 = value`, and ends the function.
    Leave { value: Option<i32> },
    /// Goes on at `target` if the test holds.
    Branch { width: Width, test: Test, left: Reg, right: Operand, target: usize },
    /// The same, of memory; `swapped` when the memory is the right side. Constants have the memory's size, and all
    /// conditions have become what they are at that size. `first` is done before it.
    BranchMemory {
        first: Option<First>,
        test: Test,
        read: Read,
        other: Operand,
        swapped: bool,
        target: usize,
    },
}

impl Step {
    /// Where it may jump.
    pub(crate) fn target(&self) -> Option<usize> {
        match *self {
            Step::Jump { target } | Step::Branch { target, .. } | Step::BranchMemory { target, .. } => {
                Some(target)
            }
            _ => None,
        }
    }
}

/// What an emitter can do in one step.
#[derive(Clone, Copy)]
pub(crate) struct Abilities {
    /// Operations and comparisons with memory.
    pub(crate) memory: bool,
    /// A jump to the end of a function with a frame is better than the end itself.
    pub(crate) leaves: bool,
}

/// The step that begins at `slot`, and the slot behind it.
pub(crate) fn step(plan: &Plan<'_>, slot: usize, can: Abilities) -> Result<(Step, usize), Error> {
    let op = plan.op(slot)?;
    let next = slot + op.slots();
    if let Some(dst) = pure_result(&op)
        && !plan.is_live(next, dst)
    {
        return Ok((Step::Nothing, next));
    }
    let found = match op {
        Op::Load { .. } if can.memory => memory::load(plan, &op, next),
        Op::Alu { .. } => arithmetic(plan, &op, next),
        Op::Jump { offset } => Some(jump(plan, slot, offset, can)),
        Op::Branch { width, cond, dst, src, offset } => {
            let (test, target, next) = branch(plan, cond, slot, offset);
            Some((Step::Branch { width, test, left: dst, right: src, target }, next))
        }
        Op::Exit => Some((Step::Leave { value: None }, next)),
        _ => None,
    };
    Ok(found.unwrap_or((Step::Op(op), next)))
}

/// The register that an operation writes, when that is all it does.
fn pure_result(op: &Op) -> Option<Reg> {
    match *op {
        Op::Alu { dst, .. } | Op::Neg { dst, .. } | Op::End { dst, .. } | Op::Wide { dst, .. } => Some(dst),
        _ => None,
    }
}

fn jump(plan: &Plan<'_>, slot: usize, offset: i32, can: Abilities) -> (Step, usize) {
    let target = plan.follow((slot as i64 + 1 + i64::from(offset)) as usize);
    let next = slot + 1;
    if target == next {
        return (Step::Nothing, next);
    }
    let leave = |value| (Step::Leave { value }, next);
    match plan.op(target) {
        Ok(Op::Exit) if can.leaves => leave(None),
        Ok(Op::Alu { op: AluOp::Mov, dst: Reg::R0, src: Operand::Imm(value), width })
            if can.leaves && (value >= 0 || width == Width::W64) && plan.op(target + 1) == Ok(Op::Exit) =>
        {
            leave(Some(value))
        }
        _ => (Step::Jump { target }, next),
    }
}

/// A branch's test, its target and the slot behind it. A branch over a jump becomes one branch the other way.
fn branch(plan: &Plan<'_>, cond: Cond, slot: usize, offset: i16) -> (Test, usize, usize) {
    let next = slot + 1;
    if offset == 1
        && let Some(Op::Jump { offset }) = plan.follower(next)
    {
        let target = plan.follow((next as i64 + 1 + i64::from(offset)) as usize);
        return (Test { cond, negated: true }, target, next + 1);
    }
    let target = plan.follow((next as i64 + i64::from(offset)) as usize);
    (Test { cond, negated: false }, target, next)
}

/// The constant that an operation gives, and where.
fn constant(op: &Op) -> Option<First> {
    match *op {
        Op::Wide { dst, value: Wide::Value(value) } => Some(First::Constant { dst, value }),
        Op::Alu { width, op: AluOp::Mov, dst, src: Operand::Imm(imm) } => {
            let value = i64::from(imm) as u64;
            let value = if width == Width::W32 { value & 0xffff_ffff } else { value };
            Some(First::Constant { dst, value })
        }
        _ => None,
    }
}

/// A constant or a sum that `op` is, or begins, and the slot behind it; `next` is the slot behind `op`.
fn first(plan: &Plan<'_>, op: &Op, next: usize) -> Option<(First, usize)> {
    if let Some(found) = constant(op) {
        return Some((found, next));
    }
    match arithmetic(plan, op, next)? {
        (Step::Sum { dst, left, right }, next) => Some((First::Sum { dst, left, right }, next)),
        _ => None,
    }
}

fn arithmetic(plan: &Plan<'_>, op: &Op, next: usize) -> Option<(Step, usize)> {
    let Op::Alu { width: Width::W64, op, dst, src } = *op else { return None };
    if op == AluOp::Lsh {
        return extension(plan, dst, dst, src, next);
    }
    let (AluOp::Mov, Operand::Reg(from)) = (op, src) else { return None };
    let Op::Alu { width: Width::W64, op, dst: second, src } = plan.follower(next)? else { return None };
    if second != dst || from == dst {
        return None;
    }
    let behind = next + 1;
    let sum = |right| Some((Step::Sum { dst, left: from, right }, behind));
    match (op, src) {
        (AluOp::Lsh, by) => extension(plan, dst, from, by, behind),
        (AluOp::Add, Operand::Reg(right)) if right != dst => sum(src),
        (AluOp::Add, Operand::Imm(_)) => sum(src),
        (AluOp::Sub, Operand::Imm(imm)) => sum(Operand::Imm(imm.checked_neg()?)),
        _ => None,
    }
}

/// `dst = from << 32`, of which the step at `next` may make an extension of 32 bits.
fn extension(plan: &Plan<'_>, dst: Reg, from: Reg, by: Operand, next: usize) -> Option<(Step, usize)> {
    let half = Operand::Imm(32);
    let Op::Alu { width: Width::W64, op, dst: again, src } = plan.follower(next)? else { return None };
    if by != half || src != half || again != dst {
        return None;
    }
    let (width, op) = match op {
        AluOp::Rsh => (Width::W32, AluOp::Mov),
        AluOp::Arsh => (Width::W64, AluOp::MovSx32),
        _ => return None,
    };
    Some((Step::Op(Op::Alu { width, op, dst, src: Operand::Reg(from) }), next + 1))
}
