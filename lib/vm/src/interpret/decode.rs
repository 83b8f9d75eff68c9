//! From instructions to steps, with the checks that the interpreter relies on.
//!
//! What holds of steps that this makes (`steps-lead-to-steps`): each jump and local call leads to a step of the program
//! that is not the second half of a 16-byte instruction; the last step does not go on to one behind it; register
//! numbers are below 16.

use super::atomic;
use super::form::{self, Code, Step};
use crate::helper::Function;
use crate::setup::LoadError;
use mote_bpf::environment::INSNS_MAX;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Operand, Order, Size, Wide, Width, decode};
use mote_bpf::{Insn, Op, Reg};
use mote_jit::MapPlace;

/// What instructions refer to.
pub(crate) struct Linked<'a> {
    /// The maps by index.
    pub(crate) maps: &'a [MapPlace],
    /// The helpers by number.
    pub(crate) helper: &'a dyn Fn(u32) -> Option<Function>,
}

/// Decodes the instruction at `at`, which is not behind the end.
///
/// # Errors
/// [`LoadError`], with the instruction's place.
pub(crate) fn step(insns: &[Insn], at: usize, linked: &Linked<'_>) -> Result<Step, LoadError> {
    let rest = insns.get(at..).unwrap_or(&[]);
    if at > 0 && rest.first().is_some_and(|insn| insn.code == 0) {
        // Nothing jumps here (`target`), and the first half goes past it.
        return Ok(Step::new(Code::Second));
    }
    let op = decode(rest).map_err(|error| LoadError::Decode { at, error })?;
    if at + op.slots() >= insns.len() && !matches!(op, Op::Exit | Op::Jump { .. }) {
        return Err(LoadError::End);
    }
    let next = rest.get(1..).and_then(|rest| decode(rest).ok());
    let fused = next.and_then(|next| fuse(&op, &next));
    if let Some((step, offset)) = fused {
        let to = offset.map_or(Ok(0), |offset| target(insns, at + 1, offset))?;
        return Ok(Step { to: if offset.is_some() { to + 1 } else { 0 }, ..step });
    }
    let offset = match op {
        Op::Jump { offset } | Op::CallLocal { offset } => Some(offset),
        Op::Branch { offset, .. } => Some(i32::from(offset)),
        _ => None,
    };
    let to = offset.map_or(Ok(0), |offset| target(insns, at, offset))?;
    plain(at, op, to, linked)
}

/// Checks where a jump at `at` leads; the offset again.
fn target(insns: &[Insn], at: usize, offset: i32) -> Result<i32, LoadError> {
    let to = (at as i64 + 1 + i64::from(offset)) as usize;
    // The second half of a 16-byte instruction has code 0, which no instruction has.
    let is_there = insns.len() <= INSNS_MAX && insns.get(to).is_some_and(|insn| insn.code != 0);
    if is_there { Ok(offset) } else { Err(LoadError::Target { at }) }
}

/// Two instructions as one step, and where that jumps.
fn fuse(first: &Op, second: &Op) -> Option<(Step, Option<i32>)> {
    match (*first, *second) {
        (Op::Load { dst, src, off, size, signed: false }, second) => {
            let load = Step { high: i32::from(off) as u32, ..regs(Code::Load64, dst, src) };
            fuse_load(load, (size, dst), second)
        }
        (
            Op::Alu { width: Width::W64, op: AluOp::Or, dst, src: Operand::Reg(src) },
            Op::Branch { width: Width::W64, cond: Cond::Ne, dst: left, src: Operand::Imm(0), offset },
        ) if dst == left => Some((regs(Code::OrNe, dst, src), Some(offset.into()))),
        (Op::Alu { width, op: AluOp::Mov, dst: Reg::R0, src: Operand::Imm(imm) }, Op::Exit) => {
            Some((Step::new(Code::Return).with(extend(width, imm)), None))
        }
        _ => None,
    }
}

/// A load of `size` into `dst`, and what follows with it.
fn fuse_load(load: Step, (size, dst): (Size, Reg), second: Op) -> Option<(Step, Option<i32>)> {
    let with = |code: Code, low: u32| Step { code, low, ..load };
    Some(match (size, second) {
        (Size::DW, Op::Branch { width: Width::W64, cond, dst: left, src: Operand::Imm(imm), offset })
            if left == dst =>
        {
            (with(form::load_branch(cond), imm as u32), Some(offset.into()))
        }
        (Size::DW, Op::Branch { width: Width::W64, cond, dst: left, src: Operand::Reg(right), offset })
            if right == dst && left != dst =>
        {
            let code = match cond {
                Cond::Eq => Code::LoadEqR,
                Cond::Ne => Code::LoadNeR,
                _ => return None,
            };
            (with(code, left.number().into()), Some(offset.into()))
        }
        (Size::DW, Op::Alu { width: Width::W64, op: AluOp::Add, dst: to, src: Operand::Imm(imm) })
            if to == dst =>
        {
            (with(Code::LoadAdd, imm as u32), None)
        }
        (Size::DW, Op::Alu { width: Width::W64, op: AluOp::Xor, dst: to, src: Operand::Reg(from) })
            if from == dst && to != dst =>
        {
            (with(Code::LoadXor64, to.number().into()), None)
        }
        (_, Op::Alu { width: Width::W32, op: AluOp::Xor, dst: to, src: Operand::Imm(imm) }) if to == dst => {
            let code = match size {
                Size::B => Code::LoadXor8,
                Size::H => Code::LoadXor16,
                Size::W => Code::LoadXor32,
                Size::DW => return None,
            };
            (with(code, imm as u32), None)
        }
        _ => return None,
    })
}

