//! A load whose value is used once, by the instruction behind it: compared, or the second operand of arithmetic.

use super::{First, Read, Step, Test, branch, first};
use crate::plan::Plan;
use mote_bpf::op::{AluOp, Cond, Operand, Size, Width};
use mote_bpf::{Op, Reg};

/// What is loaded, and how it is extended to 64 bits.
#[derive(Clone, Copy)]
struct Loaded {
    into: Reg,
    read: Read,
    signed: bool,
}

/// The step that begins with the load `op`; `next` is the slot behind it.
pub(super) fn load(plan: &Plan<'_>, op: &Op, next: usize) -> Option<(Step, usize)> {
    let Op::Load { dst, src, off, size, signed } = *op else { return None };
    let loaded = Loaded { into: dst, read: Read { base: src, off: i32::from(off), size }, signed };
    let second = plan.follower(next)?;
    match second {
        Op::Alu { width, op, dst, src: Operand::Reg(reg) } if reg == loaded.into => {
            alu(plan, &loaded, width, op, dst, next + 1)
        }
        Op::Branch { .. } => compare(plan, &loaded, None, &second, next),
        _ => {
            let (between, at) = first(plan, &second, next + second.slots())?;
            if !passes(&between, &loaded) {
                return None;
            }
            compare(plan, &loaded, Some(between), &plan.follower(at)?, at)
        }
    }
}

/// Whether something between a load and its use can as well go before the load.
fn passes(between: &First, loaded: &Loaded) -> bool {
    let keeps = |dst: Reg| dst != loaded.into && dst != loaded.read.base;
    match *between {
        First::Constant { dst, .. } => keeps(dst),
        First::Sum { dst, left, right } => {
            keeps(dst) && left != loaded.into && right != Operand::Reg(loaded.into)
        }
    }
}

fn alu(
    plan: &Plan<'_>,
    loaded: &Loaded,
    width: Width,
    op: AluOp,
    dst: Reg,
    next: usize,
) -> Option<(Step, usize)> {
    use AluOp::{Add, And, Mul, Or, Sub, Xor};
    let fits = matches!(op, Add | Sub | Mul | And | Or | Xor) && dst != loaded.into;
    if !fits || plan.is_live(next, loaded.into) {
        return None;
    }
    let size = at_width(loaded, width)?;
    Some((Step::AluMemory { op, dst, read: Read { size, ..loaded.read } }, next))
}

/// The size to read so that an operation of this width sees what it would in a register.
fn at_width(loaded: &Loaded, width: Width) -> Option<Size> {
    match (loaded.read.size, width) {
        (Size::DW, Width::W64) => Some(Size::DW),
        (Size::DW | Size::W, Width::W32) => Some(Size::W),
        _ => None,
    }
}

/// The branch `op` in slot `at`, of what was loaded before it; between the two may have been something else.
fn compare(
    plan: &Plan<'_>,
    loaded: &Loaded,
    mut between: Option<First>,
    op: &Op,
    at: usize,
) -> Option<(Step, usize)> {
    let Op::Branch { width, cond, dst, src, offset } = *op else { return None };
    let (test, target, next) = branch(plan, cond, at, offset);
    let dead = |reg| !plan.is_live(next, reg) && !plan.is_live(target, reg);
    if !dead(loaded.into) {
        return None;
    }
    let mut right = src;
    if let Some(First::Constant { dst: reg, value }) = between
        && src == Operand::Reg(reg)
        && dst == loaded.into
        && dead(reg)
        && let Some(imm) = as_immediate(value, width)
    {
        (right, between) = (Operand::Imm(imm), None);
    }
    let (read, cond, other, swapped) = match right {
        Operand::Imm(imm) if dst == loaded.into => {
            let (size, cond, imm) = with_constant(loaded, width, cond, imm)?;
            (Read { size, ..loaded.read }, cond, Operand::Imm(imm), false)
        }
        Operand::Reg(reg) if (dst == loaded.into) != (reg == loaded.into) => {
            let swapped = reg == loaded.into;
            let other = if swapped { dst } else { reg };
            let size = at_width(loaded, width)?;
            (Read { size, ..loaded.read }, cond, Operand::Reg(other), swapped)
        }
        _ => return None,
    };
    let test = Test { cond, ..test };
    Some((Step::BranchMemory { first: between, test, read, other, swapped, target }, next))
}

/// A constant as the second operand of a comparison.
fn as_immediate(value: u64, width: Width) -> Option<i32> {
    match width {
        Width::W32 => Some(value as u32 as i32),
        Width::W64 => i32::try_from(value as i64).ok(),
    }
}

/// A comparison of what was loaded with a constant, as one of the memory itself: its size, condition and constant.
fn with_constant(loaded: &Loaded, width: Width, cond: Cond, imm: i32) -> Option<(Size, Cond, i32)> {
    let size = loaded.read.size;
    if let Some(size) = at_width(loaded, width) {
        // A mask of the lowest byte needs only that byte.
        let low = cond == Cond::Set && (0..=0xff).contains(&imm);
        return Some((if low { Size::B } else { size }, cond, imm));
    }
    let bits = 8 * size.bytes() as u32;
    if cond == Cond::Set {
        // Bits above the memory's are zeros, or copies of its sign, which an unsigned mask does not meet.
        return match size {
            _ if imm < 0 => None,
            Size::B => Some((Size::B, cond, imm & 0xff)).filter(|_| !loaded.signed || imm < 0x80),
            _ if imm <= 0xff => Some((Size::B, cond, imm)),
            Size::W => Some((Size::W, cond, imm)),
            _ => None,
        };
    }
    if loaded.signed {
        // Extending by the sign keeps both orders.
        let fits = size == Size::W || i32::from(imm as i16) == imm && size == Size::H;
        let fits = fits || i32::from(imm as i8) == imm;
        return fits.then_some((size, cond, imm)).filter(short_enough);
    }
    if imm < 0 || u64::from(imm as u32) >> bits != 0 {
        return None;
    }
    let unsigned = match cond {
        Cond::SGt => Cond::Gt,
        Cond::SGe => Cond::Ge,
        Cond::SLt => Cond::Lt,
        Cond::SLe => Cond::Le,
        other => other,
    };
    Some((size, unsigned, imm)).filter(short_enough)
}

/// A 16-bit constant makes decoders stumble (length-changing prefix): then the load stays a load of its own.
fn short_enough(found: &(Size, Cond, i32)) -> bool {
    found.0 != Size::H || i32::from(found.2 as i16 as i8) == i32::from(found.2 as i16)
}
