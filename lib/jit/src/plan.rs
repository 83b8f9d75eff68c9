//! What the machine code of an instruction depends on beyond the instruction: where jumps lead, where functions begin,
//! and which registers are read again.

mod live;

use crate::{Error, FUNCTIONS_MAX, Function};
use live::ALL;
use mote_bpf::environment::STACK_BYTES;
use mote_bpf::op::{AtomicOp, Operand, decode};
use mote_bpf::{Insn, Op, Reg, helper};

/// Bits 0 to 10 of a slot's facts: registers whose values are read at or after the slot, before they are written.
const LIVE: u32 = 0x7ff;
/// A jump leads here.
const TARGET: u32 = 1 << 16;
/// Second half of a 16-byte instruction.
const HALF: u32 = 1 << 17;
/// The jump in this step is of the short form.
const SHORT: u32 = 1 << 18;

/// Words of workspace for a program of this many slots.
pub const fn workspace_words(slots: usize) -> usize {
    2 * (slots + 1)
}

/// Finds the functions of a program that was not verified: by the calls that lead to them. Whichever mentions `r10`
/// gets a whole stack frame. Returns how many were found.
///
/// # Errors
/// [`Error::Functions`] when `found` is too small; a call that leads nowhere.
///
/// # Cost
/// Linear in the instructions, times the functions for each call.
pub fn functions(insns: &[Insn], found: &mut [Function]) -> Result<usize, Error> {
    let mut count = 0;
    add(found, &mut count, 0)?;
    for (slot, op) in ops(insns) {
        if let Op::CallLocal { offset } = op? {
            let start = lead(slot, offset, insns.len()).ok_or(Error::Target(slot as u32))?;
            add(found, &mut count, start as u32)?;
        }
    }
    for (slot, op) in ops(insns) {
        let at = found.get(..count).map_or(0, |all| all.partition_point(|one| one.start as usize <= slot));
        if let Some(function) = found.get_mut(at.wrapping_sub(1))
            && mentions(&op?, Reg::R10)
        {
            function.stack_bytes = STACK_BYTES as u32;
        }
    }
    Ok(count)
}

/// Puts a function where it belongs, unless it is there.
fn add(found: &mut [Function], count: &mut usize, start: u32) -> Result<(), Error> {
    let all = found.get_mut(..=*count).ok_or(Error::Functions)?;
    let (last, known) = all.split_last_mut().ok_or(Error::Functions)?;
    let at = known.partition_point(|one| one.start < start);
    if known.get(at).is_some_and(|one| one.start == start) {
        return Ok(());
    }
    let mut moved = Function { start, stack_bytes: 0 };
    for one in known.iter_mut().skip(at) {
        core::mem::swap(one, &mut moved);
    }
    *last = moved;
    *count += 1;
    Ok(())
}

/// Every instruction with its slot.
fn ops(insns: &[Insn]) -> impl Iterator<Item = (usize, Result<Op, Error>)> {
    let mut next = 0;
    core::iter::from_fn(move || {
        let slot = next;
        let rest = insns.get(slot..).filter(|rest| !rest.is_empty())?;
        let op = decode(rest).map_err(|why| Error::Insn(slot as u32, why));
        next += op.as_ref().map_or(1, Op::slots);
        Some((slot, op))
    })
}

/// Where an offset from behind `slot` leads, if to a slot at all.
fn lead(slot: usize, offset: i32, slots: usize) -> Option<usize> {
    usize::try_from(slot as i64 + 1 + i64::from(offset)).ok().filter(|target| *target < slots)
}

/// Where a jump or a branch leads.
fn jump_of(slot: usize, op: &Op) -> Option<i64> {
    let offset = match *op {
        Op::Jump { offset } => offset,
        Op::Branch { offset, .. } => i32::from(offset),
        _ => return None,
    };
    Some(slot as i64 + 1 + i64::from(offset))
}

/// Whether `op` reads or writes `reg` by naming it.
fn mentions(op: &Op, reg: Reg) -> bool {
    let is = |operand: Operand| operand == Operand::Reg(reg);
    match *op {
        Op::Alu { dst, src, .. } | Op::Store { dst, src, .. } | Op::Branch { dst, src, .. } => {
            dst == reg || is(src)
        }
        Op::Neg { dst, .. } | Op::End { dst, .. } | Op::Wide { dst, .. } => dst == reg,
        Op::Load { dst, src, .. } => dst == reg || src == reg,
        Op::Atomic { op, base, reg: other, .. } => {
            base == reg || other == reg || op == AtomicOp::CmpXchg && reg == Reg::R0
        }
        Op::Jump { .. } | Op::Call { .. } | Op::CallLocal { .. } | Op::Exit => false,
    }
}

