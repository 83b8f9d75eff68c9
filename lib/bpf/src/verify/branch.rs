//! Branches: which ways are possible, and what each way says of what was compared.

use super::condition::{Fact, fact, refine};
use super::rejection::Reason;
use super::scalar::Scalar;
use super::state::State;
use super::value::{Kind, Value};
use super::walk::{Checked, Walk};
use crate::insn::Reg;
use crate::op::{self, Cond, Op, Operand, Width};

/// What one way says.
#[derive(Clone, Copy)]
enum Way {
    /// No run takes it.
    Impossible,
    /// Of numbers: what both are now known to be.
    Numbers(Scalar, Scalar),
    /// Of what may be null: whether it is.
    Null(bool),
    /// From the base of the pointer into a text on, so many bytes are there.
    Follow(i64),
    /// Nothing.
    Silent,
}

/// A branch.
#[derive(Clone, Copy)]
pub(super) struct Branch {
    pub(super) width: Width,
    pub(super) cond: Cond,
    pub(super) dst: Reg,
    pub(super) src: Operand,
    pub(super) offset: i16,
}

impl Walk<'_, '_> {
    /// Follows a branch. When both ways are possible the state is put aside for the jump, and the next instruction is
    /// next.
    pub(super) fn branch(&mut self, branch: &Branch) -> Checked<usize> {
        let (next, target) = (self.pc + 1, self.target(branch.offset));
        let jumps = self.way(branch, true)?;
        let falls = self.way(branch, false)?;
        match (&jumps, &falls) {
            // What is known contradicts itself only where no run comes.
            (Way::Impossible, Way::Impossible) => {}
            (_, Way::Impossible) => {
                self.learn(branch, &jumps);
                return Ok(target);
            }
            (Way::Impossible, _) => {}
            _ => {
                if !self.visited.postpone(self.pc, self.state, self.slots) {
                    return Err(self.refuse(Reason::Branches));
                }
            }
        }
        self.learn(branch, &falls);
        Ok(next)
    }

    /// Takes the jump of the branch for which the state was put aside.
    pub(super) fn jump(&mut self) -> Checked {
        let insns = self.insns;
        let op = op::decode(insns.get(self.pc..).unwrap_or_default())
            .map_err(|why| self.refuse(Reason::Decode(why)))?;
        if let Op::Branch { width, cond, dst, src, offset } = op {
            let branch = Branch { width, cond, dst, src, offset };
            let jumps = self.way(&branch, true)?;
            self.learn(&branch, &jumps);
            self.pc = self.target(offset);
        }
        Ok(())
    }

    fn target(&self, offset: i16) -> usize {
        (self.pc as i64 + 1 + i64::from(offset)) as usize
    }

    /// What one way says.
    fn way(&self, branch: &Branch, holds: bool) -> Checked<Way> {
        let a = self.read_ref(branch.dst)?;
        let constant;
        let b = match branch.src {
            Operand::Reg(src) => self.read_ref(src)?,
            Operand::Imm(imm) => {
                constant = Value::number(Scalar::constant(i64::from(imm) as u64));
                &constant
            }
        };
        if a.is_number() && b.is_number() {
            return Ok(match refine(branch.cond, holds, branch.width, &a.number, &b.number) {
                Some((left, right)) => Way::Numbers(left, right),
                None => Way::Impossible,
            });
        }
        self.pointers(branch, holds, a, b)
    }

    fn pointers(&self, branch: &Branch, holds: bool, a: &Value, b: &Value) -> Checked<Way> {
        let Branch { width, cond, dst, src, .. } = *branch;
        let reg = match src {
            Operand::Reg(src) if !a.is_pointer() => src,
            _ => dst,
        };
        let refuse = |why| Err(self.refuse_reg(reg, why));
        if width == Width::W32 {
            return refuse(Reason::PointerComparison);
        }
        if a.is_number() || b.is_number() {
            let (pointer, number) = if a.is_pointer() { (a, b) } else { (b, a) };
            return match fact(cond, holds) {
                fact @ (Fact::Equal | Fact::Differ) if number.number.as_constant() == Some(0) => {
                    Ok(null(pointer, fact == Fact::Equal))
                }
                _ => refuse(Reason::PointerComparison),
            };
        }
        if a.or_null || b.or_null {
            return refuse(Reason::MayBeNull);
        }
        match (a.kind, b.kind) {
            _ if a.object != b.object => refuse(Reason::PointerComparison),
            (Kind::Start, Kind::End) => Ok(text(a, b, fact(cond, holds))),
            (Kind::End, Kind::Start) => Ok(text(b, a, fact(cond, holds).turned())),
            (one, other) if one == other => Ok(Way::Silent),
            _ => refuse(Reason::PointerComparison),
        }
    }

