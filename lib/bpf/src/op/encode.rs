//! From an [`Op`] to 8 or 16 bytes.

use super::{AluOp, AtomicOp, Cond, Op, Operand, Order, Size, Wide, Width};
use crate::insn::Insn;

/// Encodes an instruction: its first slot, and its second one if it has two ([`Op::slots`]).
pub const fn encode(op: &Op) -> (Insn, Option<Insn>) {
    let insn = match *op {
        Op::Alu { width, op, dst, src } => {
            let (number, off) = alu(op);
            with_operand(class(width) | number << 4, dst.number(), src, off)
        }
        Op::Neg { width, dst } => Insn::new(class(width) | 0x80, dst.number(), 0, 0, 0),
        Op::End { order, bits, dst } => {
            let code = match order {
                Order::Little => 0xd4,
                Order::Big => 0xdc,
                Order::Swap => 0xd7,
            };
            Insn::new(code, dst.number(), 0, 0, bits as i32)
        }
        Op::Wide { dst, value } => {
            let (kind, low, high) = match value {
                Wide::Value(value) => (0, value as i32, (value >> 32) as i32),
                Wide::Map(map) => (5, map as i32, 0),
                Wide::MapValue { map, offset } => (6, map as i32, offset as i32),
            };
            return (Insn::new(0x18, dst.number(), kind, 0, low), Some(Insn::new(0, 0, 0, 0, high)));
        }
        Op::Load { dst, src, off, size, signed } => {
            let mode = if signed { 0x80 } else { 0x60 };
            Insn::new(mode | bits(size) | 1, dst.number(), src.number(), off, 0)
        }
        Op::Store { dst, off, size, src } => match src {
            Operand::Reg(src) => Insn::new(0x60 | bits(size) | 3, dst.number(), src.number(), off, 0),
            Operand::Imm(imm) => Insn::new(0x60 | bits(size) | 2, dst.number(), 0, off, imm),
        },
        Op::Atomic { op, base, off, size, reg } => {
            let (dst, src) = if matches!(op, AtomicOp::LoadAcquire) { (reg, base) } else { (base, reg) };
            Insn::new(0xc0 | bits(size) | 3, dst.number(), src.number(), off, atomic(op))
        }
        Op::Jump { offset } if offset as i16 as i32 == offset => Insn::new(0x05, 0, 0, offset as i16, 0),
        Op::Jump { offset } => Insn::new(0x06, 0, 0, 0, offset),
        Op::Branch { width, cond, dst, src, offset } => {
            let class = match width {
                Width::W32 => 6,
                Width::W64 => 5,
            };
            with_operand(class | condition(cond) << 4, dst.number(), src, offset)
        }
        Op::Call { helper } => Insn::new(0x85, 0, 0, 0, helper as i32),
        Op::CallLocal { offset } => Insn::new(0x85, 0, 1, 0, offset),
        Op::Exit => Insn::new(0x95, 0, 0, 0, 0),
    };
    (insn, None)
}

const fn class(width: Width) -> u8 {
    match width {
        Width::W32 => 4,
        Width::W64 => 7,
    }
}

const fn with_operand(code: u8, dst: u8, src: Operand, off: i16) -> Insn {
    match src {
        Operand::Reg(src) => Insn::new(code | 8, dst, src.number(), off, 0),
        Operand::Imm(imm) => Insn::new(code, dst, 0, off, imm),
    }
}

const fn bits(size: Size) -> u8 {
    match size {
        Size::W => 0x00,
        Size::H => 0x08,
        Size::B => 0x10,
        Size::DW => 0x18,
    }
}

const fn alu(op: AluOp) -> (u8, i16) {
    match op {
        AluOp::Add => (0x0, 0),
        AluOp::Sub => (0x1, 0),
        AluOp::Mul => (0x2, 0),
        AluOp::Div => (0x3, 0),
        AluOp::SDiv => (0x3, 1),
        AluOp::Or => (0x4, 0),
        AluOp::And => (0x5, 0),
        AluOp::Lsh => (0x6, 0),
        AluOp::Rsh => (0x7, 0),
        AluOp::Mod => (0x9, 0),
        AluOp::SMod => (0x9, 1),
        AluOp::Xor => (0xa, 0),
        AluOp::Mov => (0xb, 0),
        AluOp::MovSx8 => (0xb, 8),
        AluOp::MovSx16 => (0xb, 16),
        AluOp::MovSx32 => (0xb, 32),
        AluOp::Arsh => (0xc, 0),
    }
}

const fn condition(cond: Cond) -> u8 {
    match cond {
        Cond::Eq => 0x1,
        Cond::Gt => 0x2,
        Cond::Ge => 0x3,
        Cond::Set => 0x4,
        Cond::Ne => 0x5,
        Cond::SGt => 0x6,
        Cond::SGe => 0x7,
        Cond::Lt => 0xa,
        Cond::Le => 0xb,
        Cond::SLt => 0xc,
        Cond::SLe => 0xd,
    }
}

const fn atomic(op: AtomicOp) -> i32 {
    match op {
        AtomicOp::Add => 0x00,
        AtomicOp::Or => 0x40,
        AtomicOp::And => 0x50,
        AtomicOp::Xor => 0xa0,
        AtomicOp::FetchAdd => 0x01,
        AtomicOp::FetchOr => 0x41,
        AtomicOp::FetchAnd => 0x51,
        AtomicOp::FetchXor => 0xa1,
        AtomicOp::Xchg => 0xe1,
        AtomicOp::CmpXchg => 0xf1,
        AtomicOp::LoadAcquire => 0x100,
        AtomicOp::StoreRelease => 0x110,
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    /// Every first slot that can be decoded is encoded to the same bytes again (a short jump may have been a long one).
    #[test]
    fn what_is_decoded_is_encoded_the_same() {
        let mut seen = 0;
        for code in 0..=255u8 {
            for regs in [0u8, 0x01, 0x10, 0x12, 0x50, 0x61, 0xa9, 0xb0] {
                for off in [0i16, 1, 8, 16, 32, -7] {
                    for imm in [0i32, 1, 16, 32, 64, 0x41, 0xa0, 0xf1, 0x100, 0x110, -1, 70000] {
                        let pair = [Insn { code, regs, off, imm }, Insn::default()];
                        let Ok(op) = decode(&pair) else { continue };
                        seen += 1;
                        let (first, _) = encode(&op);
                        let short = matches!(op, Op::Jump { .. }) && code == 6;
                        assert!(first == pair[0] || short, "{pair:?} {op:?}");
                    }
                }
            }
        }
        assert!(seen > 2000, "{seen}");
    }
}
