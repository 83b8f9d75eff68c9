//! What the tests of both emitters share: a table of all operations, and helpers.

use crate::HelperPlace;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Operand, Order, Size, Wide, Width, encode};
use mote_bpf::{Insn, Op, Reg, helper};
use std::vec;
use std::vec::Vec;

/// Where the code is said to lie.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

/// One helper of each kind.
pub(crate) fn helpers(id: u32) -> Option<HelperPlace> {
    Some(match id {
        7 => HelperPlace { address: BASE + 0x1000, faults: false },
        8 => HelperPlace { address: BASE + 0x1000, faults: true },
        9 => HelperPlace { address: 0x1234_5678_9abc, faults: false },
        helper::TAIL_CALL => HelperPlace { address: BASE + 0x2000, faults: false },
        _ => return None,
    })
}

/// Every operation on every pair of registers, each as a program of its own.
pub(crate) fn every_operation() -> Vec<(Op, Vec<Insn>)> {
    let regs: Vec<Reg> = (0..11).filter_map(Reg::new).collect();
    let pairs = regs.iter().flat_map(|dst| regs.iter().map(move |src| (*dst, *src)));
    let ops = pairs.flat_map(|(dst, src)| operations(dst, src));
    ops.map(|op| {
        let (first, second) = encode(&op);
        let exit = encode(&Op::Exit).0;
        (op, [first].into_iter().chain(second).chain([exit, exit]).collect())
    })
    .collect()
}

fn operations(dst: Reg, src: Reg) -> Vec<Op> {
    use AluOp::{Add, And, Arsh, Div, Lsh, Mod, Mov, MovSx8, MovSx16, Mul, Or, Rsh, SDiv, SMod, Sub, Xor};
    let mut ops = vec![];
    for width in [Width::W32, Width::W64] {
        for op in [Add, And, Arsh, Div, Lsh, Mod, Mov, Mul, Or, Rsh, SDiv, SMod, Sub, Xor] {
            for src in [Operand::Reg(src), Operand::Imm(1), Operand::Imm(-3), Operand::Imm(70000)] {
                ops.push(Op::Alu { width, op, dst, src });
            }
        }
        for op in [MovSx8, MovSx16] {
            ops.push(Op::Alu { width, op, dst, src: Operand::Reg(src) });
        }
        ops.push(Op::Neg { width, dst });
        for cond in [Cond::Eq, Cond::Set, Cond::SGt, Cond::Le] {
            for src in [Operand::Reg(src), Operand::Imm(0), Operand::Imm(-3), Operand::Imm(70000)] {
                ops.push(Op::Branch { width, cond, dst, src, offset: 0 });
            }
        }
    }
    for bits in [16, 32, 64] {
        for order in [Order::Little, Order::Big, Order::Swap] {
            ops.push(Op::End { order, bits, dst });
        }
    }
    ops.push(Op::Wide { dst, value: Wide::Map(0) });
    ops.push(Op::Wide { dst, value: Wide::MapValue { map: 0, offset: 8 } });
    for size in [Size::B, Size::H, Size::W, Size::DW] {
        for off in [0, -8, 300] {
            ops.push(Op::Load { dst, src, off, size, signed: false });
            if size != Size::DW {
                ops.push(Op::Load { dst, src, off, size, signed: true });
            }
            ops.push(Op::Store { dst, off, size, src: Operand::Reg(src) });
            ops.push(Op::Store { dst, off, size, src: Operand::Imm(-5) });
        }
        for op in [AtomicOp::LoadAcquire, AtomicOp::StoreRelease] {
            ops.push(Op::Atomic { op, base: src, off: 4, size, reg: dst });
        }
    }
    use AtomicOp::{CmpXchg, FetchAdd, FetchAnd, FetchOr, FetchXor, Xchg};
    for op in [
        AtomicOp::Add,
        AtomicOp::Or,
        AtomicOp::And,
        AtomicOp::Xor,
        FetchAdd,
        FetchOr,
        FetchAnd,
        FetchXor,
        Xchg,
        CmpXchg,
    ] {
        for size in [Size::W, Size::DW] {
            ops.push(Op::Atomic { op, base: dst, off: 16, size, reg: src });
        }
    }
    ops
}
