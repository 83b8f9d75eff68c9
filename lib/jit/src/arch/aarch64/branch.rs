//! Comparisons and jumps.
//!
//! The short form of a branch reaches 1 MiB; the long one goes over an unconditional jump, which reaches 128 MiB.

use super::alu::{self, operand};
use super::asm::{Asm, Gpr, Three, Twelve};
use super::registers::gpr;
use crate::Error;
use crate::fuse::Test;
use crate::layout::Around;
use mote_bpf::op::{Cond, Operand, Width};

/// Branches if `left ? right`.
pub(super) fn branch(
    asm: &mut Asm<'_>,
    width: Width,
    test: Test,
    left: Gpr,
    right: Operand,
    around: &Around<'_>,
) -> Result<(), Error> {
    if right == Operand::Imm(0) && matches!(test.cond, Cond::Eq | Cond::Ne) {
        // cbz, cbnz
        let not = u32::from((test.cond == Cond::Ne) != test.negated);
        let wide = u32::from(width == Width::W64) << 31;
        return jump_if(asm, 0x3400_0000 | wide | u32::from(left.0), 1 << 24, not << 24, around);
    }
    match (test.cond, right) {
        (Cond::Set, right) => {
            let right = operand(asm, right);
            asm.three(Three::Ands, width, Gpr::ZERO, left, right);
        }
        (_, Operand::Reg(right)) => asm.three(Three::Subs, width, Gpr::ZERO, left, gpr(right)),
        (_, right) => alu::add(asm, width, Gpr::ZERO, left, right, Twelve::Subs),
    }
    // b.cond
    jump_if(asm, 0x5400_0000, 1, code(test), around)
}

/// The condition's bits; the lowest turns it round.
fn code(test: Test) -> u32 {
    let code = match test.cond {
        Cond::Eq => 0x0,
        Cond::Ne | Cond::Set => 0x1,
        Cond::Ge => 0x2,
        Cond::Lt => 0x3,
        Cond::Gt => 0x8,
        Cond::Le => 0x9,
        Cond::SGe => 0xa,
        Cond::SLt => 0xb,
        Cond::SGt => 0xc,
        Cond::SLe => 0xd,
    };
    code ^ u32::from(test.negated)
}

/// A branch `word` whose condition is `code`, and is turned round by `turn`.
fn jump_if(asm: &mut Asm<'_>, word: u32, turn: u32, code: u32, around: &Around<'_>) -> Result<(), Error> {
    if !around.aim.short {
        // The other way round, over the jump.
        asm.word(word | code ^ turn | 2 << 5);
        return jump(asm, around.aim.offset, around);
    }
    let distance = distance(asm, around.aim.offset, 19, around)?;
    asm.word(word | code | distance << 5);
    Ok(())
}

/// Jumps to an offset of the code.
pub(super) fn jump(asm: &mut Asm<'_>, offset: u32, around: &Around<'_>) -> Result<(), Error> {
    let distance = distance(asm, offset, 26, around)?;
    asm.word(0x1400_0000 | distance);
    Ok(())
}

/// Calls an offset of the code.
pub(super) fn call(asm: &mut Asm<'_>, offset: u32, around: &Around<'_>) -> Result<(), Error> {
    let distance = distance(asm, offset, 26, around)?;
    asm.word(0x9400_0000 | distance);
    Ok(())
}

/// Instructions from here to `offset`, in a field of `bits`.
fn distance(asm: &Asm<'_>, offset: u32, bits: u32, around: &Around<'_>) -> Result<u32, Error> {
    let distance = (i64::from(offset) - asm.sink.len() as i64) / 4;
    let half = 1i64 << (bits - 1);
    if around.is_last && !(-half..half).contains(&distance) {
        return Err(Error::Far);
    }
    Ok(distance as u32 & ((1 << bits) - 1))
}
