//! Frames.
//!
//! ```text
//! x25 points here     if the function names r10
//! gap                 its stack, two words for tail calls, alignment
//! x22 x21 x20 x19     those of them that it names
//! x25                 if it names r10
//! x30                 if it calls something
//!                     <- sp, all through the body
//! ```
//! A function that needs none of these has no frame at all.

use super::asm::{Asm, Gpr, Twelve};
use crate::plan::Shape;
use mote_bpf::op::Width;

/// Bytes that tail calls keep: the context, and their count.
const TAIL_BYTES: u32 = 16;
/// Most registers that are saved.
const SAVED_MAX: usize = 6;

/// The registers that the function saves, upwards from `sp`; [`crate::Frame::saved`] has a bit for each of the three
/// kinds.
fn saved(shape: &Shape) -> ([Gpr; SAVED_MAX], usize) {
    let mut all = [Gpr::ZERO; SAVED_MAX];
    let mut count = 0;
    let mut add = |reg: Gpr, wanted: bool| {
        if let Some(place) = all.get_mut(count).filter(|_| wanted) {
            *place = reg;
            count += 1;
        }
    };
    add(Gpr::X30, shape.calls);
    add(Gpr::X25, shape.uses_stack);
    for bit in 0..4 {
        add(Gpr(19 + bit), shape.saved >> bit & 1 != 0);
    }
    (all, count)
}

/// Bytes of the whole frame, and of the registers in it.
fn bytes(shape: &Shape) -> (u32, u32) {
    let registers = 8 * saved(shape).1 as u32;
    let stack = if shape.uses_stack { shape.stack_bytes.next_multiple_of(8) } else { 0 };
    let tail = if shape.tail_calls { TAIL_BYTES } else { 0 };
    ((registers + tail + stack).next_multiple_of(16), registers)
}

/// Where tail calls keep the context and their count, from `sp`.
pub(super) fn tail_slots(shape: &Shape) -> (u32, u32) {
    let (_, registers) = bytes(shape);
    (registers, registers + 8)
}

/// Stores a register at `sp + at`.
pub(super) fn keep(asm: &mut Asm<'_>, reg: Gpr, at: u32) {
    asm.word_dn(0xf900_0000 | (at / 8) << 10, reg, Gpr::SP);
}

/// Loads it from there.
pub(super) fn bring(asm: &mut Asm<'_>, reg: Gpr, at: u32) {
    asm.word_dn(0xf940_0000 | (at / 8) << 10, reg, Gpr::SP);
}

/// Builds the frame, and returns what [`crate::Frame`] says of it.
pub(super) fn begin(asm: &mut Asm<'_>, shape: &Shape) -> (u16, u16) {
    let (total, registers) = bytes(shape);
    if total != 0 {
        asm.twelve(Twelve::Sub, Width::W64, Gpr::SP, Gpr::SP, total);
    }
    let (all, count) = saved(shape);
    for (at, reg) in (0..).step_by(8).zip(all.into_iter().take(count)) {
        keep(asm, reg, at);
    }
    if shape.uses_stack {
        asm.twelve(Twelve::Add, Width::W64, Gpr::X25, Gpr::SP, total);
    }
    if shape.tail_calls {
        keep(asm, Gpr::X3, tail_slots(shape).1);
    }
    let kinds = u16::from(shape.calls) | u16::from(shape.uses_stack) << 1 | u16::from(shape.saved) << 2;
    ((total - registers) as u16, kinds)
}

/// Undoes the frame.
pub(super) fn undo(asm: &mut Asm<'_>, shape: &Shape) {
    let (all, count) = saved(shape);
    for (at, reg) in (0..).step_by(8).zip(all.into_iter().take(count)) {
        bring(asm, reg, at);
    }
    let (total, _) = bytes(shape);
    if total != 0 {
        asm.twelve(Twelve::Add, Width::W64, Gpr::SP, Gpr::SP, total);
    }
}

/// Ends the function.
pub(super) fn leave(asm: &mut Asm<'_>, shape: &Shape) {
    asm.mov(Width::W64, Gpr::X0, Gpr::X7);
    if shape.is_main || shape.may_fault {
        asm.mov_imm(Gpr::X1, 0);
    }
    end(asm, shape);
}

fn end(asm: &mut Asm<'_>, shape: &Shape) {
    undo(asm, shape);
    // ret
    asm.word_dn(0xd65f_0000, Gpr(0), Gpr::X30);
}

/// Where calls lead that have met a fault: `x1` stays as it is.
pub(super) fn finish(asm: &mut Asm<'_>, shape: &Shape) {
    if shape.may_fault && shape.calls {
        end(asm, shape);
    }
}
