//! Division, which on this processor is of `rdx:rax` and traps where eBPF has an answer.

use super::alu;
use super::asm::{Asm, Bits, Gpr, Group1};
use super::registers::gpr;
use mote_bpf::op::{AluOp, Operand};

/// The short jump if equal, and the one that is always taken.
const JE: u8 = 0x74;
const JNE: u8 = 0x75;
const JMP: u8 = 0xeb;

/// `dst = dst / src`, or the remainder.
///
/// Division by 0 gives 0, and leaves `dst` for the remainder. The smallest number by -1 would trap; any number by -1 is
/// its negation, without a remainder.
pub(super) fn divide(
    asm: &mut Asm<'_>,
    op: AluOp,
    bits: Bits,
    dst: Gpr,
    src: Operand,
    live: impl Fn(Gpr) -> bool,
) {
    let is_signed = matches!(op, AluOp::SDiv | AluOp::SMod);
    let wants_rest = matches!(op, AluOp::Mod | AluOp::SMod);
    match src {
        Operand::Imm(0) if wants_rest => asm.mov(bits, dst, dst),
        Operand::Imm(0) => clear(asm, dst),
        Operand::Imm(-1) if is_signed && wants_rest => clear(asm, dst),
        Operand::Imm(-1) if is_signed => asm.group(bits, &[0xf7], 3, dst),
        Operand::Imm(imm) if !is_signed && imm > 0 && (imm as u32).is_power_of_two() => {
            if wants_rest {
                asm.group1_imm(Group1::And, Bits::B32, dst, imm - 1);
            } else {
                alu::shift_by(asm, 5, bits, dst, imm.trailing_zeros() as u8);
            }
        }
        Operand::Imm(imm) => {
            asm.mov_imm(Gpr::R11, i64::from(imm) as u64);
            core(asm, bits, dst, is_signed, wants_rest, &live);
        }
        Operand::Reg(src) => {
            asm.mov(bits, Gpr::R11, gpr(src));
            // test r11, r11
            asm.op(bits, &[0x85], Gpr::R11, Gpr::R11);
            let not_zero = asm.hop(JNE);
            if wants_rest {
                asm.mov(bits, dst, dst)
            } else {
                clear(asm, dst)
            }
            let done = asm.hop(JMP);
            asm.land(not_zero);
            let done_too = is_signed.then(|| {
                asm.group1_imm(Group1::Cmp, bits, Gpr::R11, -1);
                let other = asm.hop(JNE);
                if wants_rest {
                    clear(asm, dst)
                } else {
                    asm.group(bits, &[0xf7], 3, dst)
                }
                let done = asm.hop(JMP);
                asm.land(other);
                done
            });
            core(asm, bits, dst, is_signed, wants_rest, &live);
            asm.land(done);
            if let Some(hop) = done_too {
                asm.land(hop);
            }
        }
    }
}

fn clear(asm: &mut Asm<'_>, dst: Gpr) {
    asm.group1_from(Group1::Xor, Bits::B32, dst, dst);
}

/// Divides by `r11`, which does not trap.
fn core(
    asm: &mut Asm<'_>,
    bits: Bits,
    dst: Gpr,
    is_signed: bool,
    wants_rest: bool,
    live: &impl Fn(Gpr) -> bool,
) {
    let keep = |reg: Gpr| dst != reg && live(reg);
    if keep(Gpr::RAX) {
        asm.mov(Bits::B64, Gpr::R10, Gpr::RAX);
    }
    if keep(Gpr::RDX) {
        asm.mov(Bits::B64, Gpr::R9, Gpr::RDX);
    }
    if dst != Gpr::RAX {
        asm.mov(bits, Gpr::RAX, dst);
    }
    if is_signed {
        // cdq or cqo, idiv r11
        if bits == Bits::B64 {
            asm.byte(0x48);
        }
        asm.byte(0x99);
        asm.group(bits, &[0xf7], 7, Gpr::R11);
    } else {
        clear(asm, Gpr::RDX);
        asm.group(bits, &[0xf7], 6, Gpr::R11);
    }
    let result = if wants_rest { Gpr::RDX } else { Gpr::RAX };
    if dst != result {
        asm.mov(bits, dst, result);
    }
    if keep(Gpr::RAX) {
        asm.mov(Bits::B64, Gpr::RAX, Gpr::R10);
    }
    if keep(Gpr::RDX) {
        asm.mov(Bits::B64, Gpr::RDX, Gpr::R9);
    }
}

/// The hop of a loop back to `start`, when the flags say not equal.
pub(super) fn loop_if_not_equal(asm: &mut Asm<'_>, start: usize) {
    let distance = start as i64 - (asm.sink.len() as i64 + 2);
    asm.bytes(&[JNE, distance as i8 as u8]);
}

/// A hop that is taken when the flags say equal.
pub(super) const HOP_IF_EQUAL: u8 = JE;
