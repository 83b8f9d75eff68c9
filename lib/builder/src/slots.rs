//! Where each instruction comes to lie, and what the offsets are then.
//!
//! All branches start short; those that do not reach their label become long, which moves others apart, until nothing
//! changes. Lengths only grow, so that it ends.

use crate::error::{BuildError, Label};
use mote_bpf::Insn;
use mote_bpf::environment::INSNS_MAX;
use mote_bpf::insn::Reg;
use mote_bpf::op::{Cond, Op, Operand, Width, encode};

/// One instruction, of which the offset may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Plain(Op),
    Jump(Label),
    Branch { width: Width, cond: Cond, dst: Reg, src: Operand, to: Label },
    Call(Label),
}

/// First slot of each item, and behind the last.
pub(crate) fn places(items: &[Item], labels: &[Option<usize>]) -> Result<Vec<usize>, BuildError> {
    let mut slots: Vec<usize> = items.iter().map(short).collect();
    for target in items.iter().filter_map(target) {
        item_of(target, labels)?;
    }
    loop {
        let places = sums(&slots);
        let mut grown = false;
        for (at, item) in items.iter().enumerate() {
            let Item::Branch { cond, to, .. } = *item else { continue };
            let far = i16::try_from(distance(places[at] + 1, to, labels, &places)).is_err();
            if far && slots[at] == 1 {
                slots[at] = long(cond);
                grown = true;
            }
        }
        if !grown {
            let total = *places.last().unwrap_or(&0);
            return if total > INSNS_MAX { Err(BuildError::TooLong(total)) } else { Ok(places) };
        }
    }
}

/// The instructions, placed.
pub(crate) fn encode_all(items: &[Item], labels: &[Option<usize>], places: &[usize]) -> Vec<Insn> {
    let mut insns = Vec::with_capacity(*places.last().unwrap_or(&0));
    for (item, ends) in items.iter().zip(places.windows(2)) {
        // Offsets count from behind the last slot, which is the one that jumps far.
        let offset = |to: Label| distance(ends[1], to, labels, places) as i32;
        match *item {
            Item::Plain(op) => push(&mut insns, &op),
            Item::Jump(to) => push(&mut insns, &Op::Jump { offset: offset(to) }),
            Item::Call(to) => push(&mut insns, &Op::CallLocal { offset: offset(to) }),
            Item::Branch { width, cond, dst, src, to } => {
                let branch = |cond, offset| Op::Branch { width, cond, dst, src, offset };
                match (ends[1] - ends[0], negated(cond)) {
                    (1, _) => push(&mut insns, &branch(cond, offset(to) as i16)),
                    (_, Some(opposite)) => {
                        push(&mut insns, &branch(opposite, 1));
                        push(&mut insns, &Op::Jump { offset: offset(to) });
                    }
                    (_, None) => {
                        push(&mut insns, &branch(cond, 1));
                        push(&mut insns, &Op::Jump { offset: 1 });
                        push(&mut insns, &Op::Jump { offset: offset(to) });
                    }
                }
            }
        }
    }
    insns
}

fn push(insns: &mut Vec<Insn>, op: &Op) {
    let (first, second) = encode(op);
    insns.push(first);
    insns.extend(second);
}

fn short(item: &Item) -> usize {
    if let Item::Plain(op) = item { op.slots() } else { 1 }
}

/// Slots of a far branch.
fn long(cond: Cond) -> usize {
    if negated(cond).is_some() { 2 } else { 3 }
}

fn target(item: &Item) -> Option<Label> {
    match *item {
        Item::Plain(_) => None,
        Item::Jump(to) | Item::Call(to) | Item::Branch { to, .. } => Some(to),
    }
}

fn item_of(label: Label, labels: &[Option<usize>]) -> Result<usize, BuildError> {
    labels.get(label.0).copied().flatten().ok_or(BuildError::Unbound(label))
}

/// Slots from `from` to a label, which is bound.
fn distance(from: usize, to: Label, labels: &[Option<usize>], places: &[usize]) -> i64 {
    let place = labels[to.0].map_or(0, |item| places[item]);
    place as i64 - from as i64
}

fn sums(slots: &[usize]) -> Vec<usize> {
    let mut at = 0;
    let mut places = vec![0];
    places.extend(slots.iter().map(|count| {
        at += count;
        at
    }));
    places
}

/// The condition that holds when this one does not; there is none of `&`.
pub(crate) fn negated(cond: Cond) -> Option<Cond> {
    Some(match cond {
        Cond::Eq => Cond::Ne,
        Cond::Ne => Cond::Eq,
        Cond::Gt => Cond::Le,
        Cond::Le => Cond::Gt,
        Cond::Ge => Cond::Lt,
        Cond::Lt => Cond::Ge,
        Cond::SGt => Cond::SLe,
        Cond::SLe => Cond::SGt,
        Cond::SGe => Cond::SLt,
        Cond::SLt => Cond::SGe,
        Cond::Set => return None,
    })
}
