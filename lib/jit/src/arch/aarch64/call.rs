//! Calls of helpers and of local functions, tail calls.

use super::asm::{Asm, Gpr, Twelve};
use super::{branch, frame};
use crate::layout::Around;
use crate::{Error, HelperPlace};
use mote_bpf::helper::TAIL_CALL;
use mote_bpf::op::Width;

/// What a tail call leaves in `r0` when there is no program to go on with: `-ENOENT`.
const NO_PROGRAM: u64 = -2i64 as u64;
const CBZ: u32 = 0xb400_0000;

/// Calls a helper: its arguments are where they have to be.
pub(super) fn helper(asm: &mut Asm<'_>, number: u32, around: &Around<'_>) -> Result<(), Error> {
    let place = (around.input.helper)(number).ok_or(Error::Helper(around.slot as u32))?;
    if number == TAIL_CALL {
        tail_call(asm, &place, around);
        return Ok(());
    }
    call(asm, place.address);
    if place.faults {
        leave_on_fault(asm, around)?;
    }
    asm.mov(Width::W64, Gpr::X7, Gpr::X0);
    Ok(())
}

/// Calls a function of the program.
pub(super) fn local(asm: &mut Asm<'_>, offset: i32, around: &Around<'_>) -> Result<(), Error> {
    let callee = around.plan.callee(around.slot, offset).ok_or(Error::Target(around.slot as u32))?;
    branch::call(asm, around.frames.get(callee).map_or(0, |frame| frame.entry), around)?;
    if around.shape.may_fault {
        leave_on_fault(asm, around)?;
    }
    asm.mov(Width::W64, Gpr::X7, Gpr::X0);
    Ok(())
}

/// Ends the function when `x1` says that what it called has met a fault.
fn leave_on_fault(asm: &mut Asm<'_>, around: &Around<'_>) -> Result<(), Error> {
    // cbz x1, over the jump
    asm.word(CBZ | 2 << 5 | u32::from(Gpr::X1.0));
    branch::jump(asm, around.fault, around)
}

fn call(asm: &mut Asm<'_>, address: u64) {
    asm.mov_imm(Gpr::X16, address);
    // blr x16
    asm.word_dn(0xd63f_0000, Gpr(0), Gpr::X16);
}

/// Asks the helper for the program to go on with, undoes the frame and jumps there.
fn tail_call(asm: &mut Asm<'_>, place: &HelperPlace, around: &Around<'_>) {
    let (context, count) = frame::tail_slots(around.shape);
    frame::keep(asm, Gpr::X0, context);
    frame::bring(asm, Gpr::X3, count);
    call(asm, place.address);
    let none = asm.sink.len();
    // cbz x0, to the end of this, once that is known
    let skip = |distance: u32| CBZ | distance << 5 | u32::from(Gpr::X0.0);
    asm.word(skip(0));
    asm.mov(Width::W64, Gpr::X16, Gpr::X0);
    asm.mov(Width::W64, Gpr::X2, Gpr::X1);
    frame::bring(asm, Gpr::X0, context);
    frame::bring(asm, Gpr::X3, count);
    asm.twelve(Twelve::Add, Width::W64, Gpr::X3, Gpr::X3, 1);
    asm.mov(Width::W64, Gpr::X1, Gpr::ZERO);
    frame::undo(asm, around.shape);
    // br x16
    asm.word_dn(0xd61f_0000, Gpr(0), Gpr::X16);
    let distance = (asm.sink.len() - none) as u32 / 4;
    for (at, byte) in skip(distance).to_le_bytes().into_iter().enumerate() {
        asm.sink.set(none + at, byte);
    }
    asm.mov_imm(Gpr::X7, NO_PROGRAM);
}
