//! The first pass: what can be seen without following values. Each instruction can be decoded, jumps stay in their
//! function and hit the beginnings of instructions, every instruction can be reached, no function runs into the next
//! one.

use super::function::{FUNCTIONS_MAX, Function};
use super::rejection::{Reason, Rejection};
use super::visited::Room;
use crate::environment::{Environment, INSNS_MAX};
use crate::insn::Insn;
use crate::op::{self, Op, Operand, Wide};
use crate::table::Table;

/// What is known of a slot of the program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotInfo {
    /// Registers that may be read from here on, before they are written: one bit each.
    pub(crate) live: u16,
    /// Of those, the ones whose number may decide what the program does.
    pub(crate) exact: u16,
    /// The visited states here, the last one first; 0 for none, else the index plus 1.
    pub(crate) visited: u32,
    /// Where to begin looking in them.
    pub(crate) cursor: u32,
    /// Ways that lead here, at most 2.
    pub(crate) ways: u8,
    pub(crate) is_half: bool,
    pub(crate) is_reached: bool,
}

impl SlotInfo {
    pub(crate) const NOTHING: SlotInfo =
        SlotInfo { live: 0, exact: 0, visited: 0, cursor: 0, ways: 0, is_half: false, is_reached: false };
}

/// What is known of all slots: of as many as the program has instructions, in the walk.
pub(crate) type Slots = Table<SlotInfo, INSNS_MAX>;

/// The functions of a program, in the order of their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) all: Table<Function, FUNCTIONS_MAX>,
    pub(crate) count: usize,
}

impl Functions {
    pub(crate) fn new() -> Functions {
        Functions { all: Table([Function::default(); FUNCTIONS_MAX]), count: 0 }
    }

    /// The function that begins at a slot.
    pub(crate) fn at(&self, start: usize) -> Option<usize> {
        self.all.first(self.count).binary_search_by_key(&(start as u32), |one| one.start).ok()
    }

    fn insert(&mut self, start: usize) -> Result<(), Reason> {
        let start = start as u32;
        let at = self.all.first(self.count).partition_point(|one| one.start < start);
        if at < self.count && self.all[at].start == start {
            return Ok(());
        }
        if self.count == FUNCTIONS_MAX {
            return Err(Reason::Functions);
        }
        for at in (at..self.count).rev() {
            self.all[at + 1] = self.all[at];
        }
        self.all[at] = Function { start, ..Function::default() };
        self.count += 1;
        Ok(())
    }
}

/// Looks through the whole program, and fills in its slots; `room` is for as many words as there are slots.
pub(crate) fn check(
    insns: &[Insn],
    env: &Environment<'_>,
    slots: &mut Slots,
    room: &mut Room,
) -> Result<Functions, Rejection> {
    if insns.is_empty() || insns.len() > INSNS_MAX {
        return Err(Rejection::new(0, Reason::Length(insns.len() as u32)));
    }
    slots.first_mut(insns.len()).fill(SlotInfo::NOTHING);
    let mut functions = Functions::new();
    functions.insert(0).map_err(|why| Rejection::new(0, why))?;
    let mut pc = 0;
    while pc < insns.len() {
        let refuse = |why| Rejection::new(pc, why);
        let op =
            op::decode(insns.get(pc..).unwrap_or_default()).map_err(|why| refuse(Reason::Decode(why)))?;
        known_names(&op, env).map_err(refuse)?;
        if let Op::CallLocal { offset } = op {
            let target = landing(pc, offset, insns.len()).map_err(refuse)?;
            functions.insert(target).map_err(refuse)?;
        }
        if op.slots() == 2 {
            slots[pc + 1].is_half = true;
        }
        pc += op.slots();
    }
    describe(insns, slots, &mut functions)?;
    reach(insns, slots, room);
    match slots.first(insns.len()).iter().position(|slot| !slot.is_half && !slot.is_reached) {
        Some(slot) => Err(Rejection::new(slot, Reason::Unreachable)),
        None => Ok(functions),
    }
}

/// Maps and helpers that it names are there.
fn known_names(op: &Op, env: &Environment<'_>) -> Result<(), Reason> {
    match *op {
        Op::Call { helper } => env.helper(helper).map(|_| ()).ok_or(Reason::Helper(helper)),
        Op::Wide { value: Wide::Map(map) | Wide::MapValue { map, .. }, .. } => {
            let shape = env.maps.get(map as usize).ok_or(Reason::Map(map))?;
            if shape.is_sound() { Ok(()) } else { Err(Reason::MapShape(map)) }
        }
        _ => Ok(()),
    }
}

/// The slot that an offset from behind `pc` leads to.
fn landing(pc: usize, offset: i32, len: usize) -> Result<usize, Reason> {
    let target = pc as i64 + 1 + i64::from(offset);
    if target < 0 || target >= len as i64 { Err(Reason::JumpOutside(target)) } else { Ok(target as usize) }
}

