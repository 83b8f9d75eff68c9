//! Arithmetic, moves, shifts, byte order, constants.

use super::asm::{Asm, Bits, Gpr, Group1, Memory};
use super::divide;
use super::registers::gpr;
use crate::Error;
use crate::fuse::{Read, Step};
use crate::layout::Around;
use mote_bpf::op::{AluOp, Operand, Order, Size, Wide, Width};
use mote_bpf::{Op, Reg};

/// `dst op= src`
pub(super) fn alu(asm: &mut Asm<'_>, width: Width, op: AluOp, dst: Reg, src: Operand, around: &Around<'_>) {
    let bits = Bits::from(width);
    let live = |reg: Gpr| around.plan_live(reg);
    match op {
        AluOp::Add => simple(asm, Group1::Add, bits, gpr(dst), src),
        AluOp::Sub => simple(asm, Group1::Sub, bits, gpr(dst), src),
        AluOp::Or => simple(asm, Group1::Or, bits, gpr(dst), src),
        AluOp::Xor => simple(asm, Group1::Xor, bits, gpr(dst), src),
        AluOp::And => and(asm, bits, gpr(dst), src),
        AluOp::Mul => multiply(asm, bits, gpr(dst), src),
        AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod => {
            divide::divide(asm, op, bits, gpr(dst), src, live);
        }
        AluOp::Lsh => shift(asm, 4, bits, gpr(dst), src, live),
        AluOp::Rsh => shift(asm, 5, bits, gpr(dst), src, live),
        AluOp::Arsh => shift(asm, 7, bits, gpr(dst), src, live),
        AluOp::Mov => mov(asm, width, gpr(dst), src),
        AluOp::MovSx8 => extend(asm, bits, &[0x0f, 0xbe], gpr(dst), src, Bits::B8),
        AluOp::MovSx16 => extend(asm, bits, &[0x0f, 0xbf], gpr(dst), src, Bits::B16),
        AluOp::MovSx32 => extend(asm, Bits::B64, &[0x63], gpr(dst), src, Bits::B32),
    }
}

impl Around<'_> {
    /// Whether the eBPF register that lives in `reg` is read after this step.
    fn plan_live(&self, reg: Gpr) -> bool {
        let held = match reg {
            Gpr::RAX => Reg::R0,
            Gpr::RDX => Reg::R3,
            Gpr::RCX => Reg::R4,
            _ => return true,
        };
        self.plan.is_live(self.next, held)
    }
}

fn simple(asm: &mut Asm<'_>, op: Group1, bits: Bits, dst: Gpr, src: Operand) {
    match src {
        Operand::Reg(src) => asm.group1_from(op, bits, dst, gpr(src)),
        // One byte less, because 128 itself is no signed byte.
        Operand::Imm(128) if op == Group1::Add => asm.group1_imm(Group1::Sub, bits, dst, -128),
        Operand::Imm(128) if op == Group1::Sub => asm.group1_imm(Group1::Add, bits, dst, -128),
        Operand::Imm(imm) => asm.group1_imm(op, bits, dst, imm),
    }
}

fn and(asm: &mut Asm<'_>, bits: Bits, dst: Gpr, src: Operand) {
    match src {
        Operand::Imm(0xff) => asm.op_byte(Bits::B32, &[0x0f, 0xb6], dst, dst),
        Operand::Imm(0xffff) => asm.op(Bits::B32, &[0x0f, 0xb7], dst, dst),
        // The upper half becomes 0 either way.
        Operand::Imm(imm) if imm >= 0 => asm.group1_imm(Group1::And, Bits::B32, dst, imm),
        src => simple(asm, Group1::And, bits, dst, src),
    }
}

/// The register that a step leaves in the zero flag, too.
pub(super) fn zero_flag(step: &Step) -> Option<(Reg, Width)> {
    match *step {
        // These become a move.
        Step::Op(Op::Alu { op: AluOp::And, src: Operand::Imm(0xff | 0xffff), .. }) => None,
        Step::Op(Op::Alu { width, op, dst, .. }) => is_group1(op).then_some((dst, width)),
        Step::AluMemory { op, dst, read } => {
            let width = if read.size == Size::DW { Width::W64 } else { Width::W32 };
            is_group1(op).then_some((dst, width))
        }
        _ => None,
    }
}

fn is_group1(op: AluOp) -> bool {
    matches!(op, AluOp::Add | AluOp::Sub | AluOp::And | AluOp::Or | AluOp::Xor)
}

fn multiply(asm: &mut Asm<'_>, bits: Bits, dst: Gpr, src: Operand) {
    match src {
        Operand::Reg(src) => asm.op(bits, &[0x0f, 0xaf], dst, gpr(src)),
        Operand::Imm(imm) if imm > 0 && (imm as u32).is_power_of_two() => {
            shift_by(asm, 4, bits, dst, imm.trailing_zeros() as u8);
        }
        Operand::Imm(imm) => match i8::try_from(imm) {
            Ok(imm) => {
                asm.op(bits, &[0x6b], dst, dst);
                asm.byte(imm as u8);
            }
            Err(_) => {
                asm.op(bits, &[0x69], dst, dst);
                asm.imm32(imm);
            }
        },
    }
}

