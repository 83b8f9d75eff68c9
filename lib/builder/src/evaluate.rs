//! Working expressions out: in the register where the result is wanted, with as few others as there can be.

use crate::builder::{Builder, changed_by};
use crate::error::{BuildError, Label};
use crate::expr::{Expr, Node, Test};
use crate::place::Memory;
use crate::registers::{Id, SCRATCH_BITS, Value};
use crate::slots::Item;
use mote_bpf::Reg;
use mote_bpf::op::{AluOp, Cond, Op, Operand, Order, Size, Width};

/// Where a load or a store goes: a register, an offset, and what keeps the register.
pub(crate) struct Resolved {
    pub(crate) reg: Reg,
    pub(crate) off: i16,
    pub(crate) size: Size,
    _held: Option<Value>,
}

fn is_scratch(reg: Reg) -> bool {
    reg.index() <= Reg::R5.index()
}

impl Builder {
    /// Keeps an error, the first one.
    pub(crate) fn try_or<T>(&mut self, done: Result<T, BuildError>) -> Option<T> {
        done.map_err(|error| self.fail(error)).ok()
    }

    /// Appends an instruction of a value: what it changes is known already.
    pub(crate) fn write(&mut self, op: Op) {
        if self.registers.here.is_none() {
            self.fail(BuildError::Unreachable { at: self.registers.at });
        }
        self.changed |= match op {
            Op::Call { .. } => SCRATCH_BITS,
            _ => changed_by(&op).map_or(0, |reg| 1 << reg.index()),
        };
        self.items.push(Item::Plain(op));
    }

    fn write_alu(&mut self, width: Width, op: AluOp, dst: Reg, src: Operand) {
        self.write(Op::Alu { width, op, dst, src });
    }

    fn move_to(&mut self, dst: Reg, src: Reg) {
        if dst != src {
            self.write_alu(Width::W64, AluOp::Mov, dst, Operand::Reg(src));
        }
    }

    /// A value in a register of its own that was not written yet.
    pub(crate) fn unset(&mut self, saved: bool) -> Value {
        let taken = self.registers.take(saved, false);
        self.value_or_r0(taken)
    }

    /// A value that does not survive calls, and is written later.
    pub(crate) fn unset_scratch(&mut self) -> Value {
        let taken = self.registers.take(false, true);
        self.value_or_r0(taken)
    }

    fn value_or_r0(&mut self, taken: Result<Value, BuildError>) -> Value {
        match taken {
            Ok(value) => value,
            Err(error) => {
                self.fail(error);
                self.registers.own(Reg::R0)
            }
        }
    }

    /// Works the expression out; in the register of what it gives up, if there is such a one of the right kind.
    pub(crate) fn value_of(&mut self, mut expr: Expr, saved: bool) -> Value {
        let given = expr.give_up(|reg| is_scratch(reg) != saved);
        if let Some(value) = &given {
            self.verify(value.reg, value.id);
        }
        let value = given.unwrap_or_else(|| self.unset(saved));
        self.work_out(expr, value.reg);
        self.written(&value);
        value
    }

    pub(crate) fn written(&mut self, value: &Value) {
        let done = self.registers.set(value.reg, value.id);
        self.try_or(done);
    }

    fn verify(&mut self, reg: Reg, id: Id) {
        let checked = self.registers.check(reg, id);
        self.try_or(checked);
    }

    /// Works the expression out into `dst`, which belongs to the caller.
    pub(crate) fn work_out(&mut self, expr: Expr, dst: Reg) {
        match expr.0 {
            Node::Number(number) => self.write_constant(dst, number as u64),
            Node::Register(reg, id) => {
                self.verify(reg, id);
                self.move_to(dst, reg);
            }
            Node::Owned(value) => {
                self.verify(value.reg, value.id);
                self.move_to(dst, value.reg);
            }
            Node::Wide(value) => self.write(Op::Wide { dst, value }),
            Node::Frame(offset) => {
                self.move_to(dst, Reg::R10);
                if offset != 0 {
                    self.write_alu(Width::W64, AluOp::Add, dst, Operand::Imm(offset));
                }
            }
            Node::Load(memory) => self.load_from(*memory, dst),
            Node::Binary(width, op, left, right) => self.work_out_both(width, op, *left, *right, dst),
            Node::Negated(value) => {
                self.work_out(*value, dst);
                self.write(Op::Neg { width: Width::W64, dst });
            }
            Node::Extended { value, bits, signed } => {
                self.work_out(*value, dst);
                self.extend(dst, bits, signed);
            }
            Node::BigEndian { value, bits } => {
                self.work_out(*value, dst);
                self.write(Op::End { order: Order::Big, bits, dst });
            }
        }
    }

    fn write_constant(&mut self, dst: Reg, value: u64) {
        let op = Builder::constant_op(dst, value);
        self.write(op);
    }