/// The slot that a jump or branch at `pc` may go on at instead of the next one.
pub(crate) fn jump_target(pc: usize, op: &Op) -> Option<usize> {
    let offset = match *op {
        Op::Jump { offset } => offset,
        Op::Branch { offset, .. } => i32::from(offset),
        _ => return None,
    };
    Some((pc as i64 + 1 + i64::from(offset)) as usize)
}

/// Whether the next instruction is never next.
pub(crate) fn is_last(op: &Op) -> bool {
    matches!(op, Op::Jump { .. } | Op::Exit)
}

fn describe(insns: &[Insn], slots: &mut Slots, functions: &mut Functions) -> Result<(), Rejection> {
    for number in 0..functions.count {
        let start = functions.all[number].start as usize;
        let end = match functions.all.first(functions.count).get(number + 1) {
            Some(next) => next.start as usize,
            None => insns.len(),
        };
        if slots[start].is_half {
            return Err(Rejection::new(start - 1, Reason::JumpIntoHalf(start as i64)));
        }
        let function = &mut functions.all[number];
        function.end = end as u32;
        slots[start].ways = 1;
        describe_one(insns, slots, function)?;
    }
    Ok(())
}

/// Counts the ways to each slot of a function, and the registers that it names.
fn describe_one(insns: &[Insn], slots: &mut Slots, function: &mut Function) -> Result<(), Rejection> {
    let (start, end) = (function.start as usize, function.end as usize);
    let mut pc = start;
    while pc < end {
        let refuse = |why| Rejection::new(pc, why);
        let op =
            op::decode(insns.get(pc..).unwrap_or_default()).map_err(|why| refuse(Reason::Decode(why)))?;
        let next = pc + op.slots();
        if let Some(target) = jump_target(pc, &op) {
            if target < start || target >= end {
                return Err(refuse(Reason::JumpOutside(target as i64)));
            }
            if slots[target].is_half {
                return Err(refuse(Reason::JumpIntoHalf(target as i64)));
            }
            add_way(slots, target, 1);
        }
        if !is_last(&op) {
            if next >= end {
                return Err(refuse(Reason::RunsOn));
            }
            // What comes behind a call is reached from every `exit` of the function that was called.
            add_way(slots, next, if matches!(op, Op::CallLocal { .. }) { 2 } else { 1 });
        }
        function.registers |= named(&op);
        function.calls |= matches!(op, Op::Call { .. } | Op::CallLocal { .. });
        pc = next;
    }
    Ok(())
}

fn add_way(slots: &mut Slots, at: usize, ways: u8) {
    slots[at].ways = (slots[at].ways + ways).min(2);
}

/// The registers that an instruction names or changes.
fn named(op: &Op) -> u16 {
    let operand = |src: Operand| match src {
        Operand::Reg(reg) => 1 << reg.number(),
        Operand::Imm(_) => 0,
    };
    match *op {
        Op::Alu { dst, src, .. } | Op::Branch { dst, src, .. } | Op::Store { dst, src, .. } => {
            1 << dst.number() | operand(src)
        }
        Op::Neg { dst, .. } | Op::End { dst, .. } | Op::Wide { dst, .. } => 1 << dst.number(),
        Op::Load { dst, src, .. } => 1 << dst.number() | 1 << src.number(),
        Op::Atomic { base, reg, op, .. } => {
            1 << base.number() | 1 << reg.number() | u16::from(op == op::AtomicOp::CmpXchg)
        }
        Op::Call { .. } | Op::CallLocal { .. } => 0x3f,
        Op::Exit => 1,
        Op::Jump { .. } => 0,
    }
}

/// Marks what can be reached from the first slot. Each slot comes onto the list once.
fn reach(insns: &[Insn], slots: &mut Slots, list: &mut Room) {
    let mut count = 0;
    let add = |slots: &mut Slots, list: &mut Room, count: &mut usize, at: usize| {
        if !slots[at].is_reached {
            slots[at].is_reached = true;
            list[*count] = at as u64;
            *count += 1;
        }
    };
    add(slots, list, &mut count, 0);
    while count > 0 {
        count -= 1;
        let pc = list[count] as usize;
        let Ok(op) = op::decode(insns.get(pc..).unwrap_or_default()) else { continue };
        if let Some(target) = jump_target(pc, &op) {
            add(slots, list, &mut count, target);
        }
        if let Op::CallLocal { offset } = op
            && let Ok(target) = landing(pc, offset, insns.len())
        {
            add(slots, list, &mut count, target);
        }
        if !is_last(&op) {
            add(slots, list, &mut count, pc + op.slots());
        }
    }
}