    fn learn(&mut self, branch: &Branch, way: &Way) {
        let src = match branch.src {
            Operand::Reg(src) => Some(src),
            Operand::Imm(_) => None,
        };
        // Of a number and a pointer, or a start and an end, the one that it is about.
        let about = |state: &State, is: fn(&Value) -> bool| match src {
            Some(src) if !is(state.register(branch.dst)) => *state.register(src),
            _ => *state.register(branch.dst),
        };
        match way {
            Way::Impossible | Way::Silent => {}
            Way::Numbers(a, b) => {
                self.learn_number(branch.dst, a);
                if let Some(src) = src {
                    self.learn_number(src, b);
                }
            }
            Way::Null(is_null) => {
                let value = about(self.state, Value::is_pointer);
                self.learn_null(&value, *is_null);
            }
            Way::Follow(bytes) => {
                let pointer = about(self.state, |value| value.kind == Kind::Start);
                let base = pointer.number.wide.smin - i64::from(pointer.since);
                self.follow(pointer.object, pointer.id, *bytes, base + bytes);
            }
        }
    }

    /// A register's number, and that of its copies.
    fn learn_number(&mut self, reg: Reg, number: &Scalar) {
        let value = self.state.register_mut(reg);
        value.number = *number;
        let (id, object, since) = (value.id, value.object, value.since);
        if id != 0 {
            self.state.for_each(|other| {
                if other.kind == Kind::Number && other.id == id {
                    other.number = *number;
                }
            });
        }
        if let Some(object) = object.checked_sub(1) {
            let bytes = number.wide.umin.min(i32::MAX as u64) as i64 + i64::from(since);
            self.follow(object, 0, bytes, bytes);
        }
    }

    /// A pointer, and its copies.
    fn learn_null(&mut self, value: &Value, is_null: bool) {
        if value.kind == Kind::Record && is_null {
            self.state.drop_record(value.id);
        }
        let (kind, id) = (value.kind, value.id);
        self.state.for_each(|other| {
            if other.kind == kind && other.id == id && other.or_null {
                if is_null {
                    *other = Value::number(Scalar::constant(0));
                } else {
                    other.or_null = false;
                    // A record keeps its id, by which it is given back.
                    other.id = if kind == Kind::Record { id } else { 0 };
                }
            }
        });
    }

    /// In a text `bytes` follow the base of this id, and it has at least `least`.
    fn follow(&mut self, object: u32, id: u32, bytes: i64, least: i64) {
        let raise = |range: &mut i32, to: i64| *range = i64::from(*range).max(to.min(i32::MAX.into())) as i32;
        self.state.for_each(|other| match other.kind {
            Kind::Start if other.object == object && other.id == id => raise(&mut other.range, bytes),
            Kind::Start if other.object == object && other.id == 0 => raise(&mut other.range, least),
            Kind::End if other.object == object => raise(&mut other.range, least),
            _ => {}
        });
    }
}

/// A pointer was found to be null, or not to be.
fn null(pointer: &Value, is_null: bool) -> Way {
    if pointer.or_null {
        return Way::Null(is_null);
    }
    // What the traced program passed may be null whatever it says; and so may be what was moved by any number.
    let ours = !matches!(pointer.kind, Kind::Start | Kind::End | Kind::Bytes);
    let is_close =
        pointer.number.as_constant().is_some_and(|offset| (-512..1 << 29).contains(&(offset as i64)));
    if ours && is_close && is_null { Way::Impossible } else { Way::Silent }
}

/// `start FACT end`, of pointers into the same text.
fn text(start: &Value, end: &Value, fact: Fact) -> Way {
    let (since, moved) = (i64::from(start.since), end.number.wide.smin);
    // Before the text's start, addresses may wrap: null is a text of no bytes.
    if start.number.wide.smin < 0 || moved < -i64::from(end.range) {
        return Way::Silent;
    }
    // The end is at least so far behind the start.
    let least = if start.range < 0 { i64::MIN } else { i64::from(start.range) + moved - since };
    match fact {
        Fact::Above if least >= 0 => Way::Impossible,
        Fact::AtLeast | Fact::Equal if least >= 1 => Way::Impossible,
        Fact::Below => follow(since + 1 - moved),
        Fact::AtMost | Fact::Equal => follow(since - moved),
        Fact::Differ if least == 0 => follow(since + 1 - moved),
        _ => Way::Silent,
    }
}

fn follow(bytes: i64) -> Way {
    if bytes < 0 { Way::Silent } else { Way::Follow(bytes) }
}