/// What a function needs of its frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    /// Its first slot.
    pub(crate) start: usize,
    /// The slot behind its last.
    pub(crate) end: usize,
    /// Bytes of its eBPF stack.
    pub(crate) stack_bytes: u32,
    /// It is the program, not a function of it.
    pub(crate) is_main: bool,
    /// It names `r10`.
    pub(crate) uses_stack: bool,
    /// Bit `n`: it names `r6 + n`.
    pub(crate) saved: u8,
    /// It calls something, and comes back.
    pub(crate) calls: bool,
    /// It has tail calls.
    pub(crate) tail_calls: bool,
    /// Some helper of the program may end it with a fault.
    pub(crate) may_fault: bool,
}

/// A program with its facts.
pub(crate) struct Plan<'a> {
    pub(crate) insns: &'a [Insn],
    functions: &'a [Function],
    facts: &'a mut [u32],
    offsets: &'a mut [u32],
    may_fault: bool,
}

impl<'a> Plan<'a> {
    /// Looks through the program.
    pub(crate) fn new(input: &crate::Input<'a>, workspace: &'a mut [u32]) -> Result<Plan<'a>, Error> {
        let words = input.insns.len() + 1;
        let (facts, rest) = workspace.split_at_mut_checked(words).ok_or(Error::Room)?;
        let offsets = rest.get_mut(..words).ok_or(Error::Room)?;
        facts.fill(ALL);
        offsets.fill(0);
        let mut plan =
            Plan { insns: input.insns, functions: input.functions, facts, offsets, may_fault: false };
        plan.check_functions()?;
        plan.mark(input)?;
        for index in 0..plan.functions.len() {
            plan.check_flow(index)?;
        }
        plan.find_live();
        Ok(plan)
    }

    fn check_functions(&self) -> Result<(), Error> {
        let starts = self.functions;
        let sorted = starts.is_sorted_by(|one, next| one.start < next.start);
        let inside = starts.last().is_some_and(|last| (last.start as usize) < self.insns.len());
        let first = starts.first().is_some_and(|first| first.start == 0);
        let stacks = starts.iter().all(|one| one.stack_bytes as usize <= STACK_BYTES);
        let few = starts.len() <= FUNCTIONS_MAX;
        if sorted && inside && first && stacks && few { Ok(()) } else { Err(Error::Functions) }
    }

    /// Marks halves and targets, looks at calls.
    fn mark(&mut self, input: &crate::Input<'_>) -> Result<(), Error> {
        for (slot, op) in ops(self.insns) {
            let op = op?;
            if op.slots() == 2 {
                self.add_fact(slot + 1, HALF);
            }
            if let Some(target) = jump_of(slot, &op) {
                let at = usize::try_from(target).ok().filter(|at| *at < self.insns.len());
                self.add_fact(at.ok_or(Error::Target(slot as u32))?, TARGET);
            }
            if let Op::Call { helper } = op {
                let place = (input.helper)(helper).ok_or(Error::Helper(slot as u32))?;
                self.may_fault |= place.faults && helper != helper::TAIL_CALL;
            }
        }
        Ok(())
    }

    /// Checks that a function stays in itself.
    fn check_flow(&self, index: usize) -> Result<(), Error> {
        let (start, end) = self.bounds(index);
        if self.is_half(start) {
            return Err(Error::Functions);
        }
        let mut slot = start;
        while slot < end {
            let op = self.op(slot)?;
            let here = slot as u32;
            if let Some(target) = jump_of(slot, &op) {
                let inside = target >= start as i64 && target < end as i64;
                if !inside || self.is_half(target as usize) {
                    return Err(Error::Target(here));
                }
            }
            if let Op::CallLocal { offset } = op {
                self.callee(slot, offset).ok_or(Error::Target(here))?;
            }
            if matches!(op, Op::Call { helper: helper::TAIL_CALL }) && index != 0 {
                return Err(Error::TailCall(here));
            }
            slot += op.slots();
            if slot >= end && !matches!(op, Op::Exit | Op::Jump { .. }) {
                return Err(Error::RunsOut(here));
            }
        }
        Ok(())
    }

    fn bounds(&self, index: usize) -> (usize, usize) {
        let start = self.functions.get(index).map_or(self.insns.len(), |one| one.start as usize);
        let end = self.functions.get(index + 1).map_or(self.insns.len(), |one| one.start as usize);
        (start, end)
    }

    /// The function that a call in `slot` leads to.
    pub(crate) fn callee(&self, slot: usize, offset: i32) -> Option<usize> {
        let start = lead(slot, offset, self.insns.len())?;
        self.functions.binary_search_by_key(&start, |one| one.start as usize).ok()
    }

    /// How many functions there are.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// What the function of this index needs.
    pub(crate) fn shape(&self, index: usize) -> Result<Shape, Error> {
        let (start, end) = self.bounds(index);
        let mut shape = Shape {
            start,
            end,
            stack_bytes: self.functions.get(index).map_or(0, |one| one.stack_bytes),
            is_main: index == 0,
            may_fault: self.may_fault,
            ..Shape::default()
        };
        let mut slot = start;
        while slot < end {
            let op = self.op(slot)?;
            for (bit, reg) in [Reg::R6, Reg::R7, Reg::R8, Reg::R9].into_iter().enumerate() {
                shape.saved |= u8::from(mentions(&op, reg)) << bit;
            }
            shape.uses_stack |= mentions(&op, Reg::R10);
            shape.calls |= matches!(op, Op::Call { .. } | Op::CallLocal { .. });
            shape.tail_calls |= matches!(op, Op::Call { helper: helper::TAIL_CALL });
            slot += op.slots();
        }
        Ok(shape)
    }

    /// The instruction of a slot.
    pub(crate) fn op(&self, slot: usize) -> Result<Op, Error> {
        let rest = self.insns.get(slot..).unwrap_or_default();
        decode(rest).map_err(|why| Error::Insn(slot as u32, why))
    }

    /// Whether a jump leads to this slot.
    pub(crate) fn is_target(&self, slot: usize) -> bool {
        self.fact(slot) & TARGET != 0
    }

    /// The instruction of a slot that nothing jumps to, for one that goes before it.
    pub(crate) fn follower(&self, slot: usize) -> Option<Op> {
        let starts_function = self.functions.binary_search_by_key(&slot, |one| one.start as usize).is_ok();
        if self.is_target(slot) || starts_function { None } else { self.op(slot).ok() }
    }

    /// Where a jump to `target` ends, when it meets other jumps.
    pub(crate) fn follow(&self, target: usize) -> usize {
        const HOPS: usize = 8;
        let mut at = target;
        for _ in 0..HOPS {
            match self.op(at) {
                Ok(op @ Op::Jump { .. }) => at = jump_of(at, &op).map_or(at, |to| to as usize),
                _ => break,
            }
        }
        at
    }

    /// Whether `reg` may be read at or after `slot`.
    pub(crate) fn is_live(&self, slot: usize, reg: Reg) -> bool {
        self.fact(slot) >> reg.number() & 1 != 0
    }

    fn fact(&self, slot: usize) -> u32 {
        self.facts.get(slot).copied().unwrap_or(ALL)
    }

    fn is_half(&self, slot: usize) -> bool {
        self.fact(slot) & HALF != 0
    }

    /// Whether the step at `slot` has a short jump.
    pub(crate) fn is_short(&self, slot: usize) -> bool {
        self.fact(slot) & SHORT != 0
    }

    /// The jump of the step at `slot` is short from now on.
    pub(crate) fn make_short(&mut self, slot: usize) {
        self.add_fact(slot, SHORT);
    }

    fn add_fact(&mut self, slot: usize, fact: u32) {
        if let Some(facts) = self.facts.get_mut(slot) {
            *facts |= fact;
        }
    }

    /// Offset of a slot's code, by the last walk that came there.
    pub(crate) fn offset(&self, slot: usize) -> u32 {
        self.offsets.get(slot).copied().unwrap_or(0)
    }

    /// Sets the offset of all slots of a step; returns whether that of the first changed.
    pub(crate) fn place(&mut self, slots: core::ops::Range<usize>, offset: u32) -> bool {
        let changed = self.offset(slots.start) != offset;
        if let Some(all) = self.offsets.get_mut(slots) {
            all.fill(offset);
        }
        changed
    }
}
