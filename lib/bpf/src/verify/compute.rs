//! Arithmetic on what registers hold: numbers, and pointers plus numbers.

use super::arithmetic;
use super::rejection::Reason;
use super::scalar::Scalar;
use super::value::{Kind, Value};
use super::walk::{Checked, Walk};
use crate::insn::Reg;
use crate::op::{AluOp, Operand, Order, Width};

/// Most that pointers into texts and sequences are moved by, so that no sum wraps.
const MOVE_MAX: i64 = 1 << 29;

impl Walk<'_, '_> {
    pub(super) fn alu(&mut self, width: Width, op: AluOp, dst: Reg, src: Operand) -> Checked {
        let b = self.operand(src)?;
        let moves = matches!(op, AluOp::Mov | AluOp::MovSx8 | AluOp::MovSx16 | AluOp::MovSx32);
        let result = match (moves, src) {
            (true, Operand::Reg(reg)) => self.copy(width, op, reg, b)?,
            (true, Operand::Imm(_)) => Value::number(arithmetic::alu(op, width, b.number, b.number)),
            (false, _) => {
                let a = self.read(dst)?;
                if a.is_number() && b.is_number() {
                    Value::number(arithmetic::alu(op, width, a.number, b.number))
                } else {
                    self.pointer_alu(width, op, dst, src, a, b)?
                }
            }
        };
        self.write(dst, result)
    }

    /// A copy of a register. Copies of a number get the same id, so that what is learnt of one is learnt of both.
    fn copy(&mut self, width: Width, op: AluOp, src: Reg, mut value: Value) -> Checked<Value> {
        let whole = op == AluOp::Mov && width == Width::W64;
        if value.is_pointer() {
            return if whole { Ok(value) } else { Err(self.refuse_reg(src, Reason::PointerLeak)) };
        }
        let unchanged = match op {
            AluOp::Mov => whole || value.number.wide.umax <= u32::MAX.into(),
            _ => width == Width::W64 && fits(op, &value.number),
        };
        if !unchanged {
            return Ok(Value::number(arithmetic::alu(op, width, value.number, value.number)));
        }
        if value.id == 0 && value.number.as_constant().is_none() {
            value.id = self.new_id();
            self.state.set(src, value);
        }
        Ok(value)
    }

    pub(super) fn negate(&mut self, width: Width, dst: Reg) -> Checked {
        let number = self.read_number(dst)?;
        self.write(dst, Value::number(arithmetic::negate(width, number)))
    }

    pub(super) fn turn_round(&mut self, order: Order, bits: u8, dst: Reg) -> Checked {
        let number = self.read_number(dst)?;
        self.write(dst, Value::number(arithmetic::turn_round(order, bits.into(), number)))
    }

    fn pointer_alu(
        &mut self,
        width: Width,
        op: AluOp,
        dst: Reg,
        src: Operand,
        a: Value,
        b: Value,
    ) -> Checked<Value> {
        let other = match src {
            Operand::Reg(reg) => reg,
            Operand::Imm(_) => dst,
        };
        let (pointer, number, by) = match (op, a.is_pointer(), b.is_pointer()) {
            (AluOp::Add | AluOp::Sub, true, false) => (a, b, other),
            (AluOp::Add, false, true) => (b, a, dst),
            (AluOp::Sub, true, true) if width == Width::W64 => {
                return distance(&a, &b).ok_or(self.refuse_reg(dst, Reason::PointerArithmetic));
            }
            (_, true, _) => return Err(self.refuse_reg(dst, Reason::PointerArithmetic)),
            _ => return Err(self.refuse_reg(other, Reason::PointerArithmetic)),
        };
        let pointer_reg = if a.is_pointer() { dst } else { other };
        if width == Width::W32 || pointer.kind == Kind::Map || pointer.or_null {
            let why = if pointer.or_null { Reason::MayBeNull } else { Reason::PointerArithmetic };
            return Err(self.refuse_reg(pointer_reg, why));
        }
        let moved = Value { number: arithmetic::alu(op, width, pointer.number, number.number), ..pointer };
        match pointer.kind {
            Kind::Context if moved.number.as_constant().is_none() => {
                Err(self.refuse_reg(by, Reason::ContextOffset))
            }
            Kind::End => match small(&moved.number) {
                Some(_) => Ok(moved),
                None => Err(self.refuse_reg(by, Reason::PointerUnbounded)),
            },
            Kind::Start => {
                let step =
                    if op == AluOp::Sub { arithmetic::negate(width, number.number) } else { number.number };
                self.move_in_text(moved, step).ok_or(self.refuse_reg(by, Reason::PointerUnbounded))
            }
            _ => Ok(moved),
        }
    }

    /// A pointer into a text after a step; by an unknown one it gets a base of its own.
    fn move_in_text(&mut self, mut moved: Value, step: Scalar) -> Option<Value> {
        if let Some(step) = small(&step) {
            let since = i64::from(moved.since) + step;
            moved.since = since as i32;
            return (since.abs() <= MOVE_MAX).then_some(moved);
        }
        let distance = moved.number.wide;
        if step.wide.smin < 0 || step.wide.smax > MOVE_MAX || distance.smin < 0 || distance.smax > MOVE_MAX {
            return None;
        }
        (moved.id, moved.since, moved.range) = (self.new_id(), 0, -1);
        Some(moved)
    }
}

/// Whether extending the sign changes nothing.
fn fits(op: AluOp, number: &Scalar) -> bool {
    let bits = match op {
        AluOp::MovSx8 => 8,
        AluOp::MovSx16 => 16,
        _ => 32,
    };
    number.wide.smin >= i64::MIN >> (64 - bits) && number.wide.smax <= i64::MAX >> (64 - bits)
}

/// The number, if it is one that pointers are moved by.
fn small(number: &Scalar) -> Option<i64> {
    let number = number.as_constant()? as i64;
    (-MOVE_MAX..=MOVE_MAX).contains(&number).then_some(number)
}

/// `a - b`, of pointers into the same thing.
fn distance(a: &Value, b: &Value) -> Option<Value> {
    if a.object != b.object || a.or_null || b.or_null {
        return None;
    }
    match (a.kind, b.kind) {
        (Kind::Start, Kind::Start) | (Kind::End, Kind::End) | (Kind::Stack, Kind::Stack) => {
            Some(Value::number(arithmetic::alu(AluOp::Sub, Width::W64, a.number, b.number)))
        }
        (Kind::End, Kind::Start) => Some(length(a, b)),
        _ => None,
    }
}

/// What lies between a place in a text and its end. If the place is known to lie in it, no less than nothing.
fn length(end: &Value, start: &Value) -> Value {
    if end.number.as_constant() != Some(0) || start.since < 0 || start.range < start.since {
        return Value::number(Scalar::UNKNOWN);
    }
    if start.id != 0 {
        return Value::number(Scalar::between((start.range - start.since) as u64, i64::MAX as u64));
    }
    let known = i64::from(start.range.max(end.range)) - i64::from(start.since);
    let number = Scalar::between(known as u64, i64::MAX as u64);
    Value { object: start.object + 1, since: start.since, ..Value::number(number) }
}
