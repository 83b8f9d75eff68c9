//! Short filters put where they are asked, instead of being called: a call and its return cost more than what most
//! filters do.
//!
//! The code of a filter is that of a function: its words at `r1`, which it may have moved to `r6`, and `r0` at its end.
//! In the program around it `r6` to `r9` are taken, and so is the stack. So put in place are filters that use `r0` to
//! `r5` only, beside reading words at `r6`.

use crate::relocate::{KEEPS_WORDS, renumbered};
use crate::slot;
use mote_bpf::Insn;
use mote_bpf::op::{AluOp, Cond, Op, Operand, Size, Width, decode};
use mote_bpf::{Reg, helper};
use mote_builder::{Builder, Label};
use std::collections::HashMap;

/// Longer ones are called: then events with the same filter share it.
const OPS_MAX: usize = 64;

/// A filter that can be put in place: its operations, with the slot at which each begins.
pub(crate) struct Inline(Vec<(usize, Op)>);

/// What a register is in the program around the filter.
fn is_scratch(reg: Reg) -> bool {
    reg.index() <= Reg::R5.index()
}

fn is_free(operand: Operand) -> bool {
    matches!(operand, Operand::Imm(_)) || matches!(operand, Operand::Reg(reg) if is_scratch(reg))
}

/// `r0 = low half of r0`
const LOW_HALF: Op = Op::Alu { width: Width::W32, op: AluOp::Mov, dst: Reg::R0, src: Operand::Reg(Reg::R0) };

impl Inline {
    /// The filter, if it can be put in place.
    pub(crate) fn of(insns: &[Insn]) -> Option<Inline> {
        let mut ops = Vec::new();
        let mut at = 0;
        while let Some(rest) = insns.get(at..).filter(|rest| !rest.is_empty()) {
            let op = decode(rest).ok()?;
            ops.push((at, op));
            at += op.slots();
        }
        let fits = |(at, op): &(usize, Op)| match *op {
            _ if *at == 0 && *op == KEEPS_WORDS => true,
            Op::Alu { dst, src, .. } => is_scratch(dst) && is_free(src),
            Op::Neg { dst, .. } | Op::End { dst, .. } | Op::Wide { dst, .. } => is_scratch(dst),
            Op::Load { dst, src, .. } => is_scratch(dst) && (is_scratch(src) || src == Reg::R6),
            Op::Store { dst, src, .. } => is_scratch(dst) && is_free(src),
            Op::Atomic { base, reg, .. } => is_scratch(base) && is_scratch(reg),
            Op::Branch { dst, src, offset, .. } => is_scratch(dst) && is_free(src) && offset >= 0,
            Op::Jump { offset } => offset >= 0,
            Op::Call { .. } | Op::Exit => true,
            _ => false,
        };
        (ops.len() <= OPS_MAX && ops.iter().all(fits)).then_some(Inline(ops))
    }

