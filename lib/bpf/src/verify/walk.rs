//! The third pass: walks every path with what is known.

use super::branch::Branch;
use super::rejection::{Reason, Rejection};
use super::state::State;
use super::structure::{Functions, Slots};
use super::value::{Kind, Value};
use super::visited::{Meeting, Visited};
use super::watch::{View, Watch};
use crate::environment::{Entry, Environment};
use crate::insn::{Insn, Reg};
use crate::op::{self, Op, Operand, Wide};
use crate::verify::scalar::Scalar;

/// What a step or a check ends with.
pub(super) type Checked<T = ()> = Result<T, Rejection>;

/// Where a path goes on.
pub(super) enum Flow {
    /// At this slot.
    At(usize),
    /// Nowhere.
    End,
}

/// Most values and words of states that are written or changed at branches, calls and accesses of the stack. What is
/// looked at to compare states has a bound of its own (`visited`).
pub(super) const WORK_MAX: u64 = 1 << 24;

/// A walk through a program.
pub(super) struct Walk<'w, 'e> {
    pub(super) insns: &'e [Insn],
    pub(super) env: &'e Environment<'e>,
    pub(super) slots: &'w mut Slots,
    pub(super) state: &'w mut State,
    pub(super) visited: &'w mut Visited,
    pub(super) functions: &'w mut Functions,
    pub(super) facts: Facts,
    pub(super) pc: usize,
    last_id: u32,
}

/// What is found out on the way.
#[derive(Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) steps: u32,
    pub(super) depth: usize,
    pub(super) tail_calls: bool,
    pub(super) reads_outside: bool,
}

impl<'w, 'e> Walk<'w, 'e> {
    pub(super) fn new(
        insns: &'e [Insn],
        env: &'e Environment<'e>,
        slots: &'w mut Slots,
        state: &'w mut State,
        visited: &'w mut Visited,
        functions: &'w mut Functions,
    ) -> Walk<'w, 'e> {
        let facts = Facts { depth: 1, ..Facts::default() };
        Walk { insns, env, slots, state, visited, functions, facts, pc: 0, last_id: 0 }
    }

    /// Walks all paths.
    pub(super) fn run(&mut self, watch: &mut impl Watch) -> Checked<Facts> {
        self.enter();
        self.visited.clear();
        loop {
            self.path(watch)?;
            self.visited.end_path();
            match self.visited.take_up(self.state) {
                Some(pc) => {
                    self.pc = pc;
                    self.jump()?;
                }
                None => return Ok(self.facts),
            }
        }
    }

    /// What is known at the start.
    fn enter(&mut self) {
        (self.state.top, self.state.record_count) = (0, 0);
        self.state.frames[0].enter(0, 0, 0);
        match self.env.entry {
            Entry::Context(_) => self.state.set(Reg::R1, Value::pointer(Kind::Context, 0)),
            Entry::Traced { .. } => {
                self.state.set(Reg::R1, Value::pointer(Kind::Context, 0));
                self.state.set(Reg::R2, Value::pointer(Kind::Memory, 0));
            }
            Entry::Memory { len } => {
                self.state.set(Reg::R1, Value::pointer(Kind::Memory, 0));
                self.state.set(Reg::R2, Value::number(Scalar::constant(len.into())));
            }
        }
    }

    /// Walks on to the end of the path.
    fn path(&mut self, watch: &mut impl Watch) -> Checked {
        loop {
            if self.slots[self.pc].ways > 1 {
                match self.visited.meet(self.pc, self.state, self.slots) {
                    Meeting::New => {}
                    Meeting::Covered => return Ok(()),
                    Meeting::Circle => return Err(self.refuse(Reason::Endless)),
                }
            }
            if self.facts.steps >= self.env.steps_max {
                return Err(self.refuse(Reason::Steps(self.env.steps_max)));
            }
            if self.state.work > WORK_MAX {
                return Err(self.refuse(Reason::Work));
            }
            self.facts.steps += 1;
            let slot = &self.slots[self.pc];
            watch.at(self.pc, &View { state: self.state, live: slot.live, exact: slot.exact });
            match self.step()? {
                Flow::At(pc) => self.pc = pc,
                Flow::End => return Ok(()),
            }
        }
    }

