//! Calls of helpers and of local functions, tail calls.

use super::asm::{Asm, Bits, Gpr, Group1, Memory};
use super::divide::HOP_IF_EQUAL;
use super::{branch, frame};
use crate::layout::Around;
use crate::{Error, HelperPlace};
use mote_bpf::helper::TAIL_CALL;

/// What a tail call leaves in `r0` when there is no program to go on with: `-ENOENT`.
const NO_PROGRAM: u64 = -2i64 as u64;

/// Calls a helper: its arguments are where they have to be.
pub(super) fn helper(asm: &mut Asm<'_>, number: u32, around: &Around<'_>) -> Result<(), Error> {
    let place = (around.input.helper)(number).ok_or(Error::Helper(around.slot as u32))?;
    if number == TAIL_CALL {
        tail_call(asm, &place, around);
        return Ok(());
    }
    call(asm, place.address, around);
    if place.faults { leave_on_fault(asm, around) } else { Ok(()) }
}

/// Calls a function of the program.
pub(super) fn local(asm: &mut Asm<'_>, offset: i32, around: &Around<'_>) -> Result<(), Error> {
    let callee = around.plan.callee(around.slot, offset).ok_or(Error::Target(around.slot as u32))?;
    asm.byte(0xe8);
    branch::near(asm, around.frames.get(callee).map_or(0, |frame| frame.entry), around)?;
    if around.shape.may_fault { leave_on_fault(asm, around) } else { Ok(()) }
}

/// Ends the function when `rdx` says that what it called has met a fault.
fn leave_on_fault(asm: &mut Asm<'_>, around: &Around<'_>) -> Result<(), Error> {
    // test edx, edx; jnz
    asm.op(Bits::B32, &[0x85], Gpr::RDX, Gpr::RDX);
    asm.bytes(&[0x0f, 0x85]);
    branch::near(asm, around.fault, around)
}

/// Calls an address: directly if it is near wherever in the code the call stands, else through `rax`.
fn call(asm: &mut Asm<'_>, address: u64, around: &Around<'_>) {
    // The longest code of a program.
    const SPAN: i64 = 64 << 20;
    let base = around.input.base;
    let distance = address.wrapping_sub(base) as i64;
    if distance > i64::from(i32::MIN) + SPAN && distance < i64::from(i32::MAX) - SPAN {
        asm.byte(0xe8);
        let from = base.wrapping_add(asm.sink.len() as u64 + 4);
        asm.imm32(address.wrapping_sub(from) as i32);
    } else {
        asm.mov_imm(Gpr::RAX, address);
        // call rax
        asm.bytes(&[0xff, 0xd0]);
    }
}

/// Asks the helper for the program to go on with, undoes the frame and jumps there.
fn tail_call(asm: &mut Asm<'_>, place: &HelperPlace, around: &Around<'_>) {
    let (context, count) = frame::tail_slots(around.shape);
    let at = |disp| Memory::at(Gpr::RSP, disp);
    asm.op(Bits::B64, &[0x89], Gpr::RDI, at(context));
    asm.op(Bits::B64, &[0x8b], Gpr::RCX, at(count));
    call(asm, place.address, around);
    asm.op(Bits::B64, &[0x85], Gpr::RAX, Gpr::RAX);
    let none = asm.hop(HOP_IF_EQUAL);
    asm.op(Bits::B64, &[0x8b], Gpr::RDI, at(context));
    asm.op(Bits::B64, &[0x8b], Gpr::RCX, at(count));
    asm.group1_imm(Group1::Add, Bits::B32, Gpr::RCX, 1);
    asm.group1_from(Group1::Xor, Bits::B32, Gpr::RSI, Gpr::RSI);
    frame::undo(asm, around.shape);
    // jmp rax
    asm.bytes(&[0xff, 0xe0]);
    asm.land(none);
    asm.mov_imm(Gpr::RAX, NO_PROGRAM);
}
