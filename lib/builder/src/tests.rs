//! Programs built, and mistakes told.

use super::*;
use mote_bpf::Insn;
use mote_bpf::insn::Reg;
use mote_bpf::op::decode;
use mote_bpf::op::{Cond, Op, Width};

mod refused;
mod written;

fn ops(insns: &[Insn]) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut at = 0;
    while at < insns.len() {
        let op = decode(&insns[at..]).expect("built well");
        at += op.slots();
        ops.push(op);
    }
    ops
}

#[test]
fn offsets_count_slots_in_both_directions() {
    let mut b = Builder::new();
    let (top, out) = (b.here(), b.label());
    b.branch(Cond::Eq, Reg::R1, 5, out);
    b.constant(Reg::R2, 1 << 40);
    b.jump(top);
    b.bind(out);
    b.exit();
    let ops = ops(&b.finish().unwrap());
    assert!(matches!(ops[0], Op::Branch { offset: 3, .. }), "{ops:?}");
    assert_eq!(ops[1].slots(), 2);
    assert_eq!(ops[2], Op::Jump { offset: -4 });
}

#[test]
fn far_branches_are_turned_over_a_long_jump() {
    for (cond, slots) in [(Cond::Eq, 2), (Cond::SLe, 2), (Cond::Set, 3)] {
        let mut b = Builder::new();
        let out = b.label();
        b.branch32(cond, Reg::R1, Reg::R2, out);
        (0..40_000).for_each(|_| b.mov(Reg::R0, 0));
        b.bind(out);
        b.exit();
        let insns = b.finish().unwrap();
        assert_eq!(insns.len(), slots + 40_001);
        let ops = ops(&insns);
        assert_eq!(ops[slots - 1], Op::Jump { offset: 40_000 });
        assert!(matches!(ops[0], Op::Branch { offset: 1, width: Width::W32, .. }), "{:?}", ops[0]);
    }
}

/// A branch that just reaches until another one between grows.
#[test]
fn one_long_branch_makes_another() {
    let mut b = Builder::new();
    let (near, far) = (b.label(), b.label());
    b.branch(Cond::Ne, Reg::R1, 0, near);
    b.branch(Cond::Ne, Reg::R1, 1, far);
    (0..0x7ffe).for_each(|_| b.mov(Reg::R0, 0));
    b.bind(near);
    (0..10).for_each(|_| b.mov(Reg::R0, 1));
    b.bind(far);
    b.exit();
    let insns = b.finish().unwrap();
    assert_eq!(insns.len(), 4 + 0x7ffe + 11);
    assert_eq!(ops(&insns)[1], Op::Jump { offset: 0x8000 });
}

#[test]
fn local_functions_are_called_by_label() {
    let mut b = Builder::new();
    let function = b.label();
    b.call_local(function);
    b.exit();
    b.bind(function);
    b.mov(Reg::R0, 7);
    b.exit();
    assert_eq!(ops(&b.finish().unwrap())[0], Op::CallLocal { offset: 1 });
}

#[test]
fn constants_take_the_shortest_form() {
    let mut b = Builder::new();
    for value in [5, u64::MAX, 0xffff_ffff, 0x1_0000_0000] {
        b.constant(Reg::R1, value);
    }
    let slots: Vec<_> = ops(&b.finish().unwrap()).iter().map(Op::slots).collect();
    assert_eq!(slots, [1, 1, 1, 2]);
}

#[test]
fn mistakes_are_told() {
    let build = |make: fn(&mut Builder)| {
        let mut b = Builder::new();
        make(&mut b);
        b.finish().err()
    };
    assert_eq!(
        build(|b| {
            let label = b.label();
            b.jump(label);
        }),
        Some(BuildError::Unbound(Label(0)))
    );
    assert_eq!(
        build(|b| {
            let label = b.here();
            b.bind(label);
        }),
        Some(BuildError::Rebound(Label(0)))
    );
    assert_eq!(build(|b| b.op(Op::Jump { offset: 2 })), Some(BuildError::Offset));
    assert_eq!(build(|b| (0..70_000).for_each(|_| b.exit())), Some(BuildError::TooLong(70_000)));
    assert_eq!(build(|b| b.bind(Label(9))), Some(BuildError::Unbound(Label(9))));
}
