//! Atomic operations. Every locked instruction is a full barrier; plain loads acquire and plain stores release (SDM
//! vol. 3, "Memory Ordering").

use super::asm::{Asm, Bits, Gpr, Group1, Memory};
use super::{alu, divide, memory};
use mote_bpf::op::{AtomicOp, Size};

/// One atomic operation on the memory at `place`, base and offset.
pub(super) fn atomic(asm: &mut Asm<'_>, op: AtomicOp, place: (Gpr, i16), size: Size, reg: Gpr) {
    let bits = Bits::from(size);
    let at = Memory::at(place.0, place.1);
    let mut locked = |opcode: &[u8]| {
        asm.byte(LOCK);
        asm.op(bits, opcode, reg, at);
    };
    match op {
        AtomicOp::Add => locked(&[0x01]),
        AtomicOp::Or => locked(&[0x09]),
        AtomicOp::And => locked(&[0x21]),
        AtomicOp::Xor => locked(&[0x31]),
        AtomicOp::FetchAdd => locked(&[0x0f, 0xc1]),
        // xchg is locked by itself.
        AtomicOp::Xchg => asm.op(bits, &[0x87], reg, at),
        AtomicOp::CmpXchg => {
            locked(&[0x0f, 0xb1]);
            if bits == Bits::B32 {
                // The upper half of rax is as it was if the exchange took place.
                asm.mov(bits, Gpr::RAX, Gpr::RAX);
            }
        }
        AtomicOp::FetchOr => fetch(asm, Group1::Or, place, bits, reg),
        AtomicOp::FetchAnd => fetch(asm, Group1::And, place, bits, reg),
        AtomicOp::FetchXor => fetch(asm, Group1::Xor, place, bits, reg),
        AtomicOp::LoadAcquire => {
            let (bits, opcode) = alu::reads(size);
            asm.op(bits, opcode, reg, at);
        }
        AtomicOp::StoreRelease => memory::store_reg(asm, bits, at, reg),
    }
}

const LOCK: u8 = 0xf0;

/// `reg = memory, memory op= reg`: a loop around `cmpxchg`, which takes `rax` for itself.
fn fetch(asm: &mut Asm<'_>, op: Group1, (base, off): (Gpr, i16), bits: Bits, reg: Gpr) {
    asm.mov(Bits::B64, Gpr::R11, Gpr::RAX);
    let out_of_rax = |one: Gpr| if one == Gpr::RAX { Gpr::R11 } else { one };
    let at = Memory::at(out_of_rax(base), off);
    asm.op(bits, &[0x8b], Gpr::RAX, at);
    let again = asm.sink.len();
    asm.mov(bits, Gpr::R9, Gpr::RAX);
    asm.group1_from(op, bits, Gpr::R9, out_of_rax(reg));
    asm.byte(LOCK);
    asm.op(bits, &[0x0f, 0xb1], Gpr::R9, at);
    divide::loop_if_not_equal(asm, again);
    if reg != Gpr::RAX {
        asm.mov(bits, reg, Gpr::RAX);
        asm.mov(Bits::B64, Gpr::RAX, Gpr::R11);
    }
}