/// Shifts by a constant; `digit` chooses the kind in opcode group 2.
pub(super) fn shift_by(asm: &mut Asm<'_>, digit: u8, bits: Bits, dst: Gpr, by: u8) {
    let by = by & if bits == Bits::B64 { 63 } else { 31 };
    match (by, bits) {
        (0, Bits::B64) => {}
        // The upper half has to become 0.
        (0, _) => asm.mov(bits, dst, dst),
        (1, _) => asm.group(bits, &[0xd1], digit, dst),
        _ => {
            asm.group(bits, &[0xc1], digit, dst);
            asm.byte(by);
        }
    }
}

fn shift(asm: &mut Asm<'_>, digit: u8, bits: Bits, dst: Gpr, src: Operand, live: impl Fn(Gpr) -> bool) {
    let by = match src {
        Operand::Imm(imm) => return shift_by(asm, digit, bits, dst, imm as u8),
        Operand::Reg(src) => gpr(src),
    };
    // The processor takes the distance from cl, modulo the width, as eBPF wants it.
    if dst == Gpr::RCX {
        asm.mov(bits, Gpr::R11, dst);
        if by != Gpr::RCX {
            asm.mov(Bits::B32, Gpr::RCX, by);
        }
        asm.group(bits, &[0xd3], digit, Gpr::R11);
        asm.mov(bits, dst, Gpr::R11);
    } else if by == Gpr::RCX {
        asm.group(bits, &[0xd3], digit, dst);
    } else {
        let keep = live(Gpr::RCX);
        if keep {
            asm.mov(Bits::B64, Gpr::R11, Gpr::RCX);
        }
        asm.mov(Bits::B32, Gpr::RCX, by);
        asm.group(bits, &[0xd3], digit, dst);
        if keep {
            asm.mov(Bits::B64, Gpr::RCX, Gpr::R11);
        }
    }
}

fn mov(asm: &mut Asm<'_>, width: Width, dst: Gpr, src: Operand) {
    match (src, width) {
        (Operand::Reg(src), Width::W64) if gpr(src) == dst => {}
        (Operand::Reg(src), _) => asm.mov(width.into(), dst, gpr(src)),
        (Operand::Imm(imm), Width::W32) => load_constant(asm, dst, u64::from(imm as u32)),
        (Operand::Imm(imm), Width::W64) => load_constant(asm, dst, i64::from(imm) as u64),
    }
}

fn extend(asm: &mut Asm<'_>, bits: Bits, opcode: &[u8], dst: Gpr, src: Operand, from: Bits) {
    let Operand::Reg(src) = src else { return };
    if from == Bits::B8 {
        asm.op_byte(bits, opcode, dst, gpr(src));
    } else {
        asm.op(bits, opcode, dst, gpr(src));
    }
}

/// `dst = value`; changes the flags.
pub(super) fn load_constant(asm: &mut Asm<'_>, dst: Gpr, value: u64) {
    if value == 0 {
        asm.group1_from(Group1::Xor, Bits::B32, dst, dst);
    } else {
        asm.mov_imm(dst, value);
    }
}

/// `dst = left + right`
pub(super) fn sum(asm: &mut Asm<'_>, dst: Reg, left: Reg, right: Operand) {
    let (dst, left) = (gpr(dst), gpr(left));
    let memory = match right {
        Operand::Imm(imm) => Memory::at(left, imm),
        Operand::Reg(right) => Memory { base: left, index: Some(gpr(right)), disp: 0 },
    };
    asm.lea(dst, memory);
}

/// `dst op= memory`
pub(super) fn with_memory(asm: &mut Asm<'_>, op: AluOp, dst: Gpr, read: &Read) {
    let memory = Memory::at(gpr(read.base), read.off);
    let bits = Bits::from(read.size);
    let op = match op {
        AluOp::Add => Group1::Add,
        AluOp::Sub => Group1::Sub,
        AluOp::And => Group1::And,
        AluOp::Or => Group1::Or,
        AluOp::Xor => Group1::Xor,
        // The only other one that is fused.
        _ => return asm.op(bits, &[0x0f, 0xaf], dst, memory),
    };
    asm.group1_to(op, bits, dst, memory);
}

/// `dst = -dst`
pub(super) fn neg(asm: &mut Asm<'_>, width: Width, dst: Gpr) {
    asm.group(width.into(), &[0xf7], 3, dst);
}

/// Turns bytes round, or cuts off the upper ones.
pub(super) fn end(asm: &mut Asm<'_>, order: Order, bits: u8, dst: Gpr) {
    let turns = order != Order::Little;
    match bits {
        16 => {
            if turns {
                // rol dst16, 8
                asm.group(Bits::B16, &[0xc1], 0, dst);
                asm.byte(8);
            }
            asm.op(Bits::B32, &[0x0f, 0xb7], dst, dst);
        }
        32 if turns => asm.byte_swap(Bits::B32, dst),
        32 => asm.mov(Bits::B32, dst, dst),
        _ if turns => asm.byte_swap(Bits::B64, dst),
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
    load_constant(asm, dst, value);
    Ok(())
}

/// Bytes of memory as operand bits, for loads into the low half of a register.
pub(super) const fn reads(size: Size) -> (Bits, &'static [u8]) {
    match size {
        Size::B => (Bits::B32, &[0x0f, 0xb6]),
        Size::H => (Bits::B32, &[0x0f, 0xb7]),
        Size::W => (Bits::B32, &[0x8b]),
        Size::DW => (Bits::B64, &[0x8b]),
    }
}
