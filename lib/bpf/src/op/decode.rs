//! From 8 or 16 bytes to an [`Op`]. Fields that an instruction does not use must be 0, as for the kernel.

use super::{AluOp, AtomicOp, Cond, DecodeError, Op, Operand, Order, Size, Wide, Width};
use crate::insn::{Insn, Reg};

type Result<T> = core::result::Result<T, DecodeError>;

/// Decodes the first instruction of `insns`.
///
/// # Errors
/// [`DecodeError`]; an empty slice is [`DecodeError::Half`].
pub fn decode(insns: &[Insn]) -> Result<Op> {
    let insn = *insns.first().ok_or(DecodeError::Half)?;
    match insn.code & 7 {
        0 => wide(insn, insns.get(1)),
        1 => load(insn),
        2 | 3 => store(insn),
        4 => alu(insn, Width::W32),
        5 => jump(insn, Width::W64),
        6 => jump(insn, Width::W32),
        _ => alu(insn, Width::W64),
    }
}

fn dst(insn: Insn) -> Result<Reg> {
    Reg::new(insn.dst()).ok_or(DecodeError::Register(insn.dst()))
}

fn src(insn: Insn) -> Result<Reg> {
    Reg::new(insn.src()).ok_or(DecodeError::Register(insn.src()))
}

fn need(holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(DecodeError::Field) }
}

/// The second operand of arithmetic and branches.
fn operand(insn: Insn) -> Result<Operand> {
    if insn.code & 8 != 0 {
        need(insn.imm == 0)?;
        src(insn).map(Operand::Reg)
    } else {
        need(insn.src() == 0)?;
        Ok(Operand::Imm(insn.imm))
    }
}

fn size(insn: Insn) -> Size {
    match insn.code >> 3 & 3 {
        0 => Size::W,
        1 => Size::H,
        2 => Size::B,
        _ => Size::DW,
    }
}

fn wide(insn: Insn, second: Option<&Insn>) -> Result<Op> {
    match insn.code {
        0x18 => {}
        code if matches!(code >> 5, 1 | 2) => return Err(DecodeError::Legacy),
        code => return Err(DecodeError::Code(code)),
    }
    let high = second.filter(|half| half.code == 0).ok_or(DecodeError::Half)?;
    need(insn.off == 0 && high.off == 0 && high.regs == 0)?;
    let value = match insn.src() {
        0 => Wide::Value(u64::from(insn.imm as u32) | u64::from(high.imm as u32) << 32),
        5 => {
            need(high.imm == 0)?;
            Wide::Map(insn.imm as u32)
        }
        6 => Wide::MapValue { map: insn.imm as u32, offset: high.imm as u32 },
        kind => return Err(DecodeError::Unresolved(kind)),
    };
    Ok(Op::Wide { dst: dst(insn)?, value })
}

fn load(insn: Insn) -> Result<Op> {
    need(insn.imm == 0)?;
    let size = size(insn);
    let signed = match insn.code >> 5 {
        3 => false,
        4 if size != Size::DW => true,
        _ => return Err(DecodeError::Code(insn.code)),
    };
    Ok(Op::Load { dst: dst(insn)?, src: src(insn)?, off: insn.off, size, signed })
}

fn store(insn: Insn) -> Result<Op> {
    let (size, off, dst) = (size(insn), insn.off, dst(insn)?);
    let from_register = insn.code & 7 == 3;
    match insn.code >> 5 {
        3 if from_register => {
            need(insn.imm == 0)?;
            Ok(Op::Store { dst, off, size, src: Operand::Reg(src(insn)?) })
        }
        3 => {
            need(insn.src() == 0)?;
            Ok(Op::Store { dst, off, size, src: Operand::Imm(insn.imm) })
        }
        6 if from_register => {
            let op = atomic(insn.imm)?;
            let any_size = matches!(op, AtomicOp::LoadAcquire | AtomicOp::StoreRelease);
            if !any_size && !matches!(size, Size::W | Size::DW) {
                return Err(DecodeError::Code(insn.code));
            }
            let other = src(insn)?;
            // A load has its address in the source field, as other loads.
            let (base, reg) = if op == AtomicOp::LoadAcquire { (other, dst) } else { (dst, other) };
            Ok(Op::Atomic { op, base, off, size, reg })
        }
        _ => Err(DecodeError::Code(insn.code)),
    }
}

fn atomic(imm: i32) -> Result<AtomicOp> {
    Ok(match imm {
        0x00 => AtomicOp::Add,
        0x40 => AtomicOp::Or,
        0x50 => AtomicOp::And,
        0xa0 => AtomicOp::Xor,
        0x01 => AtomicOp::FetchAdd,
        0x41 => AtomicOp::FetchOr,
        0x51 => AtomicOp::FetchAnd,
        0xa1 => AtomicOp::FetchXor,
        0xe1 => AtomicOp::Xchg,
        0xf1 => AtomicOp::CmpXchg,
        0x100 => AtomicOp::LoadAcquire,
        0x110 => AtomicOp::StoreRelease,
        _ => return Err(DecodeError::Field),
    })
}

