//! eBPF to aarch64.
//!
//! | eBPF | machine | |
//! |---|---|---|
//! | `r0` | `x7` | result; moved from and to `x0` around calls |
//! | `r1` to `r5` | `x0` to `x4` | as AAPCS64 passes arguments |
//! | `r6` to `r9` | `x19` to `x22` | survive calls there too |
//! | `r10` | `x25` | end of the stack frame |
//! | | `x9` to `x12`, `x16` | scratch inside one instruction |
//!
//! The map is that of Linux (`arch/arm64/net/bpf_jit_comp.c`); the encodings are of the Arm ARM, section C6. Only
//! instructions of ARMv8.0 are used.
//!
//! # Calling convention
//! A program is entered as `extern "C" fn(r1, r2, program, tail_calls) -> (x0: r0, x1: fault)`, and so are its
//! functions.

mod alu;
mod asm;
mod atomic;
mod branch;
mod call;
mod frame;
mod memory;
mod registers;

use crate::fuse::{Abilities, Step};
use crate::layout::{self, Around, Target};
use crate::plan::Shape;
use crate::sink::Sink;
use crate::{Compiled, Error, Frame, Input};
use asm::Asm;
use mote_bpf::{Op, Reg};
use registers::gpr;

/// Most bytes of code of a program of this many slots and functions.
pub const fn bytes_max(slots: usize, functions: usize) -> usize {
    // The longest is a tail call: 24 instructions.
    96 * slots + 128 * functions + 64
}

/// Compiles a program into `out`; the frames of its functions go into `frames`, in their order. `saved` of a frame has
/// bit 0 for `x30`, bit 1 for `x25`, and those above for `x19` to `x22`; they lie upwards from `sp` in that order, and
/// above them is the gap.
///
/// The workspace is of [`crate::workspace_words`] of the slots, with any content.
///
/// # Errors
/// [`Error`]; nothing in `out` may be run then.
pub fn compile(
    input: &Input<'_>,
    out: &mut [u8],
    workspace: &mut [u32],
    frames: &mut [Frame],
) -> Result<Compiled, Error> {
    let mut emitter = Emitter { asm: Asm { sink: Sink::new(out) } };
    layout::run(input, &mut emitter, workspace, frames)
}

struct Emitter<'a> {
    asm: Asm<'a>,
}

impl<'a> Target<'a> for Emitter<'a> {
    const ABILITIES: Abilities = Abilities { memory: false, leaves: true };
    const REACH: i64 = (1 << 20) - 4;
    const STEP_BYTES: i64 = 32;

    fn sink(&mut self) -> &mut Sink<'a> {
        &mut self.asm.sink
    }

    fn begin(&mut self, shape: &Shape) -> (u16, u16) {
        frame::begin(&mut self.asm, shape)
    }

    fn step(&mut self, step: &Step, around: &Around<'_>) -> Result<(), Error> {
        let asm = &mut self.asm;
        match *step {
            Step::Op(op) => return emit(asm, &op, around),
            Step::Sum { dst, left, right } => alu::sum(asm, gpr(dst), gpr(left), right),
            Step::Jump { .. } => return branch::jump(asm, around.aim.offset, around),
            Step::Leave { value } => {
                if let Some(value) = value {
                    asm.mov_imm(gpr(Reg::R0), i64::from(value) as u64);
                }
                frame::leave(asm, around.shape);
            }
            Step::Branch { width, test, left, right, .. } => {
                return branch::branch(asm, width, test, gpr(left), right, around);
            }
            // The last two are only made for machines that have operations with memory.
            Step::Nothing | Step::AluMemory { .. } | Step::BranchMemory { .. } => {}
        }
        Ok(())
    }

    fn finish(&mut self, shape: &Shape) {
        frame::finish(&mut self.asm, shape);
    }
}

/// Emits an operation that has no jump.
fn emit(asm: &mut Asm<'_>, op: &Op, around: &Around<'_>) -> Result<(), Error> {
    match *op {
        Op::Alu { width, op, dst, src } => alu::alu(asm, width, op, gpr(dst), src),
        Op::Neg { width, dst } => alu::neg(asm, width, gpr(dst)),
        Op::End { order, bits, dst } => alu::end(asm, order, bits, gpr(dst)),
        Op::Wide { dst, value } => return alu::wide(asm, gpr(dst), value, around),
        Op::Load { dst, src, off, size, signed } => memory::load(asm, gpr(dst), gpr(src), off, size, signed),
        Op::Store { dst, off, size, src } => memory::store(asm, gpr(dst), off, size, src),
        Op::Atomic { op, base, off, size, reg } => atomic::atomic(asm, op, (gpr(base), off), size, gpr(reg)),
        Op::Call { helper } => return call::helper(asm, helper, around),
        Op::CallLocal { offset } => return call::local(asm, offset, around),
        // These three are steps of their own.
        Op::Jump { .. } | Op::Branch { .. } | Op::Exit => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