    /// Puts it in place: goes to `yes` when `r0` is not 0 at its end, else to `no`. `namespaced`: ids of the running
    /// thread are in their slot.
    pub(crate) fn put(&self, b: &mut Builder, yes: Label, no: Label, namespaced: bool) {
        let mut labels: HashMap<usize, Label> = HashMap::new();
        for target in self.0.iter().filter_map(|(at, op)| target(*at, op)) {
            labels.entry(target).or_insert_with(|| b.label());
        }
        let mut ops = self.0.iter().peekable();
        while let Some((at, op)) = ops.next() {
            if let Some(label) = labels.get(at) {
                b.bind(*label);
            }
            // An operation that belongs to the next one, when nobody jumps between them.
            let next = ops.peek().filter(|(at, _)| !labels.contains_key(at)).map(|(_, op)| *op);
            let to = target(*at, op).and_then(|target| labels.get(&target)).copied();
            match (*op, next) {
                (KEEPS_WORDS, _) if *at == 0 => {}
                (Op::Call { helper: helper::GET_CURRENT_PID_TGID }, _) if namespaced => {
                    b.load(Size::DW, Reg::R0, Reg::R10, slot::RECORDER_IDS);
                }
                (Op::Call { helper: helper::GET_CURRENT_PID_TGID }, Some(LOW_HALF)) => {
                    b.load(Size::DW, Reg::R0, Reg::R10, slot::TID.offset());
                    ops.next();
                }
                (
                    Op::Alu { op: AluOp::Mov, dst: Reg::R0, src: Operand::Imm(outcome), .. },
                    Some(Op::Exit),
                ) => {
                    b.jump(if outcome == 0 { no } else { yes });
                    ops.next();
                }
                (Op::Exit, _) => {
                    b.branch(Cond::Eq, Reg::R0, 0, no);
                    b.jump(yes);
                }
                (Op::Load { dst, src: Reg::R6, off, size, signed }, _) => {
                    b.op(Op::Load { dst, src: Reg::R10, off: off + slot::WORDS, size, signed });
                }
                (Op::Wide { dst, value }, _) => b.op(Op::Wide { dst, value: renumbered(value) }),
                (Op::Branch { width: Width::W64, cond, dst, src, .. }, _) => {
                    to.into_iter().for_each(|to| b.branch(cond, dst, src, to));
                }
                (Op::Branch { cond, dst, src, .. }, _) => {
                    to.into_iter().for_each(|to| b.branch32(cond, dst, src, to));
                }
                (Op::Jump { .. }, _) => to.into_iter().for_each(|to| b.jump(to)),
                (op, _) => b.op(op),
            }
        }
    }
}

/// The slot to which an operation jumps.
fn target(at: usize, op: &Op) -> Option<usize> {
    let offset = match *op {
        Op::Jump { offset } => offset,
        Op::Branch { offset, .. } => offset.into(),
        _ => return None,
    };
    usize::try_from(offset).ok().map(|offset| at + op.slots() + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(make: impl FnOnce(&mut Builder)) -> Option<Inline> {
        let mut b = Builder::new();
        make(&mut b);
        Inline::of(&b.finish().expect("it is short"))
    }

    fn put(inline: &Inline) -> Vec<Op> {
        let mut b = Builder::new();
        let (yes, no) = (b.label(), b.label());
        inline.put(&mut b, yes, no, false);
        b.bind(yes);
        b.mov(Reg::R0, 7);
        b.bind(no);
        b.exit();
        let insns = b.finish().expect("it is short");
        (0..insns.len()).map(|at| decode(&insns[at..]).expect("all are of one slot")).collect()
    }

    #[test]
    fn outcomes_become_jumps_and_words_are_read_from_the_frame() {
        let inline = filter(|b| {
            let not = b.label();
            b.mov(Reg::R6, Reg::R1);
            b.call(helper::GET_CURRENT_PID_TGID);
            b.mov32(Reg::R0, Reg::R0);
            b.load(Size::DW, Reg::R1, Reg::R6, 8);
            b.branch(Cond::Ne, Reg::R0, Reg::R1, not);
            b.mov(Reg::R0, 1);
            b.exit();
            b.bind(not);
            b.mov(Reg::R0, 0);
            b.exit();
        });
        let ops = put(&inline.expect("it uses what is free"));
        let load = |dst, off| Op::Load { dst, src: Reg::R10, off, size: Size::DW, signed: false };
        assert_eq!(ops[..2], [load(Reg::R0, slot::TID.offset()), load(Reg::R1, slot::WORDS + 8)]);
        let exits = ops.iter().filter(|op| **op == Op::Exit).count();
        assert_eq!((exits, ops.iter().any(|op| matches!(op, Op::Call { .. }))), (1, false), "{ops:?}");
    }

    #[test]
    fn what_needs_a_frame_of_its_own_is_called() {
        let saved = filter(|b| {
            b.mov(Reg::R7, 1);
            b.mov(Reg::R0, Reg::R7);
            b.exit();
        });
        let stack = filter(|b| {
            b.store(Size::DW, Reg::R10, -8, 1);
            b.mov(Reg::R0, 0);
            b.exit();
        });
        let long = filter(|b| {
            (0..=OPS_MAX).for_each(|_| b.mov(Reg::R0, 1));
            b.exit();
        });
        assert!(saved.is_none() && stack.is_none() && long.is_none());
    }
}