fn alu(insn: Insn, width: Width) -> Result<Op> {
    let dst = dst(insn)?;
    let op = match (insn.code >> 4, insn.off) {
        (0x8, off) => {
            need(off == 0 && insn.imm == 0 && insn.src() == 0 && insn.code & 8 == 0)?;
            return Ok(Op::Neg { width, dst });
        }
        (0xd, off) => {
            need(off == 0 && insn.src() == 0)?;
            return end(insn, width, dst);
        }
        (0xb, 8 | 16 | 32) => return move_signed(insn, width, dst),
        (0x3, 1) => AluOp::SDiv,
        (0x9, 1) => AluOp::SMod,
        (number, 0) => plain(number).ok_or(DecodeError::Code(insn.code))?,
        _ => return Err(DecodeError::Field),
    };
    let src = operand(insn)?;
    Ok(Op::Alu { width, op, dst, src })
}

fn plain(number: u8) -> Option<AluOp> {
    Some(match number {
        0x0 => AluOp::Add,
        0x1 => AluOp::Sub,
        0x2 => AluOp::Mul,
        0x3 => AluOp::Div,
        0x4 => AluOp::Or,
        0x5 => AluOp::And,
        0x6 => AluOp::Lsh,
        0x7 => AluOp::Rsh,
        0x9 => AluOp::Mod,
        0xa => AluOp::Xor,
        0xb => AluOp::Mov,
        0xc => AluOp::Arsh,
        _ => return None,
    })
}

fn move_signed(insn: Insn, width: Width, dst: Reg) -> Result<Op> {
    let op = match (insn.off, width) {
        (8, _) => AluOp::MovSx8,
        (16, _) => AluOp::MovSx16,
        (32, Width::W64) => AluOp::MovSx32,
        _ => return Err(DecodeError::Field),
    };
    match operand(insn)? {
        src @ Operand::Reg(_) => Ok(Op::Alu { width, op, dst, src }),
        Operand::Imm(_) => Err(DecodeError::Field),
    }
}

fn end(insn: Insn, width: Width, dst: Reg) -> Result<Op> {
    let order = match (width, insn.code & 8 != 0) {
        (Width::W32, false) => Order::Little,
        (Width::W32, true) => Order::Big,
        (Width::W64, false) => Order::Swap,
        (Width::W64, true) => return Err(DecodeError::Code(insn.code)),
    };
    match insn.imm {
        bits @ (16 | 32 | 64) => Ok(Op::End { order, bits: bits as u8, dst }),
        _ => Err(DecodeError::Field),
    }
}

fn jump(insn: Insn, width: Width) -> Result<Op> {
    let none = |fields: &[bool]| need(fields.iter().all(|zero| *zero));
    let (off, imm, src) = (insn.off == 0, insn.imm == 0, insn.src() == 0);
    match (insn.code >> 4, width, insn.code & 8 != 0) {
        (0, Width::W64, false) => {
            none(&[imm, src, insn.dst() == 0])?;
            Ok(Op::Jump { offset: i32::from(insn.off) })
        }
        (0, Width::W32, false) => {
            none(&[off, src, insn.dst() == 0])?;
            Ok(Op::Jump { offset: insn.imm })
        }
        (8, Width::W64, false) => {
            none(&[off, insn.dst() == 0])?;
            match insn.src() {
                0 => Ok(Op::Call { helper: insn.imm as u32 }),
                1 => Ok(Op::CallLocal { offset: insn.imm }),
                _ => Err(DecodeError::Field),
            }
        }
        (9, Width::W64, false) => {
            none(&[off, imm, src, insn.dst() == 0])?;
            Ok(Op::Exit)
        }
        (number, _, _) => {
            let cond = condition(number).ok_or(DecodeError::Code(insn.code))?;
            Ok(Op::Branch { width, cond, dst: dst(insn)?, src: operand(insn)?, offset: insn.off })
        }
    }
}

fn condition(number: u8) -> Option<Cond> {
    Some(match number {
        0x1 => Cond::Eq,
        0x2 => Cond::Gt,
        0x3 => Cond::Ge,
        0x4 => Cond::Set,
        0x5 => Cond::Ne,
        0x6 => Cond::SGt,
        0x7 => Cond::SGe,
        0xa => Cond::Lt,
        0xb => Cond::Le,
        0xc => Cond::SLt,
        0xd => Cond::SLe,
        _ => return None,
    })
}