    fn extend(&mut self, dst: Reg, bits: u8, signed: bool) {
        if bits == 32 && !signed {
            return self.write_alu(Width::W32, AluOp::Mov, dst, Operand::Reg(dst));
        }
        let shift = Operand::Imm(64 - i32::from(bits));
        self.write_alu(Width::W64, AluOp::Lsh, dst, shift);
        self.write_alu(Width::W64, if signed { AluOp::Arsh } else { AluOp::Rsh }, dst, shift);
    }

    fn work_out_both(&mut self, width: Width, op: AluOp, left: Expr, right: Expr, dst: Reg) {
        if right.immediate().is_none() && right.reads() & 1 << dst.index() != 0 {
            // The left side is about to overwrite what the right one reads.
            let right = self.copy_of(right);
            self.work_out(left, dst);
            return self.write_alu(width, op, dst, Operand::Reg(right.reg));
        }
        self.work_out(left, dst);
        let (operand, _held) = self.operand(right);
        self.write_alu(width, op, dst, operand);
    }

    pub(crate) fn copy_of(&mut self, expr: Expr) -> Value {
        let value = self.unset(false);
        self.work_out(expr, value.reg);
        self.written(&value);
        value
    }

    /// An expression as an operand; and what keeps its register, if it has one of its own.
    pub(crate) fn operand(&mut self, expr: Expr) -> (Operand, Option<Value>) {
        if let Some(number) = expr.immediate() {
            return (Operand::Imm(number), None);
        }
        let (reg, held) = self.in_register(expr);
        (Operand::Reg(reg), held)
    }

    /// The register that holds the expression; without a move, if it is a value already.
    pub(crate) fn in_register(&mut self, expr: Expr) -> (Reg, Option<Value>) {
        match expr.0 {
            Node::Register(reg, id) => {
                self.verify(reg, id);
                (reg, None)
            }
            Node::Owned(value) => {
                self.verify(value.reg, value.id);
                (value.reg, Some(value))
            }
            Node::Frame(0) => (Reg::R10, None),
            node => {
                let value = self.value_of(Expr(node), false);
                (value.reg, Some(value))
            }
        }
    }

    /// The address of memory as an instruction has it.
    pub(crate) fn resolve(&mut self, memory: Memory) -> Resolved {
        let Memory { base, offset, size, .. } = memory;
        match i16::try_from(offset) {
            Ok(off) => {
                let (reg, held) = self.in_register(base);
                Resolved { reg, off, size, _held: held }
            }
            Err(_) => {
                let value = self.value_of(base + offset, false);
                Resolved { reg: value.reg, off: 0, size, _held: Some(value) }
            }
        }
    }

    fn load_from(&mut self, memory: Memory, dst: Reg) {
        let Memory { base, offset, size, .. } = memory;
        let load = |src, off| Op::Load { dst, src, off, size, signed: false };
        let (base, off) = match i16::try_from(offset) {
            Ok(off) => (base, off),
            Err(_) => (base + offset, 0),
        };
        let src = match base.0 {
            Node::Register(..) | Node::Owned(_) | Node::Frame(0) => self.in_register(base).0,
            _ => {
                self.work_out(base, dst);
                dst
            }
        };
        self.write(load(src, off));
    }

    /// Goes to `to` if the test's outcome is `wanted`, else on.
    pub(crate) fn decide(&mut self, test: Test, to: Label, wanted: bool) {
        match test {
            Test::Compare { width, cond, left, right } => {
                let (left, _kept) = self.in_register(left);
                let (right, _held) = self.operand(right);
                self.branch_on(width, cond, left, right, to, wanted);
            }
            Test::Not(test) => self.decide(*test, to, !wanted),
            // Of both, one that does not hold decides; of either, one that holds.
            Test::Both(a, b) if wanted => self.decide_by_both(*a, *b, to, false),
            Test::Either(a, b) if !wanted => self.decide_by_both(*a, *b, to, true),
            Test::Both(a, b) | Test::Either(a, b) => {
                self.decide(*a, to, wanted);
                self.decide(*b, to, wanted);
            }
        }
    }

    /// Goes to `to` if both have the outcome that is not `past`.
    fn decide_by_both(&mut self, a: Test, b: Test, to: Label, past: bool) {
        let on = self.label();
        self.decide(a, on, past);
        self.decide(b, to, !past);
        self.bind(on);
    }

    fn branch_on(&mut self, width: Width, cond: Cond, left: Reg, right: Operand, to: Label, wanted: bool) {
        if self.registers.here.is_none() {
            self.fail(BuildError::Unreachable { at: self.registers.at });
        }
        let cond = if wanted { Some(cond) } else { crate::slots::negated(cond) };
        if let Some(cond) = cond {
            self.arrive(to);
            self.items.push(Item::Branch { width, cond, dst: left, src: right, to });
        }
    }
}
