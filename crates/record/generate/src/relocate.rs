//! The instructions of a compiled filter, made part of a program: its jumps, its maps, its questions for ids.

use crate::{map_number, slot};
use mote_bpf::op::{AluOp, Op, Operand, Size, Wide, Width, decode};
use mote_bpf::{Insn, Reg, helper};
use mote_builder::{Builder, Label};
use std::collections::HashMap;

/// `r6 = r1`, with which filters begin that call something.
pub(crate) const KEEPS_WORDS: Op =
    Op::Alu { width: Width::W64, op: AluOp::Mov, dst: Reg::R6, src: Operand::Reg(Reg::R1) };

/// `bpf_get_current_pid_tgid()`
const ASKS_IDS: Op = Op::Call { helper: helper::GET_CURRENT_PID_TGID };

/// Whether a filter asks which thread is running.
pub(crate) fn asks_ids(insns: &[Insn]) -> bool {
    let mut at = 0;
    while let Some(Ok(op)) = insns.get(at..).filter(|rest| !rest.is_empty()).map(decode) {
        if op == ASKS_IDS {
            return true;
        }
        at += op.slots();
    }
    false
}

/// Appends a function: its jumps become jumps to labels, and its maps get the numbers that they have here. If the
/// recorder has other ids of threads than the kernel, a filter of rules is given these (one of somebody else's making
/// keeps its words elsewhere, and is given the kernel's).
pub(crate) fn append(b: &mut Builder, insns: &[Insn], namespaced: bool) -> Result<(), String> {
    let mut ops = Vec::new();
    let mut at = 0;
    while let Some(rest) = insns.get(at..).filter(|rest| !rest.is_empty()) {
        let op = decode(rest).map_err(|error| format!("its filter is not a program: {error:?}"))?;
        ops.push((at, op));
        at += op.slots();
    }
    let target = |at: usize, op: &Op| {
        let offset = match *op {
            Op::Jump { offset } | Op::CallLocal { offset } => i64::from(offset),
            Op::Branch { offset, .. } => i64::from(offset),
            _ => return None,
        };
        Some(at as i64 + op.slots() as i64 + offset)
    };
    let mut labels: HashMap<i64, Label> = HashMap::new();
    for (at, op) in &ops {
        if let Some(target) = target(*at, op) {
            labels.entry(target).or_insert_with(|| b.label());
        }
    }
    let replaces_ids = namespaced && ops.first().is_some_and(|(_, op)| *op == KEEPS_WORDS);
    for (at, op) in &ops {
        if let Some(label) = labels.get(&(*at as i64)) {
            b.bind(*label);
        }
        match (*op, target(*at, op).and_then(|target| labels.get(&target))) {
            (Op::Jump { .. }, Some(to)) => b.jump(*to),
            (Op::CallLocal { .. }, Some(to)) => b.call_local(*to),
            (Op::Branch { width, cond, dst, src, .. }, Some(to)) => match width {
                Width::W64 => b.branch(cond, dst, src, *to),
                Width::W32 => b.branch32(cond, dst, src, *to),
            },
            (Op::Wide { dst, value }, _) => b.op(Op::Wide { dst, value: renumbered(value) }),
            (ASKS_IDS, _) if replaces_ids => {
                b.load(Size::DW, Reg::R0, Reg::R6, slot::RECORDER_IDS - slot::WORDS)
            }
            (op, _) => b.op(op),
        }
    }
    Ok(())
}

/// A map of the filter, with the number that it has in the program.
pub(crate) fn renumbered(value: Wide) -> Wide {
    match value {
        Wide::Map(map) => Wide::Map(map + map_number::FILTERS),
        Wide::MapValue { map, offset } => Wide::MapValue { map: map + map_number::FILTERS, offset },
        value => value,
    }
}
