//! Reads and writes of the stack: which bytes were written, and what was spilled whole.

use super::access::Access;
use super::rejection::Reason;
use super::scalar::Scalar;
use super::state::{Byte, SLOTS, Slot};
use super::value::{Kind, Value};
use super::walk::{Checked, Walk};
use crate::environment::STACK_BYTES;
use crate::insn::Reg;
use crate::op::Operand;

/// Bytes of a frame's stack, counted from its low end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    frame: usize,
    /// Where it begins at the earliest.
    start: usize,
    /// Where it ends at the latest.
    end: usize,
    /// Whether it can begin at one place only.
    fixed: bool,
}

impl Span {
    fn slots(self) -> impl Iterator<Item = usize> {
        self.start / 8..self.end.div_ceil(8)
    }

    /// Its slots, one bit each.
    fn mask(self) -> u64 {
        self.slots().fold(0, |mask, slot| mask | 1 << slot)
    }

    /// Its part of a slot: from which byte, to which.
    fn part(self, slot: usize) -> (usize, usize) {
        let clip = |at: usize| at.saturating_sub(slot * 8).min(8);
        (clip(self.start), clip(self.end))
    }
}

impl Walk<'_, '_> {
    /// The bytes `off..off + size` from a pointer into a stack, which must lie in it. `size` is at most the stack's.
    pub(super) fn span(&mut self, reg: Reg, pointer: &Value, off: i64, size: usize) -> Checked<Span> {
        let wide = pointer.number.wide;
        let (min, max) = (i128::from(wide.smin) + i128::from(off), i128::from(wide.smax) + i128::from(off));
        let (bottom, end) = (-(STACK_BYTES as i128), max + size as i128);
        if min < bottom || end > 0 {
            let (min, max) = (min.max(i64::MIN.into()) as i64, end.min(i64::MAX.into()) as i64);
            return Err(self.refuse_reg(reg, Reason::Outside { min, max, have: STACK_BYTES as u32 }));
        }
        self.state.work += size.div_ceil(8) as u64;
        let frame = pointer.object as usize;
        let function = self.state.frames[frame].function as usize;
        let stack = &mut self.functions.all[function].stack;
        *stack = (*stack).max((-min) as u16).next_multiple_of(8);
        Ok(Span {
            frame,
            start: (min - bottom) as usize,
            end: (end - bottom) as usize,
            fixed: wide.smin == wide.smax,
        })
    }

    pub(super) fn read_stack(&mut self, reg: Reg, pointer: &Value, off: i16, size: usize) -> Checked<Value> {
        let span = self.span(reg, pointer, off.into(), size)?;
        self.visited.read(self.state, span.frame, span.mask());
        if span.fixed && span.start / 8 == (span.end - 1) / 8 {
            let slot = self.state.frames[span.frame].slot(span.start / 8);
            let (from, to) = span.part(span.start / 8);
            if let Some(value) = spilled(&slot, from, to) {
                return Ok(value);
            }
        }
        self.check_bytes(reg, span)?;
        let zero = span.slots().all(|slot| {
            let (from, to) = span.part(slot);
            self.state.frames[span.frame].slot(slot).part(from, to).iter().all(|byte| *byte == Byte::Zero)
        });
        let number = if zero { Scalar::constant(0) } else { Scalar::zero_extended(size as u32 * 8) };
        Ok(Value::number(number))
    }

    /// All bytes of a span were written, and are not of a pointer.
    fn check_bytes(&self, reg: Reg, span: Span) -> Checked {
        for index in span.slots() {
            let (from, to) = span.part(index);
            let slot = self.state.frames[span.frame].slot(index);
            if let Some(at) = slot.part(from, to).iter().position(|byte| *byte == Byte::Nothing) {
                let offset = (index * 8 + from + at) as i64 - STACK_BYTES as i64;
                return Err(self.refuse_reg(reg, Reason::StackUninitialised(offset)));
            }
            if slot.has_pointer() {
                return Err(self.refuse_reg(reg, Reason::PointerLeak));
            }
        }
        Ok(())
    }

