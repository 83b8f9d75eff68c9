//! Frames: built, undone, and undone from outside when the function met a fault.
//!
//! ```text
//! return address
//! rbp                 if the function names r10; rbp then points here
//! gap                 its stack, two words for tail calls, alignment
//! rbx r13 r14 r15     those of them that it names
//!                     <- rsp, all through the body
//! ```
//! A function that needs none of these has no frame at all. One that calls nothing and saves nothing leaves its stack
//! below
//! `rsp`: 128 bytes there are safe from signal handlers (System V ABI, "red zone").

use super::asm::{Asm, Bits, Gpr, Group1, Memory};
use crate::Frame;
use crate::plan::Shape;

/// Bit of `rbp` in [`Frame::saved`]; the bits above it are those of `r6` to `r9`.
const POINTER: u16 = 1;
/// Homes of `r6` to `r9`.
const SAVED: [Gpr; 4] = [Gpr::RBX, Gpr::R13, Gpr::R14, Gpr::R15];
/// Safe bytes below `rsp`.
const RED_ZONE: u32 = 128;
/// Bytes that tail calls keep: the context, and their count.
const TAIL_BYTES: u32 = 16;

fn saved_count(shape: &Shape) -> u32 {
    shape.saved.count_ones()
}

/// Bytes of the gap.
fn gap(shape: &Shape) -> u32 {
    let stack = if shape.uses_stack { shape.stack_bytes.next_multiple_of(8) } else { 0 };
    if !shape.calls {
        return if saved_count(shape) == 0 && stack <= RED_ZONE { 0 } else { stack };
    }
    let gap = stack + if shape.tail_calls { TAIL_BYTES } else { 0 };
    let pushed = 8 + 8 * u32::from(shape.uses_stack) + 8 * saved_count(shape);
    // Called functions want rsp at a multiple of 16.
    gap + (gap + pushed) % 16
}

/// Where tail calls keep the context and their count, from `rsp`.
pub(super) fn tail_slots(shape: &Shape) -> (i32, i32) {
    let below = 8 * saved_count(shape) as i32;
    (below, below + 8)
}

fn pushed(shape: &Shape) -> impl DoubleEndedIterator<Item = Gpr> {
    let saved = shape.saved;
    SAVED.into_iter().enumerate().filter(move |(bit, _)| saved >> bit & 1 != 0).map(|(_, reg)| reg)
}

/// Builds the frame, and returns what [`Frame`] says of it.
pub(super) fn begin(asm: &mut Asm<'_>, shape: &Shape) -> (u16, u16) {
    if shape.uses_stack {
        asm.push(Gpr::RBP);
        asm.mov(Bits::B64, Gpr::RBP, Gpr::RSP);
    }
    let gap = gap(shape);
    match gap {
        0 => {}
        8 => asm.push(Gpr::RAX),
        _ => asm.group1_imm(Group1::Sub, Bits::B64, Gpr::RSP, gap as i32),
    }
    for reg in pushed(shape) {
        asm.push(reg);
    }
    if shape.tail_calls {
        let (_, count) = tail_slots(shape);
        asm.op(Bits::B64, &[0x89], Gpr::RCX, Memory::at(Gpr::RSP, count));
    }
    (gap as u16, (u16::from(shape.uses_stack) * POINTER) | (u16::from(shape.saved) << 1))
}

/// Undoes the frame, up to the return address. Only registers that it restores change, `r11`, and the flags.
pub(super) fn undo(asm: &mut Asm<'_>, shape: &Shape) {
    for reg in pushed(shape).rev() {
        asm.pop(reg);
    }
    match (shape.uses_stack, gap(shape)) {
        (true, 0) => asm.pop(Gpr::RBP),
        // leave
        (true, _) => asm.byte(0xc9),
        (false, 0) => {}
        (false, 8) => asm.pop(Gpr::R11),
        (false, gap) => asm.group1_imm(Group1::Add, Bits::B64, Gpr::RSP, gap as i32),
    }
}

/// Ends the function.
pub(super) fn leave(asm: &mut Asm<'_>, shape: &Shape) {
    if shape.is_main || shape.may_fault {
        asm.group1_from(Group1::Xor, Bits::B32, Gpr::RDX, Gpr::RDX);
    }
    end(asm, shape);
}

fn end(asm: &mut Asm<'_>, shape: &Shape) {
    undo(asm, shape);
    // ret
    asm.byte(0xc3);
}

/// Where calls lead that have met a fault: `rdx` stays as it is.
pub(super) fn finish(asm: &mut Asm<'_>, shape: &Shape) {
    if shape.may_fault && shape.calls {
        end(asm, shape);
    }
}

/// The registers of an interrupted thread that a frame says something of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer (`RIP`) of the thread.
    pub rip: u64,
    /// Stack pointer (`RSP`) of the thread.
    pub rsp: u64,
    /// Frame pointer, the home of `r10`.
    pub rbp: u64,
    /// `rbx`, `r13`, `r14`, `r15`: the homes of `r6` to `r9`.
    pub saved: [u64; 4],
}

impl Registers {
    /// Address of the instruction that is executed next.
    pub const fn ip(&self) -> u64 {
        self.rip
    }

    /// What they are in the caller, once the function of this frame has returned, of a thread that is in its body.
    /// `read` reads a word of its stack.
    pub fn caller(mut self, frame: &Frame, read: impl Fn(u64) -> u64) -> Registers {
        let pop = |registers: &mut Registers| {
            let word = read(registers.rsp);
            registers.rsp = registers.rsp.wrapping_add(8);
            word
        };
        let mut saved = self.saved;
        for (bit, reg) in saved.iter_mut().enumerate().rev() {
            if frame.saved >> (bit + 1) & 1 != 0 {
                *reg = pop(&mut self);
            }
        }
        self.saved = saved;
        self.rsp = self.rsp.wrapping_add(u64::from(frame.gap));
        if frame.saved & POINTER != 0 {
            self.rbp = pop(&mut self);
        }
        self.rip = pop(&mut self);
        self
    }
}
