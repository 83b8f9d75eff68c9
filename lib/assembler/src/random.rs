//! Random programs for comparing engines: the same seed gives the same program.
//!
//! A program takes `r1`, which points to [`Shape::memory`] bytes, and `r2`, their number (`Entry::Memory`). It is made
//! so that verifiers, ours and the kernel's, have no reason to refuse it: all registers but `r6` (the memory) and `r10`
//! hold numbers at any time, all of the stack that is used is written first, addresses stay inside by a mask, loops
//! count down. Within that it does what it can: every operation, width and size, values at the edges, branches both
//! ways, nested loops, local functions, atomics, and (with a map) lookups and updates. At the end each register is
//! mixed into `r0`, so that nothing it computed goes unseen.

mod body;
mod source;

pub use source::Source;

use body::Body;
use mote_bpf::Insn;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, Size, Width};
use mote_builder::{Builder, Label};
use std::collections::HashSet;

/// What programs are made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes that `r1` points to: at least 16.
    pub memory: u32,
    /// About how many statements a function has; each is one to a dozen instructions.
    pub statements: u32,
    /// Most local functions beside the program itself.
    pub functions: u32,
    /// True to use map 0: an array (4-byte keys) of 8-byte values.
    pub map: bool,
    /// Entries of map 0, where it is used.
    pub entries: u32,
    /// True for atomic operations that return something on the stack too. Kernels before commit 179ee84a8911
    /// (CVE-2026-43009) lose precision there, and remove branches that are taken.
    pub stack_fetch: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { memory: 64, statements: 24, functions: 2, map: false, entries: 4, stack_fetch: true }
    }
}

/// Bytes of the stack that a function uses.
const STACK: i16 = 64;
/// Registers that hold numbers at any time.
const NUMBERS: [Reg; 9] = [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R7, Reg::R8, Reg::R9];

/// The program of a seed.
pub fn program(seed: u64, shape: &Shape) -> Vec<Insn> {
    let mut source = Source::new(seed);
    let mut b = Builder::new();
    let count = source.below(u64::from(shape.functions) + 1) as usize;
    let functions: Vec<_> = (0..count).map(|_| b.label()).collect();
    let mut called = HashSet::new();
    function(&mut b, &mut source, shape, Calls { functions: &functions, called: &mut called }, true);
    for at in 0..count {
        // What is never called is unreachable, which verifiers refuse.
        if called.contains(&functions[at]) {
            b.bind(functions[at]);
            // Only those behind are called from here: there is no recursion.
            let behind = Calls { functions: &functions[at + 1..], called: &mut called };
            function(&mut b, &mut source, shape, behind, false);
        }
    }
    // Labels are all bound, and programs much shorter than the most.
    b.finish().unwrap_or_default()
}

/// Functions that may be called, and those that are.
struct Calls<'a> {
    functions: &'a [Label],
    called: &'a mut HashSet<Label>,
}

fn function(b: &mut Builder, source: &mut Source, shape: &Shape, calls: Calls<'_>, main: bool) {
    b.mov(Reg::R6, Reg::R1);
    if main {
        for reg in NUMBERS {
            if source.chance(3) {
                let off = source.below(u64::from(shape.memory) / 8) as i16 * 8;
                b.load(Size::DW, reg, Reg::R6, off);
            } else {
                let value = source.value();
                b.constant(reg, value);
            }
        }
    } else {
        // Arguments are r2 to r5; the others are the caller's, or have no value.
        for reg in [Reg::R0, Reg::R1, Reg::R7, Reg::R8, Reg::R9] {
            b.constant(reg, source.value());
        }
    }
    for off in (-STACK..0).step_by(8) {
        b.store(Size::DW, Reg::R10, off, source.pick(&NUMBERS));
    }
    let statements = if main { shape.statements } else { shape.statements / 3 + 1 };
    Body { b, source, shape, calls, loops: 0 }.statements(statements);
    for reg in &NUMBERS[1..] {
        b.mul(Reg::R0, 0x0100_0193);
        b.alu(Width::W64, AluOp::Xor, Reg::R0, *reg);
    }
    for off in (-STACK..0).step_by(8) {
        b.load(Size::DW, Reg::R1, Reg::R10, off);
        b.add(Reg::R0, Reg::R1);
    }
    b.exit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_bpf::Op;
    use mote_bpf::op::decode;

    #[test]
    fn a_seed_is_a_program() {
        let shape = Shape { map: true, ..Shape::default() };
        assert_eq!(program(7, &shape), program(7, &shape));
        assert_ne!(program(7, &shape), program(8, &shape));
    }

    /// A few hundred programs have every kind of instruction in them, and all are whole.
    #[test]
    fn nothing_is_left_out() {
        let shape = Shape { map: true, ..Shape::default() };
        let mut kinds = HashSet::new();
        for seed in 0..400 {
            let insns = program(seed, &shape);
            assert!(!insns.is_empty());
            let mut at = 0;
            while at < insns.len() {
                let op = decode(&insns[at..]).expect("what is built can be decoded");
                at += op.slots();
                kinds.insert((insns[at - op.slots()].code, alu_variant(&op)));
            }
        }
        // 56 of arithmetic, 5 moves with sign, 2 negations, 9 of byte order, 7 loads, 8 stores, 28 atomics, 44
        // branches, and the constant, the jump, the call and the exit.
        assert_eq!(kinds.len(), 163);
    }

    fn alu_variant(op: &Op) -> String {
        match op {
            Op::Alu { op, .. } => format!("{op:?}"),
            Op::Atomic { op, .. } => format!("{op:?}"),
            Op::End { bits, .. } => bits.to_string(),
            _ => String::new(),
        }
    }
}
