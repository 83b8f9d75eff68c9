//! eBPF to x86-64.
//!
//! | eBPF | machine | |
//! |---|---|---|
//! | `r0` | `rax` | result |
//! | `r1` to `r5` | `rdi` `rsi` `rdx` `rcx` `r8` | as the System V calling convention passes arguments: a call of a helper moves nothing |
//! | `r6` to `r9` | `rbx` `r13` `r14` `r15` | survive calls there too |
//! | `r10` | `rbp` | end of the stack frame |
//! | | `r9` `r10` `r11` | scratch inside one instruction |
//!
//! Source of the map: Sharma & Dagenais 2016, table 1; of the encodings: Intel SDM vol. 2.
//!
//! # Calling convention
//! A program is entered as `extern "C" fn(r1, r2, program, tail_calls) -> (rax: r0, rdx: fault)`. A local function is
//! called as the program is, and its `rdx` counts only when a helper of the program may fault.

mod alu;
mod asm;
mod atomic;
mod branch;
mod call;
mod divide;
mod frame;
mod memory;
mod registers;

pub use frame::Registers;

use crate::fuse::{Abilities, First, Step};
use crate::layout::{self, Around, Target};
use crate::plan::Shape;
use crate::sink::Sink;
use crate::{Compiled, Error, Frame, Input};
use asm::{Asm, Gpr};
use mote_bpf::op::Width;
use mote_bpf::{Op, Reg};
use registers::gpr;

/// Most bytes of code of a program of this many slots and functions.
pub const fn bytes_max(slots: usize, functions: usize) -> usize {
    // The longest are divisions by registers, signed: under 80 bytes; a frame built and undone twice: under 96.
    80 * slots + 96 * functions + 64
}

/// Compiles a program into `out`; the frames of its functions go into `frames`, in their order.
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
    let mut emitter = Emitter { asm: Asm { sink: Sink::new(out) }, zero: None };
    layout::run(input, &mut emitter, workspace, frames)
}

struct Emitter<'a> {
    asm: Asm<'a>,
    /// The register that the step before left in the zero flag, too.
    zero: Option<(Reg, Width)>,
}

impl<'a> Target<'a> for Emitter<'a> {
    const ABILITIES: Abilities = Abilities { memory: true, leaves: true };
    const REACH: i64 = 127;
    const STEP_BYTES: i64 = 32;

    fn sink(&mut self) -> &mut Sink<'a> {
        &mut self.asm.sink
    }

    fn begin(&mut self, shape: &Shape) -> (u16, u16) {
        frame::begin(&mut self.asm, shape)
    }

    fn step(&mut self, step: &Step, around: &Around<'_>) -> Result<(), Error> {
        let zero = self.zero.take().filter(|_| !around.plan.is_target(around.slot));
        self.zero = alu::zero_flag(step);
        let asm = &mut self.asm;
        match *step {
            Step::Nothing => {}
            Step::Op(op) => return emit(asm, &op, around),
            Step::Sum { dst, left, right } => alu::sum(asm, dst, left, right),
            Step::AluMemory { op, dst, read } => alu::with_memory(asm, op, gpr(dst), &read),
            Step::Jump { .. } => return branch::jump(asm, around),
            Step::Leave { value } => {
                if let Some(value) = value {
                    alu::load_constant(asm, Gpr::RAX, i64::from(value) as u64);
                }
                frame::leave(asm, around.shape);
            }
            Step::Branch { width, test, left, right, .. } => {
                let is_known = zero == Some((left, width)) && branch::asks_for_zero(test, right);
                if !is_known {
                    branch::compare(asm, width, test, left, right);
                }
                return branch::jump_if(asm, test, around);
            }
            Step::BranchMemory { first, test, ref read, other, swapped, .. } => {
                match first {
                    Some(First::Constant { dst, value }) => alu::load_constant(asm, gpr(dst), value),
                    Some(First::Sum { dst, left, right }) => alu::sum(asm, dst, left, right),
                    None => {}
                }
                branch::compare_memory(asm, test, read, other, swapped);
                return branch::jump_if(asm, test, around);
            }
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
        Op::Alu { width, op, dst, src } => alu::alu(asm, width, op, dst, src, around),
        Op::Neg { width, dst } => alu::neg(asm, width, gpr(dst)),
        Op::End { order, bits, dst } => alu::end(asm, order, bits, gpr(dst)),
        Op::Wide { dst, value } => return alu::wide(asm, gpr(dst), value, around),
        Op::Load { dst, src, off, size, signed } => memory::load(asm, gpr(dst), gpr(src), off, size, signed),
        Op::Store { dst, off, size, src } => memory::store(asm, dst, off, size, src),
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
