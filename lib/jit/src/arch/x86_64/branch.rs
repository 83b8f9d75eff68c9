//! Comparisons and jumps.

use super::asm::{Asm, Bits, Gpr, Group1, Memory};
use super::registers::gpr;
use crate::Error;
use crate::fuse::{Read, Test};
use crate::layout::Around;
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Operand, Width};

/// Sets the flags for `left ? right`.
pub(super) fn compare(asm: &mut Asm<'_>, width: Width, test: Test, left: Reg, right: Operand) {
    let (bits, left) = (Bits::from(width), gpr(left));
    let is_mask = test.cond == Cond::Set;
    match right {
        Operand::Reg(right) if is_mask => asm.op(bits, &[0x85], gpr(right), left),
        Operand::Reg(right) => asm.group1_from(Group1::Cmp, bits, left, gpr(right)),
        Operand::Imm(imm) if is_mask => mask(asm, bits, left, imm),
        // As a comparison with 0: no carry, no overflow.
        Operand::Imm(0) => asm.op(bits, &[0x85], left, left),
        Operand::Imm(imm) => asm.group1_imm(Group1::Cmp, bits, left, imm),
    }
}

/// Whether only the zero flag of the left side decides.
pub(super) fn asks_for_zero(test: Test, right: Operand) -> bool {
    matches!(test.cond, Cond::Eq | Cond::Ne) && right == Operand::Imm(0)
}

fn mask(asm: &mut Asm<'_>, bits: Bits, left: Gpr, imm: i32) {
    match imm {
        0..=0xff => asm.test_imm(Bits::B8, left, imm),
        0x100.. => asm.test_imm(Bits::B32, left, imm),
        _ => asm.test_imm(bits, left, imm),
    }
}

/// Sets the flags for `memory ? other`, or the other way round.
pub(super) fn compare_memory(asm: &mut Asm<'_>, test: Test, read: &Read, other: Operand, swapped: bool) {
    let memory = Memory::at(gpr(read.base), read.off);
    let bits = Bits::from(read.size);
    let is_mask = test.cond == Cond::Set;
    match other {
        Operand::Imm(imm) if is_mask => asm.test_imm(bits, memory, imm),
        Operand::Imm(imm) => asm.group1_imm(Group1::Cmp, bits, memory, imm),
        Operand::Reg(reg) if is_mask => asm.op(bits, &[0x85], gpr(reg), memory),
        Operand::Reg(reg) if swapped => asm.group1_to(Group1::Cmp, bits, gpr(reg), memory),
        Operand::Reg(reg) => asm.group1_from(Group1::Cmp, bits, memory, gpr(reg)),
    }
}

/// The low four bits of `jcc` for a test (SDM vol. 1, appendix B); the lowest turns it round.
fn code(test: Test) -> u8 {
    let code = match test.cond {
        Cond::Eq => 0x4,
        Cond::Ne | Cond::Set => 0x5,
        Cond::Gt => 0x7,
        Cond::Ge => 0x3,
        Cond::Lt => 0x2,
        Cond::Le => 0x6,
        Cond::SGt => 0xf,
        Cond::SGe => 0xd,
        Cond::SLt => 0xc,
        Cond::SLe => 0xe,
    };
    code ^ u8::from(test.negated)
}

/// Jumps if the flags say so.
pub(super) fn jump_if(asm: &mut Asm<'_>, test: Test, around: &Around<'_>) -> Result<(), Error> {
    let code = code(test);
    jump_by(asm, &[0x70 | code], &[0x0f, 0x80 | code], around)
}

/// Emits `jmp` to the target of a BPF jump that is always taken.
pub(super) fn jump(asm: &mut Asm<'_>, around: &Around<'_>) -> Result<(), Error> {
    jump_by(asm, &[0xeb], &[0xe9], around)
}

fn jump_by(asm: &mut Asm<'_>, short: &[u8], long: &[u8], around: &Around<'_>) -> Result<(), Error> {
    if !around.aim.short {
        asm.bytes(long);
        return near(asm, around.aim.offset, around);
    }
    asm.bytes(short);
    let distance = i64::from(around.aim.offset) - (asm.sink.len() as i64 + 1);
    asm.byte(distance as u8);
    if around.is_last && i8::try_from(distance).is_err() { Err(Error::Far) } else { Ok(()) }
}

/// The four bytes of a distance to an offset of the code.
pub(super) fn near(asm: &mut Asm<'_>, offset: u32, around: &Around<'_>) -> Result<(), Error> {
    let distance = i64::from(offset) - (asm.sink.len() as i64 + 4);
    asm.imm32(distance as i32);
    if around.is_last && i32::try_from(distance).is_err() { Err(Error::Far) } else { Ok(()) }
}
