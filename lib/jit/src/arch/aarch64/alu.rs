//! Arithmetic, moves, shifts, byte order, constants.
//!
//! Division is what eBPF wants: by 0 it gives 0, and the smallest number by -1 gives itself. So the remainder comes out
//! right, too.

use super::asm::{Asm, Gpr, Three, Twelve};
use super::registers::gpr;
use crate::Error;
use crate::layout::Around;
use mote_bpf::op::{AluOp, Operand, Order, Wide, Width};

/// `dst op= src`
pub(super) fn alu(asm: &mut Asm<'_>, width: Width, op: AluOp, dst: Gpr, src: Operand) {
    let three = match op {
        AluOp::Add => return add(asm, width, dst, dst, src, Twelve::Add),
        AluOp::Sub => return add(asm, width, dst, dst, src, Twelve::Sub),
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => return shift(asm, width, op, dst, src),
        AluOp::Mov => return mov(asm, width, dst, src),
        AluOp::MovSx8 => return extend(asm, width, dst, src, 7),
        AluOp::MovSx16 => return extend(asm, width, dst, src, 15),
        AluOp::MovSx32 => return extend(asm, width, dst, src, 31),
        AluOp::Mul => {
            let src = operand(asm, src);
            return asm.multiply(width, 0, dst, dst, src, Gpr::ZERO);
        }
        AluOp::Mod => return remainder(asm, width, Three::Udiv, dst, src),
        AluOp::SMod => return remainder(asm, width, Three::Sdiv, dst, src),
        AluOp::Div => Three::Udiv,
        AluOp::SDiv => Three::Sdiv,
        AluOp::Or => Three::Orr,
        AluOp::And => Three::And,
        AluOp::Xor => Three::Eor,
    };
    let src = operand(asm, src);
    asm.three(three, width, dst, dst, src);
}

/// The register of an operand; a constant goes into `x9`.
pub(super) fn operand(asm: &mut Asm<'_>, operand: Operand) -> Gpr {
    match operand {
        Operand::Reg(reg) => gpr(reg),
        Operand::Imm(0) => Gpr::ZERO,
        Operand::Imm(imm) => {
            asm.mov_imm(Gpr::X9, i64::from(imm) as u64);
            Gpr::X9
        }
    }
}

/// `dst = left + right`, or minus; with flags or without.
pub(super) fn add(asm: &mut Asm<'_>, width: Width, dst: Gpr, left: Gpr, right: Operand, op: Twelve) {
    let (opposite, three) = match op {
        Twelve::Add => (Twelve::Sub, Three::Add),
        Twelve::Sub => (Twelve::Add, Three::Sub),
        _ => (Twelve::Adds, Three::Subs),
    };
    match right {
        Operand::Imm(imm @ 0..=4095) => asm.twelve(op, width, dst, left, imm as u32),
        Operand::Imm(imm @ -4095..=-1) => asm.twelve(opposite, width, dst, left, imm.unsigned_abs()),
        right => {
            let right = operand(asm, right);
            asm.three(three, width, dst, left, right);
        }
    }
}

/// `dst = left + right`
pub(super) fn sum(asm: &mut Asm<'_>, dst: Gpr, left: Gpr, right: Operand) {
    add(asm, Width::W64, dst, left, right, Twelve::Add);
}

fn remainder(asm: &mut Asm<'_>, width: Width, divide: Three, dst: Gpr, src: Operand) {
    let src = operand(asm, src);
    asm.three(divide, width, Gpr::X10, dst, src);
    asm.multiply(width, 1, dst, Gpr::X10, src, dst);
}

fn shift(asm: &mut Asm<'_>, width: Width, op: AluOp, dst: Gpr, src: Operand) {
    let bits = if width == Width::W64 { 64 } else { 32 };
    match src {
        Operand::Reg(by) => {
            let three = match op {
                AluOp::Lsh => Three::Lsl,
                AluOp::Rsh => Three::Lsr,
                _ => Three::Asr,
            };
            asm.three(three, width, dst, dst, gpr(by));
        }
        Operand::Imm(imm) => {
            let by = imm as u32 & (bits - 1);
            match op {
                AluOp::Lsh => asm.bitfield(false, width, dst, dst, (bits - by) % bits, bits - 1 - by),
                _ => asm.bitfield(op == AluOp::Arsh, width, dst, dst, by, bits - 1),
            }
        }
    }
}

fn mov(asm: &mut Asm<'_>, width: Width, dst: Gpr, src: Operand) {
    match (src, width) {
        (Operand::Reg(src), _) => asm.mov(width, dst, gpr(src)),
        (Operand::Imm(imm), Width::W32) => asm.mov_imm(dst, u64::from(imm as u32)),
        (Operand::Imm(imm), Width::W64) => asm.mov_imm(dst, i64::from(imm) as u64),
    }
}

fn extend(asm: &mut Asm<'_>, width: Width, dst: Gpr, src: Operand, last: u32) {
    if let Operand::Reg(src) = src {
        asm.bitfield(true, width, dst, gpr(src), 0, last);
    }
}

/// `dst = -dst`
pub(super) fn neg(asm: &mut Asm<'_>, width: Width, dst: Gpr) {
    asm.three(Three::Sub, width, dst, Gpr::ZERO, dst);
}

/// Turns bytes round, or cuts off the upper ones.
pub(super) fn end(asm: &mut Asm<'_>, order: Order, bits: u8, dst: Gpr) {
    /// Bytes of each half word.
    const REV16: u32 = 0x5ac0_0400;
    /// Bytes of the word (of 32 bits; for 64 bits one bit more).
    const REV: u32 = 0x5ac0_0800;
    let turns = order != Order::Little;
    match bits {
        16 => {
            if turns {
                asm.one(REV16, Width::W32, dst, dst);
            }
            asm.bitfield(false, Width::W32, dst, dst, 0, 15);
        }
        32 if turns => asm.one(REV, Width::W32, dst, dst),
        32 => asm.mov(Width::W32, dst, dst),
        _ if turns => asm.one(REV | 1 << 10, Width::W64, dst, dst),
        _ => {}
    }
}

/// A 16-byte load.
pub(super) fn wide(asm: &mut Asm<'_>, dst: Gpr, value: Wide, around: &Around<'_>) -> Result<(), Error> {
    let place = |map: u32| around.input.maps.get(map as usize).ok_or(Error::Map(around.slot as u32));
    let value = match value {
        Wide::Value(value) => value,
        Wide::Map(map) => place(map)?.descriptor,
        Wide::MapValue { map, offset } => place(map)?.values.wrapping_add(u64::from(offset)),
    };
    asm.mov_imm(dst, value);
    Ok(())
}