    fn step(&mut self) -> Checked<Flow> {
        let insns = self.insns;
        let op = op::decode(insns.get(self.pc..).unwrap_or_default())
            .map_err(|why| self.refuse(Reason::Decode(why)))?;
        match op {
            Op::Alu { width, op, dst, src } => self.alu(width, op, dst, src)?,
            Op::Neg { width, dst } => self.negate(width, dst)?,
            Op::End { order, bits, dst } => self.turn_round(order, bits, dst)?,
            Op::Wide { dst, value } => self.wide(dst, value)?,
            Op::Load { dst, src, off, size, signed } => {
                let value = self.load(src, off, size, signed)?;
                self.write(dst, value)?;
            }
            Op::Store { dst, off, size, src } => self.store(dst, off, size, src)?,
            Op::Atomic { op, base, off, size, reg } => self.atomic(op, base, off, size, reg)?,
            Op::Jump { offset } => return Ok(Flow::At((self.pc as i64 + 1 + i64::from(offset)) as usize)),
            Op::Branch { width, cond, dst, src, offset } => {
                return self.branch(&Branch { width, cond, dst, src, offset }).map(Flow::At);
            }
            Op::Call { helper } => self.call(helper)?,
            Op::CallLocal { offset } => return self.call_local(offset).map(Flow::At),
            Op::Exit => return self.exit(),
        }
        Ok(Flow::At(self.pc + op.slots()))
    }

    fn wide(&mut self, dst: Reg, value: Wide) -> Checked {
        let value = match value {
            Wide::Value(value) => Value::number(Scalar::constant(value)),
            Wide::Map(map) => Value::pointer(Kind::Map, map),
            Wide::MapValue { map, offset } => {
                let shape = self.map(map)?;
                let array = shape.kind == crate::map::MapKind::Array;
                if !array || offset > shape.value_bytes {
                    return Err(self.refuse(Reason::MapValue));
                }
                Value { number: Scalar::constant(offset.into()), ..Value::pointer(Kind::Value, map) }
            }
        };
        self.write(dst, value)
    }

    /// The shape of a map.
    pub(super) fn map(&self, map: u32) -> Checked<&'e crate::map::MapShape> {
        self.env.maps.get(map as usize).ok_or(self.refuse(Reason::Map(map)))
    }

    /// An id that no value has.
    pub(super) fn new_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    /// A rejection of this instruction.
    pub(super) fn refuse(&self, reason: Reason) -> Rejection {
        Rejection::new(self.pc, reason)
    }

    /// A rejection of what this instruction does with a register.
    pub(super) fn refuse_reg(&self, reg: Reg, reason: Reason) -> Rejection {
        let known = self.state.register(reg).known();
        Rejection { reg: Some(reg), known, ..self.refuse(reason) }
    }

    /// What a register holds, which must be something.
    pub(super) fn read(&self, reg: Reg) -> Checked<Value> {
        self.read_ref(reg).copied()
    }

    /// As [`Walk::read`], where it lies.
    pub(super) fn read_ref(&self, reg: Reg) -> Checked<&Value> {
        let value = self.state.register(reg);
        if value.kind == Kind::Nothing {
            return Err(self.refuse_reg(reg, Reason::Uninitialised));
        }
        Ok(value)
    }

    /// The number that a register holds.
    pub(super) fn read_number(&self, reg: Reg) -> Checked<Scalar> {
        let value = self.read(reg)?;
        if value.is_number() { Ok(value.number) } else { Err(self.refuse_reg(reg, Reason::NeedsNumber)) }
    }

    /// The second operand.
    pub(super) fn operand(&self, src: Operand) -> Checked<Value> {
        match src {
            Operand::Reg(reg) => self.read(reg),
            Operand::Imm(imm) => Ok(Value::number(Scalar::constant(i64::from(imm) as u64))),
        }
    }

    /// Writes a register, which must not be `r10`.
    pub(super) fn write(&mut self, reg: Reg, value: Value) -> Checked {
        if reg == Reg::R10 {
            return Err(self.refuse_reg(reg, Reason::FramePointer));
        }
        self.state.set(reg, value);
        Ok(())
    }
}
