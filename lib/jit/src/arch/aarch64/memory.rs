//! Loads and stores.

use super::alu;
use super::asm::{Asm, Gpr, Three, Twelve};
use mote_bpf::op::{Operand, Size, Width};

/// The two highest bits of a load or store.
pub(super) fn size_bits(size: Size) -> u32 {
    let bits = match size {
        Size::B => 0,
        Size::H => 1,
        Size::W => 2,
        Size::DW => 3,
    };
    bits << 30
}

const STORE: u32 = 0;
const LOAD: u32 = 1 << 22;
/// Extended to 64 bits by its sign.
const LOAD_SIGNED: u32 = 2 << 22;

/// `dst = memory at src + off`
pub(super) fn load(asm: &mut Asm<'_>, dst: Gpr, src: Gpr, off: i16, size: Size, signed: bool) {
    access(asm, if signed { LOAD_SIGNED } else { LOAD }, size, dst, src, i32::from(off));
}

/// `memory at dst + off = src`
pub(super) fn store(asm: &mut Asm<'_>, dst: Gpr, off: i16, size: Size, src: Operand) {
    let src = match src {
        Operand::Imm(imm) if imm != 0 => {
            asm.mov_imm(Gpr::X10, i64::from(imm) as u64);
            Gpr::X10
        }
        other => alu::operand(asm, other),
    };
    access(asm, STORE, size, src, dst, i32::from(off));
}

/// One load or store, with the offset in the shortest way in which it can be written.
fn access(asm: &mut Asm<'_>, kind: u32, size: Size, reg: Gpr, base: Gpr, off: i32) {
    let bytes = size.bytes() as i32;
    let word = size_bits(size) | kind;
    if off >= 0 && off % bytes == 0 && off / bytes < 4096 {
        asm.word_dn(word | 0x3900_0000 | ((off / bytes) as u32) << 10, reg, base);
    } else if (-256..256).contains(&off) {
        asm.word_dn(word | 0x3800_0000 | (off as u32 & 0x1ff) << 12, reg, base);
    } else {
        asm.mov_imm(Gpr::X9, i64::from(off) as u64);
        // [base, x9]
        asm.word_dn(word | 0x3820_6800 | 9 << 16, reg, base);
    }
}

/// `x9 = base + off`, unless the offset is 0: the register that holds the address.
pub(super) fn address(asm: &mut Asm<'_>, base: Gpr, off: i16) -> Gpr {
    match i32::from(off) {
        0 => return base,
        off @ 1..4096 => asm.twelve(Twelve::Add, Width::W64, Gpr::X9, base, off as u32),
        off @ -4095..0 => asm.twelve(Twelve::Sub, Width::W64, Gpr::X9, base, off.unsigned_abs()),
        off => {
            asm.mov_imm(Gpr::X9, i64::from(off) as u64);
            asm.three(Three::Add, Width::W64, Gpr::X9, base, Gpr::X9);
        }
    }
    Gpr::X9
}