    pub(super) fn write_stack(
        &mut self,
        reg: Reg,
        pointer: &Value,
        off: i16,
        size: usize,
        mut value: Value,
        src: Operand,
    ) -> Checked {
        let span = self.span(reg, pointer, off.into(), size)?;
        let aligned = span.fixed && span.start.is_multiple_of(8);
        if value.is_pointer() {
            let why = match value.kind {
                _ if !aligned || size != 8 => Some(Reason::PointerLeak),
                Kind::Stack if value.object as usize > span.frame => Some(Reason::StackEscapes),
                _ => None,
            };
            if let (Some(why), Operand::Reg(src)) = (why, src) {
                return Err(self.refuse_reg(src, why));
            }
        } else if aligned && size == 8 && value.number.as_constant().is_none() {
            self.link_spilled(&mut value, src);
        }
        if !aligned {
            self.scribble(span, if value.number.as_constant() == Some(0) { Byte::Zero } else { Byte::Any });
            return Ok(());
        }
        if size < 8 {
            value = Value::number(value.number.truncated(size as u32 * 8));
        }
        let frame = &mut self.state.frames[span.frame];
        let slot = frame.slot_mut(span.start / 8);
        slot.break_up();
        slot.part_mut(0, size).fill(Byte::Part);
        slot.value = value;
        if size == 8 {
            frame.written |= 1 << (span.start / 8);
        }
        Ok(())
    }

    /// A number that is spilled whole gets an id, as a copy does.
    fn link_spilled(&mut self, value: &mut Value, src: Operand) {
        if value.id == 0
            && let Operand::Reg(src) = src
        {
            value.id = self.new_id();
            self.state.set(src, *value);
        }
    }

    /// Numbers are written somewhere in a span: everywhere, if its place is fixed.
    fn scribble(&mut self, span: Span, what: Byte) {
        let frame = &mut self.state.frames[span.frame];
        for index in span.slots() {
            let (from, to) = span.part(index);
            if frame.used >> index & 1 == 0 && !span.fixed {
                continue;
            }
            let slot = frame.slot_mut(index);
            slot.break_up();
            for byte in slot.part_mut(from, to) {
                let keeps = *byte == Byte::Nothing || *byte == what;
                *byte = match (span.fixed, keeps) {
                    (true, _) => what,
                    (false, true) => *byte,
                    (false, false) => Byte::Any,
                };
            }
            if span.fixed && to - from == 8 {
                frame.written |= 1 << index;
            }
        }
    }

    /// A helper reads `size` bytes, or writes them: at least `least` of them, if it writes.
    pub(super) fn span_of_helper(
        &mut self,
        reg: Reg,
        pointer: &Value,
        least: usize,
        size: usize,
        access: Access,
    ) -> Checked {
        let whole = self.span(reg, pointer, 0, size)?;
        if access == Access::Read {
            self.visited.read(self.state, whole.frame, whole.mask());
            return self.check_bytes(reg, whole);
        }
        self.scribble(Span { fixed: false, ..whole }, Byte::Any);
        if whole.fixed && least > 0 {
            self.scribble(Span { end: whole.start + least, ..whole }, Byte::Any);
        }
        Ok(())
    }
}

/// What was spilled, if these bytes of the slot are its low ones.
fn spilled(slot: &Slot, from: usize, to: usize) -> Option<Value> {
    let parts = slot.bytes.iter().take_while(|byte| **byte == Byte::Part).count();
    if parts == 0 || from != 0 || (slot.value.is_pointer() && to != 8) {
        return None;
    }
    let zeros = slot.part(parts.min(to), to).iter().all(|byte| *byte == Byte::Zero);
    match to {
        8 if parts == 8 => Some(slot.value),
        _ if to <= parts => Some(Value::number(slot.value.number.truncated(to as u32 * 8))),
        _ if zeros => Some(Value::number(slot.value.number)),
        _ => None,
    }
}
const _: () = assert!(SLOTS == 64);
