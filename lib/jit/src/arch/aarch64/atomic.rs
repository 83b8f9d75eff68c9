//! Atomic operations: loops of exclusive loads and stores, with a barrier behind those that fetch, as in Linux
//! (`arch/arm64/include/asm/atomic_ll_sc.h`).

use super::asm::{Asm, Gpr, Three};
use super::memory::{address, size_bits};
use mote_bpf::op::{AtomicOp, Size, Width};

/// Exclusive load of `rd` from `[rn]`.
const LDXR: u32 = 0x085f_7c00;
/// Exclusive store of `rd` to `[rn]`; whether it failed goes into the register in bits 16 to 20.
const STXR: u32 = 0x0800_7c00;
/// The same with release.
const STLXR: u32 = 0x0800_fc00;
const LDAR: u32 = 0x08df_fc00;
const STLR: u32 = 0x089f_fc00;
/// `dmb ish`
const BARRIER: u32 = 0xd503_3bbf;

/// One atomic operation on the memory at `place`, base and offset.
pub(super) fn atomic(asm: &mut Asm<'_>, op: AtomicOp, place: (Gpr, i16), size: Size, reg: Gpr) {
    let width = if size == Size::DW { Width::W64 } else { Width::W32 };
    let at = address(asm, place.0, place.1);
    let size = size_bits(size);
    let three = match op {
        AtomicOp::LoadAcquire => return asm.word_dn(size | LDAR, reg, at),
        AtomicOp::StoreRelease => return asm.word_dn(size | STLR, reg, at),
        AtomicOp::CmpXchg => return compare(asm, width, size, at, reg),
        AtomicOp::Xchg => None,
        AtomicOp::Add | AtomicOp::FetchAdd => Some(Three::Add),
        AtomicOp::Or | AtomicOp::FetchOr => Some(Three::Orr),
        AtomicOp::And | AtomicOp::FetchAnd => Some(Three::And),
        AtomicOp::Xor | AtomicOp::FetchXor => Some(Three::Eor),
    };
    let fetches = !matches!(op, AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor);
    let again = asm.sink.len();
    asm.word_dn(size | LDXR, Gpr::X10, at);
    let new = match three {
        Some(three) => {
            asm.three(three, width, Gpr::X11, Gpr::X10, reg);
            Gpr::X11
        }
        None => reg,
    };
    store(asm, size, if fetches { STLXR } else { STXR }, new, at, again);
    if fetches {
        asm.word(BARRIER);
        asm.mov(width, reg, Gpr::X10);
    }
}

/// `r0 = memory; if it was r0, memory = reg`
fn compare(asm: &mut Asm<'_>, width: Width, size: u32, at: Gpr, reg: Gpr) {
    let again = asm.sink.len();
    asm.word_dn(size | LDXR, Gpr::X10, at);
    asm.three(Three::Subs, width, Gpr::ZERO, Gpr::X10, Gpr::X7);
    // b.ne over the store and its loop
    asm.word(0x5400_0001 | 3 << 5);
    store(asm, size, STLXR, reg, at, again);
    asm.word(BARRIER);
    asm.mov(width, Gpr::X7, Gpr::X10);
}

/// Stores, and goes back to the load if another thread was there meanwhile.
fn store(asm: &mut Asm<'_>, size: u32, op: u32, reg: Gpr, at: Gpr, again: usize) {
    asm.word_dn(size | op | u32::from(Gpr::X12.0) << 16, reg, at);
    let back = (again as i64 - asm.sink.len() as i64) / 4;
    // cbnz w12
    asm.word(0x3500_0000 | (back as u32 & 0x7_ffff) << 5 | u32::from(Gpr::X12.0));
}
