//! Numbers: from where an event has them to a value.

use crate::access::Access;
use crate::code::Code;
use crate::threads::Entry;
use crate::{arch, slot};
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Memory, Value, field};
use mote_catalog::event::{Bits, Field, Origin, Step, Timespec, Type};
use mote_layout::types::{Integer, Scalar};
use std::rc::Rc;

/// The scalar that a type is in a record, and whether it has a sign.
pub(crate) fn scalar(ty: &Type) -> Option<(Scalar, bool)> {
    match ty {
        Type::Scalar(scalar)
        | Type::Enumeration(scalar, _)
        | Type::Flags(scalar, _)
        | Type::Labelled(scalar, _) => {
            Some((*scalar, matches!(scalar, Scalar::Integer(Integer { signed: true, .. }))))
        }
        Type::Text | Type::FixedText(_) | Type::Array(..) | Type::Sequence(..) => None,
    }
}

/// An access of so many bytes.
pub(crate) const fn size(bytes: usize) -> Option<Size> {
    match bytes {
        1 => Some(Size::B),
        2 => Some(Size::H),
        4 => Some(Size::W),
        8 => Some(Size::DW),
        _ => None,
    }
}

/// In a second.
const NANOSECONDS: u64 = 1_000_000_000;

impl Code<'_> {
    /// The field's value, extended to 64 bits as its type says: what a filter sees.
    pub(crate) fn word(&mut self, field: &Field) -> Value {
        // Errors show when the field is recorded, with its name; here it is 0.
        let value = self.value(&field.from, &field.ty).unwrap_or_else(|_| self.get(0));
        match scalar(&field.ty) {
            None | Some((Scalar::F32, _)) => value,
            Some((Scalar::Bool, _)) => self.boolean(value),
            Some((scalar, signed)) => self.extend(value, scalar.bytes(), signed),
        }
    }

    /// 0 or 1, by the lowest byte: what is above it in a register is undefined.
    pub(crate) fn boolean(&mut self, value: Value) -> Value {
        let value = self.get(value & 0xff);
        self.when(value.ne(0), |code| code.set(&value, 1));
        value
    }

    /// Extends the low bytes.
    fn extend(&mut self, value: Value, bytes: usize, signed: bool) -> Value {
        self.get(Expr::from(value).extended(8 * bytes as u8, signed))
    }

    /// The value that an event has there; of its bits as many are meant as the type has.
    pub(crate) fn value(&mut self, from: &Origin, ty: &Type) -> Result<Value, &'static str> {
        let (scalar, signed) = scalar(ty).ok_or("it is not a number")?;
        match from {
            Origin::Record(offset) => self.record_word(*offset, size(scalar.bytes()).ok_or("odd size")?),
            Origin::Argument(index) => self.argument(*index),
            Origin::Address(index) => self.address(*index),
            Origin::Member { argument, path, bytes } => {
                let size = size(usize::from(*bytes)).ok_or("its member is not a number")?;
                let value = self.member(*argument, path, size)?;
                let extends = signed && usize::from(*bytes) < scalar.bytes();
                Ok(if extends { self.extend(value, usize::from(*bytes), true) } else { value })
            }
            Origin::UserTime(time) => self.user_time(*time),
            Origin::Socket(socket, part) => self.socket_number(*socket, *part),
            Origin::Result => self.result(),
            Origin::Duration => Ok(self.duration()),
            Origin::Tid => Ok(self.recorder_tid()),
            Origin::TaskId { argument, path, process } => self.task_id(*argument, path, *process),
            Origin::Operand(operand) => Ok(self.operand(operand)),
            Origin::Made { from, steps }
                if self.plan.namespace.is_none() && steps[..] == [Step::RecorderTid] =>
            {
                self.value(from, ty)
            }
            Origin::Made { from, steps } => {
                let wide = Type::Scalar(if signed { Scalar::signed(64) } else { Scalar::unsigned(64) });
                let mut value = match &**from {
                    // A record's word has the size of the field.
                    Origin::Record(_) => {
                        let value = self.value(from, ty)?;
                        self.extend(value, scalar.bytes(), signed)
                    }
                    _ => self.value(from, &wide)?,
                };
                for step in steps {
                    value = self.step(step, value)?;
                }
                Ok(value)
            }
            _ => Err("it is not a number there"),
        }
    }

    /// What lies at an address in the kernel's memory: by a plain load where that is possible, else by a call, and then
    /// it is to be taken from its slot before the next one.
    pub(crate) fn load(&mut self, size: Size, base: impl Into<Expr>, offset: u32) -> Expr {
        match self.access {
            Access::Typed | Access::TypedCall => Memory::new(base, offset as i32, size).into(),
            _ => self.peek(helper::PROBE_READ_KERNEL, size, base.into() + offset),
        }
    }

    /// What lies at an address, or 0 when nothing does: in its slot.
    pub(crate) fn peek(&mut self, helper: u32, size: Size, address: impl Into<Expr>) -> Expr {
        self.put(slot::VALUE, 0);
        drop(self.invoke(helper, (slot::VALUE.address(), size.bytes(), address)));
        slot::VALUE.into()
    }

    pub(crate) fn argument(&mut self, index: u8) -> Result<Value, &'static str> {
        let word = match self.access {
            Access::Typed | Access::Raw | Access::Function => {
                self.of_context(i32::from(index) * 8, Size::DW).into()
            }
            Access::TypedCall | Access::RawCall => {
                let offset =
                    arch::CALL_ARGUMENTS.get(usize::from(index)).ok_or("system calls have 6 arguments")?;
                self.load(Size::DW, self.context(), *offset as u32)
            }
            Access::Record => return Err("a trace event has no arguments"),
            Access::Probe => return Err("a probe's arguments are operands"),
        };
        Ok(self.get(word))
    }

    /// An argument as a number.
    fn address(&mut self, index: u8) -> Result<Value, &'static str> {
        if self.access != Access::Function {
            return Err("its arguments are not words of a function");
        }
        let word = self.peek(helper::PROBE_READ_KERNEL, Size::DW, self.context() + u32::from(index) * 8);
        Ok(self.get(word))
    }

    /// The address that the offsets lead to, or 0, and an offset from it: all offsets but the last are of pointers,
    /// which are followed; the last is to be added.
    pub(crate) fn walk(&mut self, argument: u8, path: &[u32]) -> Result<(Value, u32), &'static str> {
        let (last, hops) = path.split_last().ok_or("its path is empty")?;
        let address = self.argument(argument)?;
        for offset in hops {
            self.follow(&address, *offset, Size::DW);
        }
        Ok((address, *last))
    }

    /// An address becomes what lies so many bytes behind it; 0 stays 0.
    pub(crate) fn follow(&mut self, address: &Value, offset: u32, size: Size) {
        self.when(address.ne(0), |code| {
            let there = code.load(size, address, offset);
            code.set(address, there);
        });
    }

    pub(crate) fn member(&mut self, argument: u8, path: &[u32], size: Size) -> Result<Value, &'static str> {
        let (address, last) = self.walk(argument, path)?;
        self.follow(&address, last, size);
        Ok(address)
    }

    /// A number in the trace event's record: by a load where it is aligned, which is all that the verifier allows.
    fn record_word(&mut self, offset: u32, size: Size) -> Result<Value, &'static str> {
        if self.access != Access::Record {
            return Err("the event has no record of its own");
        }
        let word = match i16::try_from(offset) {
            Ok(at) if offset.is_multiple_of(size.bytes() as u32) => self.of_context(at.into(), size).into(),
            _ => self.peek(helper::PROBE_READ_KERNEL, size, self.context() + offset),
        };
        Ok(self.get(word))
    }

    fn result(&mut self) -> Result<Value, &'static str> {
        match self.access {
            Access::TypedCall | Access::RawCall => Ok(self.get(slot::RESULT)),
            Access::Probe => Ok(self.get(self.of_context(arch::RETURNED.into(), Size::DW))),
            _ => Err("a tracepoint has no result"),
        }
    }

    /// How long the system call took; 0 when its entry was not seen.
    fn duration(&mut self) -> Value {
        let now = self.time();
        let began = self.get(slot::BEGAN);
        self.when(began.ne(0), |code| {
            code.set(&now, &now - &began);
            code.set(&began, now);
        });
        began
    }

    /// The nanoseconds of a time in the memory of the process; of one that is longer than the numbers reach the
    /// greatest of them, and -1 when there is none or it cannot be read.
    fn user_time(&mut self, time: Timespec) -> Result<Value, &'static str> {
        let [none, fits, end] = std::array::from_fn(|_| self.label());
        if let Some((argument, operations)) = time.when {
            let operation = self.argument(argument)?;
            self.set(&operation, &operation & 127);
            self.jump_if(operation.gt(63), none);
            self.jump_if(((Expr::from(operations) >> operation) & 1).eq(0), none);
        }
        let address = self.argument(time.argument)?;
        let failed = self.invoke(helper::PROBE_READ_USER, (slot::SECOND.address(), 16, address));
        self.jump_if(failed.ne(0), none);
        let nanoseconds = self.get(slot::SECOND);
        self.jump_if(nanoseconds.le(i64::MAX as u64 / NANOSECONDS - 1), fits);
        self.set(&nanoseconds, i64::MAX);
        self.jump(end);
        self.bind(none);
        self.set(&nanoseconds, -1);
        self.jump(end);
        self.bind(fits);
        self.set(&nanoseconds, &nanoseconds * NANOSECONDS + slot::VALUE);
        self.bind(end);
        Ok(nanoseconds)
    }

    /// Takes the time at which the system call began out of the thread's entry, into its slot.
    pub(crate) fn take_began(&mut self) {
        let saved = Rc::clone(&self.saved);
        let began = self.scratch();
        self.either(
            saved.entry.ne(0),
            |code| {
                code.set(&began, saved.entry.at(field!(Entry, syscall_time)));
                code.put(saved.entry.at(field!(Entry, syscall_time)), 0);
            },
            |code| code.set(&began, 0),
        );
        self.put(slot::BEGAN, began);
    }

    fn step(&mut self, step: &Step, value: Value) -> Result<Value, &'static str> {
        match step {
            Step::And(mask) => Ok(self.get(value & *mask)),
            Step::Add(number) => Ok(self.get(value + *number)),
            Step::Shift(bits) => Ok(self.get(value >> *bits)),
            Step::When { argument, equals, value: other } => {
                // In the other slot: the argument may come through the first one.
                self.put(slot::SECOND, value);
                let argument = self.argument(*argument)?;
                let value = self.get(slot::SECOND);
                self.when(argument.eq(*equals), |code| code.set(&value, *other));
                Ok(value)
            }
            Step::Bits(rules) => Ok(self.bits(rules, &value)),
            Step::RecorderTid => Ok(self.recorder_tid_step(value)),
        }
    }

    fn bits(&mut self, rules: &[Bits], value: &Value) -> Value {
        let all = self.get(0);
        for Bits { mask, equals, set } in rules {
            self.when((value & *mask).eq(*equals), |code| code.set(&all, &all | *set));
        }
        all
    }
}
