//! Reads and writes of memory.

use super::arithmetic::alu;
use super::rejection::Reason;
use super::scalar::Scalar;
use super::value::{Kind, Value};
use super::walk::{Checked, Walk};
use crate::environment::{Entry, Word};
use crate::insn::Reg;
use crate::op::{AluOp, AtomicOp, Operand, Size, Width};

/// What is done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Walk<'_, '_> {
    pub(super) fn load(&mut self, src: Reg, off: i16, size: Size, signed: bool) -> Checked<Value> {
        let pointer = self.read(src)?;
        let bits = size.bytes() as u32 * 8;
        let any = if signed { Scalar::sign_extended(bits) } else { Scalar::zero_extended(bits) };
        match pointer.kind {
            Kind::Context => self.load_context(src, &pointer, off, size, signed),
            Kind::Stack => {
                let mut value = self.read_stack(src, &pointer, off, size.bytes())?;
                if signed {
                    if value.is_pointer() {
                        return Err(self.refuse(Reason::PointerLeak));
                    }
                    value = Value::number(value.number.sign_extend(bits));
                }
                Ok(value)
            }
            _ => {
                self.check_range(src, off.into(), size.bytes() as u64, Access::Read)?;
                Ok(Value::number(any))
            }
        }
    }

    pub(super) fn store(&mut self, dst: Reg, off: i16, size: Size, src: Operand) -> Checked {
        let (pointer, value) = (self.read(dst)?, self.operand(src)?);
        if pointer.kind == Kind::Stack {
            return self.write_stack(dst, &pointer, off, size.bytes(), value, src);
        }
        self.check_range(dst, off.into(), size.bytes() as u64, Access::Write)?;
        match src {
            Operand::Reg(src) if value.is_pointer() => Err(self.refuse_reg(src, Reason::PointerLeak)),
            _ => Ok(()),
        }
    }

    pub(super) fn atomic(&mut self, op: AtomicOp, base: Reg, off: i16, size: Size, reg: Reg) -> Checked {
        let pointer = self.read(base)?;
        if op != AtomicOp::LoadAcquire {
            self.read_number(reg)?;
        }
        if op == AtomicOp::CmpXchg {
            self.read_number(Reg::R0)?;
        }
        let bytes = size.bytes() as u64;
        if !matches!(pointer.kind, Kind::Stack | Kind::Value | Kind::Memory | Kind::Record) {
            let why = if pointer.is_pointer() { Reason::AtomicMemory } else { Reason::NeedsPointer };
            return Err(self.refuse_reg(base, why));
        }
        let at = alu(AluOp::Add, Width::W64, pointer.number, Scalar::constant(i64::from(off) as u64));
        if (at.bits.value | at.bits.mask) & (bytes - 1) != 0 {
            return Err(self.refuse_reg(base, Reason::Unaligned(bytes as u32)));
        }
        let old = Value::number(Scalar::zero_extended(bytes as u32 * 8));
        if pointer.kind == Kind::Stack {
            if op != AtomicOp::StoreRelease {
                let there = self.read_stack(base, &pointer, off, size.bytes())?;
                if there.is_pointer() {
                    return Err(self.refuse_reg(base, Reason::PointerLeak));
                }
            }
            if op != AtomicOp::LoadAcquire {
                self.write_stack(base, &pointer, off, size.bytes(), old, Operand::Imm(0))?;
            }
        } else {
            let access = if op == AtomicOp::LoadAcquire { Access::Read } else { Access::Write };
            self.check_range(base, off.into(), bytes, access)?;
        }
        match op {
            AtomicOp::CmpXchg => self.write(Reg::R0, old),
            AtomicOp::FetchAdd | AtomicOp::FetchOr | AtomicOp::FetchAnd | AtomicOp::FetchXor => {
                self.write(reg, old)
            }
            AtomicOp::Xchg | AtomicOp::LoadAcquire => self.write(reg, old),
            AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor | AtomicOp::StoreRelease => Ok(()),
        }
    }

    /// A word of the context, or a part of one that is a number.
    fn load_context(
        &mut self,
        src: Reg,
        pointer: &Value,
        off: i16,
        size: Size,
        signed: bool,
    ) -> Checked<Value> {
        let words = self.env.entry.words();
        let Some(start) = pointer.number.as_constant() else {
            return Err(self.refuse_reg(src, Reason::ContextOffset));
        };
        let at = (start as i64).wrapping_add(off.into());
        let (index, inside) = (at.div_euclid(8), at.rem_euclid(8) as usize);
        let word = usize::try_from(index).ok().and_then(|index| words.get(index));
        let Some(word) = word.filter(|_| inside + size.bytes() <= 8) else {
            return Err(self.refuse_reg(src, Reason::ContextWord));
        };
        let index = index as u32;
        let whole = size == Size::DW;
        Ok(match *word {
            Word::Number { bits, signed: extended } => {
                Value::number(number_word(bits, extended, inside, size, signed))
            }
            Word::Start if whole => Value::pointer(Kind::Start, index),
            // An end without a start belongs to no range.
            Word::End if whole && starts_before(words, index) => Value::pointer(Kind::End, index - 1),
            Word::Bytes(_) if whole => Value::pointer(Kind::Bytes, index),
            _ => return Err(self.refuse_reg(src, Reason::ContextWord)),
        })
    }

    /// Bytes `off..off + size` from a pointer that is not into the stack may be accessed so.
    pub(super) fn check_range(&mut self, reg: Reg, off: i64, size: u64, access: Access) -> Checked {
        let pointer = self.read(reg)?;
        let refuse = |why| Err(self.refuse_reg(reg, why));
        if pointer.or_null {
            return refuse(Reason::MayBeNull);
        }
        let (have, read_only) = match pointer.kind {
            Kind::Nothing | Kind::Number => return refuse(Reason::NeedsPointer),
            Kind::Context => {
                return refuse(if access == Access::Read { Reason::ContextWord } else { Reason::ReadOnly });
            }
            Kind::Map | Kind::Stack => return refuse(Reason::NoMemory),
            Kind::Value => {
                let shape = self.map(pointer.object)?;
                (shape.value_bytes, shape.read_only)
            }
            Kind::Memory => match self.env.entry {
                Entry::Memory { len } => (len, false),
                Entry::Traced { state, .. } => (state, true),
                Entry::Context(_) => (0, true),
            },
            Kind::Record => (pointer.object, false),
            Kind::Bytes | Kind::Start | Kind::End => (self.bytes_of(pointer.object), true),
        };
        if read_only && access != Access::Read {
            return refuse(Reason::ReadOnly);
        }
        let at = alu(AluOp::Add, Width::W64, pointer.number, Scalar::constant(off as u64)).wide;
        let end = i128::from(at.smax) + i128::from(size);
        let outside = Reason::Outside { min: at.smin, max: end.min(i64::MAX.into()) as i64, have };
        match pointer.kind {
            Kind::Start => {
                let need = i64::from(pointer.since) + off + size as i64;
                if at.smin < 0 {
                    return refuse(outside);
                }
                if pointer.range < 0 || need > pointer.range.into() {
                    return refuse(Reason::NotCompared { need, have: pointer.range.into() });
                }
            }
            Kind::End => {
                if end > 0 {
                    return refuse(Reason::Outside {
                        min: at.smin,
                        max: end as i64,
                        have: pointer.range as u32,
                    });
                }
                if at.smin < -i64::from(pointer.range) {
                    return refuse(Reason::NotCompared { need: -at.smin, have: pointer.range.into() });
                }
            }
            _ if at.smin < 0 || end > have.into() => return refuse(outside),
            _ => {}
        }
        match pointer.kind {
            Kind::Bytes | Kind::Start | Kind::End => self.reads_outside(reg),
            _ => Ok(()),
        }
    }

    /// What the context points to is read. Such a read can fault, which ends the program: nothing may be held then.
    pub(super) fn reads_outside(&mut self, reg: Reg) -> Checked {
        self.facts.reads_outside = true;
        if self.state.record_count > 0 {
            return Err(self.refuse_reg(reg, Reason::FaultWithRecord));
        }
        Ok(())
    }

    /// Bytes of a `Bytes` word.
    fn bytes_of(&self, word: u32) -> u32 {
        match self.env.entry.words().get(word as usize) {
            Some(Word::Bytes(bytes)) => *bytes,
            _ => 0,
        }
    }
}

/// What is known of a part of a number of the context.
fn number_word(bits: u8, extended: bool, inside: usize, size: Size, signed: bool) -> Scalar {
    let word = match (bits, extended) {
        (1..64, true) => Scalar::sign_extended(bits.into()),
        (1..64, false) => Scalar::zero_extended(bits.into()),
        _ => Scalar::UNKNOWN,
    };
    let shifted = match inside {
        0 => word,
        _ => alu(AluOp::Rsh, Width::W64, word, Scalar::constant(inside as u64 * 8)),
    };
    let part = shifted.truncated(size.bytes() as u32 * 8);
    if signed { part.sign_extend(size.bytes() as u32 * 8) } else { part }
}

/// Whether the word before this one is a `Start`.
fn starts_before(words: &[Word], index: u32) -> bool {
    let before = (index as usize).checked_sub(1).and_then(|before| words.get(before));
    before == Some(&Word::Start)
}
