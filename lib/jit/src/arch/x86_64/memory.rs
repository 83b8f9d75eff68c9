//! Loads and stores.

use super::alu;
use super::asm::{Asm, Bits, Gpr, Memory};
use super::registers::gpr;
use mote_bpf::op::{Operand, Size};

/// `dst = memory at src + off`
pub(super) fn load(asm: &mut Asm<'_>, dst: Gpr, src: Gpr, off: i16, size: Size, signed: bool) {
    let memory = Memory::at(src, off);
    let (bits, opcode): (Bits, &[u8]) = match (size, signed) {
        (Size::B, true) => (Bits::B64, &[0x0f, 0xbe]),
        (Size::H, true) => (Bits::B64, &[0x0f, 0xbf]),
        (Size::W, true) => (Bits::B64, &[0x63]),
        _ => alu::reads(size),
    };
    asm.op(bits, opcode, dst, memory);
}

/// `memory at dst + off = src`
pub(super) fn store(asm: &mut Asm<'_>, dst: mote_bpf::Reg, off: i16, size: Size, src: Operand) {
    let memory = Memory::at(gpr(dst), off);
    let bits = Bits::from(size);
    match src {
        Operand::Reg(src) => store_reg(asm, bits, memory, gpr(src)),
        Operand::Imm(imm) => {
            asm.group(bits, &[0xc6 | u8::from(bits != Bits::B8)], 0, memory);
            match bits {
                Bits::B8 => asm.byte(imm as u8),
                Bits::B16 => asm.bytes(&(imm as u16).to_le_bytes()),
                _ => asm.imm32(imm),
            }
        }
    }
}

/// `mov memory, reg`
pub(super) fn store_reg(asm: &mut Asm<'_>, bits: Bits, memory: Memory, reg: Gpr) {
    asm.op(bits, &[0x88 | u8::from(bits != Bits::B8)], reg, memory);
}