fn extend(width: Width, imm: i32) -> u64 {
    match width {
        Width::W64 => i64::from(imm) as u64,
        Width::W32 => u64::from(imm as u32),
    }
}

/// A step with these registers.
fn regs(code: Code, dst: Reg, src: Reg) -> Step {
    Step { dst: dst.number(), src: src.number(), ..Step::new(code) }
}

/// A step with a register and an operand.
fn binary(code: Code, width: Width, dst: Reg, src: Operand) -> Step {
    match src {
        Operand::Reg(src) => regs(code, dst, src),
        Operand::Imm(imm) => regs(code, dst, dst).with(extend(width, imm)),
    }
}

/// One instruction as one step.
fn plain(at: usize, op: Op, to: i32, linked: &Linked<'_>) -> Result<Step, LoadError> {
    Ok(match op {
        Op::Alu { width, op, dst, src } => match form::alu(op, width, src) {
            Some(code) => binary(code, width, dst, src),
            None => binary(sign_move(op, width), width, dst, src),
        },
        Op::Neg { width: Width::W64, dst } => regs(Code::Neg64, dst, dst),
        Op::Neg { width: Width::W32, dst } => regs(Code::Neg32, dst, dst),
        Op::End { order, bits, dst } => byte_order(order, bits, dst),
        Op::Wide { dst, value } => regs(Code::Wide, dst, dst).with(wide(at, value, linked)?),
        Op::Load { dst, src, off, size, signed } => {
            Step { to: off.into(), ..regs(load(size, signed), dst, src) }
        }
        Op::Store { dst, off, size, src } => Step { to: off.into(), ..store(size, dst, src) },
        Op::Atomic { op, base, off, size, reg } => {
            Step { to: off.into(), ..atomic_step(op, base, size, reg) }
        }
        Op::Jump { .. } => Step { to, ..Step::new(Code::Jump) },
        Op::Branch { width, cond, dst, src, .. } => {
            Step { to, ..binary(form::branch(cond, width, src), width, dst, src) }
        }
        Op::Call { helper } => match (linked.helper)(helper).ok_or(LoadError::Helper { at, helper })? {
            Function::Plain(function) => Step::new(Code::Call).with(function as usize as u64),
            Function::Faulting(function) => Step::new(Code::CallFaulting).with(function as usize as u64),
            Function::TailCall => Step::new(Code::TailCall),
        },
        Op::CallLocal { .. } => Step { to, ..Step::new(Code::CallLocal) },
        Op::Exit => Step::new(Code::Exit),
    })
}

fn sign_move(op: AluOp, width: Width) -> Code {
    match (op, width) {
        (AluOp::MovSx8, Width::W64) => Code::Sx8W64,
        (AluOp::MovSx16, Width::W64) => Code::Sx16W64,
        (AluOp::MovSx8, Width::W32) => Code::Sx8W32,
        (AluOp::MovSx16, Width::W32) => Code::Sx16W32,
        _ => Code::Sx32W64,
    }
}

fn byte_order(order: Order, bits: u8, dst: Reg) -> Step {
    match (order, bits) {
        (Order::Little, 16) => regs(Code::And64I, dst, dst).with(0xffff),
        (Order::Little, 32) => regs(Code::Mov32R, dst, dst),
        (Order::Little, _) => regs(Code::Mov64R, dst, dst),
        (_, 16) => regs(Code::Swap16, dst, dst),
        (_, 32) => regs(Code::Swap32, dst, dst),
        _ => regs(Code::Swap64, dst, dst),
    }
}

fn wide(at: usize, value: Wide, linked: &Linked<'_>) -> Result<u64, LoadError> {
    let map = |index: u32| linked.maps.get(index as usize).ok_or(LoadError::NoMap { at, index });
    Ok(match value {
        Wide::Value(value) => value,
        Wide::Map(index) => map(index)?.descriptor,
        Wide::MapValue { map: index, offset } => map(index)?.values.wrapping_add(u64::from(offset)),
    })
}

fn load(size: Size, signed: bool) -> Code {
    match (size, signed) {
        (Size::B, false) => Code::Load8,
        (Size::H, false) => Code::Load16,
        (Size::W, false) => Code::Load32,
        (Size::DW, _) => Code::Load64,
        (Size::B, true) => Code::LoadS8,
        (Size::H, true) => Code::LoadS16,
        (Size::W, true) => Code::LoadS32,
    }
}

fn store(size: Size, dst: Reg, src: Operand) -> Step {
    match src {
        Operand::Reg(src) => {
            let code = match size {
                Size::B => Code::Store8,
                Size::H => Code::Store16,
                Size::W => Code::Store32,
                Size::DW => Code::Store64,
            };
            regs(code, dst, src)
        }
        Operand::Imm(imm) => {
            let code = match size {
                Size::B => Code::Put8,
                Size::H => Code::Put16,
                Size::W => Code::Put32,
                Size::DW => Code::Put64,
            };
            regs(code, dst, dst).with(extend(Width::W64, imm))
        }
    }
}

fn atomic_step(op: AtomicOp, base: Reg, size: Size, reg: Reg) -> Step {
    let bytes = size.bytes() as u64;
    match (op, atomic::number(op)) {
        (_, Some(number)) => {
            let code = if size == Size::W { Code::Atomic32 } else { Code::Atomic64 };
            regs(code, base, reg).with(number)
        }
        (AtomicOp::LoadAcquire, None) => regs(Code::Acquire, base, reg).with(bytes),
        (_, None) => regs(Code::Release, base, reg).with(bytes),
    }
}
