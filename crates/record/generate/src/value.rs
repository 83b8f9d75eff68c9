//! Numbers: from where an event has them to `r1`.

use crate::access::Access;
use crate::code::Code;
use crate::threads;
use crate::{arch, slot};
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Reg, helper};
use mote_catalog::event::{Bits, Field, Origin, Step, Timespec, Type};
use mote_layout::types::{Integer, Scalar};

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
    /// The field's value in `r1`, extended to 64 bits as its type says: what a filter sees.
    pub(crate) fn word(&mut self, field: &Field) {
        // Errors show when the field is recorded, with its name; here it is 0.
        if self.value(&field.from, &field.ty).is_err() {
            self.b.mov(Reg::R1, 0);
        }
        let Some((scalar, signed)) = scalar(&field.ty) else { return };
        match scalar {
            Scalar::F32 => {}
            Scalar::Bool => self.boolean(),
            _ => self.extend(scalar.bytes(), signed),
        }
    }

    /// `r1` becomes 0 or 1, by its lowest byte: what is above it in a register nobody has set.
    pub(crate) fn boolean(&mut self) {
        let zero = self.b.label();
        self.b.and(Reg::R1, 0xff);
        self.b.branch(Cond::Eq, Reg::R1, 0, zero);
        self.b.mov(Reg::R1, 1);
        self.b.bind(zero);
    }

    /// Extends the low bytes of `r1`.
    pub(crate) fn extend(&mut self, bytes: usize, signed: bool) {
        let bits = 64 - 8 * bytes as i32;
        if bits <= 0 {
            return;
        }
        self.b.lsh(Reg::R1, bits);
        if signed {
            self.b.arsh(Reg::R1, bits);
        } else {
            self.b.rsh(Reg::R1, bits);
        }
    }

    /// The value in `r1`; of its bits as many are meant as the type has.
    pub(crate) fn value(&mut self, from: &Origin, ty: &Type) -> Result<(), &'static str> {
        let (scalar, signed) = scalar(ty).ok_or("it is no number")?;
        match from {
            Origin::Record(offset) => self.record_word(*offset, size(scalar.bytes()).ok_or("odd size")?)?,
            Origin::Argument(index) => self.argument(*index)?,
            Origin::Address(index) => self.address(*index)?,
            Origin::Member { argument, path, bytes } => {
                let size = size(usize::from(*bytes)).ok_or("its member is no number")?;
                self.member(*argument, path, size)?;
                if signed && usize::from(*bytes) < scalar.bytes() {
                    self.extend(usize::from(*bytes), true);
                }
            }
            Origin::UserTime(time) => self.user_time(*time)?,
            Origin::Socket(socket, part) => self.socket_number(*socket, *part)?,
            Origin::Result => self.result()?,
            Origin::Duration => self.duration(),
            Origin::Tid => self.recorder_tid(Reg::R1),
            Origin::TaskId { argument, path, process } => self.task_id(*argument, path, *process)?,
            Origin::Operand(operand) => crate::operand::value(self, operand, Reg::R1),
            Origin::Made { from, steps }
                if self.plan.namespace.is_none() && steps[..] == [Step::RecorderTid] =>
            {
                self.value(from, ty)?;
            }
            Origin::Made { from, steps } => {
                let wide = Type::Scalar(if signed { Scalar::signed(64) } else { Scalar::unsigned(64) });
                match &**from {
                    // A record's word has the size of the field.
                    Origin::Record(_) => {
                        self.value(from, ty)?;
                        self.extend(scalar.bytes(), signed);
                    }
                    _ => self.value(from, &wide)?,
                }
                for step in steps {
                    self.step(step)?;
                }
            }
            _ => return Err("it is no number there"),
        }
        Ok(())
    }

    /// Loads from where `src + offset` points in the kernel's memory, by a plain load where that is possible.
    pub(crate) fn load(&mut self, size: Size, src: Reg, offset: u32) {
        match self.access {
            Access::Typed | Access::TypedCall => match i16::try_from(offset) {
                Ok(offset) => self.b.load(size, Reg::R1, src, offset),
                Err(_) => {
                    self.b.mov(Reg::R1, src);
                    self.b.add(Reg::R1, offset as i32);
                    self.b.load(size, Reg::R1, Reg::R1, 0);
                }
            },
            _ => {
                self.b.mov(Reg::R3, src);
                self.b.add(Reg::R3, offset as i32);
                self.peek(helper::PROBE_READ_KERNEL, size);
            }
        }
    }

    /// `r1` becomes what lies at address `r3`, or 0 when nothing does.
    pub(crate) fn peek(&mut self, helper: u32, size: Size) {
        self.b.store(Size::DW, Reg::R10, slot::VALUE, 0);
        self.b.mov(Reg::R1, Reg::R10);
        self.b.add(Reg::R1, i32::from(slot::VALUE));
        self.b.mov(Reg::R2, size.bytes() as i32);
        self.b.call(helper);
        self.b.load(Size::DW, Reg::R1, Reg::R10, slot::VALUE);
    }

    pub(crate) fn argument(&mut self, index: u8) -> Result<(), &'static str> {
        match self.access {
            Access::Typed | Access::Raw | Access::Function => {
                self.b.load(Size::DW, Reg::R1, Reg::R6, i16::from(index) * 8);
                Ok(())
            }
            Access::TypedCall | Access::RawCall => {
                let offset =
                    arch::CALL_ARGUMENTS.get(usize::from(index)).ok_or("system calls have 6 arguments")?;
                self.load(Size::DW, Reg::R6, *offset as u32);
                Ok(())
            }
            Access::Record => Err("a trace event has no arguments"),
            Access::Probe => Err("a probe's arguments are operands"),
        }
    }

    /// `r1` becomes an argument as a number.
    fn address(&mut self, index: u8) -> Result<(), &'static str> {
        if self.access != Access::Function {
            return Err("its arguments are no words of a function");
        }
        self.b.mov(Reg::R3, Reg::R6);
        self.b.add(Reg::R3, i32::from(index) * 8);
        self.peek(helper::PROBE_READ_KERNEL, Size::DW);
        Ok(())
    }

    /// `r1` becomes the address that the offsets lead to: all of them but the last are of pointers, which are followed;
    /// the last is to be added.
    pub(crate) fn walk(&mut self, argument: u8, path: &[u32]) -> Result<u32, &'static str> {
        let (last, hops) = path.split_last().ok_or("its path is empty")?;
        self.argument(argument)?;
        for offset in hops {
            let there = self.b.label();
            let next = self.b.label();
            self.b.branch(Cond::Ne, Reg::R1, 0, there);
            self.b.jump(next);
            self.b.bind(there);
            self.load(Size::DW, Reg::R1, *offset);
            self.b.bind(next);
        }
        Ok(*last)
    }

    pub(crate) fn member(&mut self, argument: u8, path: &[u32], size: Size) -> Result<(), &'static str> {
        let last = self.walk(argument, path)?;
        let end = self.b.label();
        self.b.branch(Cond::Eq, Reg::R1, 0, end);
        self.load(size, Reg::R1, last);
        self.b.bind(end);
        Ok(())
    }

    /// A number in the trace event's record: by a load where it is aligned, which is all that the verifier allows.
    fn record_word(&mut self, offset: u32, size: Size) -> Result<(), &'static str> {
        if self.access != Access::Record {
            return Err("there is no trace event's record");
        }
        match i16::try_from(offset) {
            Ok(at) if offset.is_multiple_of(size.bytes() as u32) => self.b.load(size, Reg::R1, Reg::R6, at),
            _ => {
                self.b.mov(Reg::R3, Reg::R6);
                self.b.add(Reg::R3, offset as i32);
                self.peek(helper::PROBE_READ_KERNEL, size);
            }
        }
        Ok(())
    }

    fn result(&mut self) -> Result<(), &'static str> {
        match self.access {
            Access::TypedCall | Access::RawCall => self.b.load(Size::DW, Reg::R1, Reg::R10, slot::RESULT),
            Access::Probe => self.b.load(Size::DW, Reg::R1, Reg::R6, arch::RETURNED),
            _ => return Err("a tracepoint has no result"),
        }
        Ok(())
    }

    /// How long the system call took; 0 when its entry was not seen.
    fn duration(&mut self) {
        let unknown = self.b.label();
        self.time();
        self.b.load(Size::DW, Reg::R1, Reg::R10, slot::BEGAN);
        self.b.branch(Cond::Eq, Reg::R1, 0, unknown);
        self.b.sub(Reg::R0, Reg::R1);
        self.b.mov(Reg::R1, Reg::R0);
        self.b.bind(unknown);
    }

    /// The nanoseconds of a time in the memory of the process; of one that is longer than the numbers reach the
    /// greatest of them, and -1 when there is none or it cannot be read.
    fn user_time(&mut self, time: Timespec) -> Result<(), &'static str> {
        const SECONDS: i16 = slot::VALUE - 8;
        let [none, fits, end] = std::array::from_fn(|_| self.b.label());
        if let Some((argument, operations)) = time.when {
            self.argument(argument)?;
            self.b.and(Reg::R1, 127);
            self.b.branch(Cond::Gt, Reg::R1, 63, none);
            self.b.constant(Reg::R2, operations);
            self.b.rsh(Reg::R2, Reg::R1);
            self.b.and(Reg::R2, 1);
            self.b.branch(Cond::Eq, Reg::R2, 0, none);
        }
        self.argument(time.argument)?;
        self.b.mov(Reg::R3, Reg::R1);
        self.b.mov(Reg::R1, Reg::R10);
        self.b.add(Reg::R1, i32::from(SECONDS));
        self.b.mov(Reg::R2, 16);
        self.b.call(helper::PROBE_READ_USER);
        self.b.branch(Cond::Ne, Reg::R0, 0, none);
        self.b.load(Size::DW, Reg::R1, Reg::R10, SECONDS);
        self.b.constant(Reg::R2, i64::MAX as u64 / NANOSECONDS - 1);
        self.b.branch(Cond::Le, Reg::R1, Reg::R2, fits);
        self.b.constant(Reg::R1, i64::MAX as u64);
        self.b.jump(end);
        self.b.bind(none);
        self.b.mov(Reg::R1, -1);
        self.b.jump(end);
        self.b.bind(fits);
        self.b.constant(Reg::R2, NANOSECONDS);
        self.b.mul(Reg::R1, Reg::R2);
        self.b.load(Size::DW, Reg::R2, Reg::R10, slot::VALUE);
        self.b.add(Reg::R1, Reg::R2);
        self.b.bind(end);
        Ok(())
    }

    /// Takes the time at which the system call began out of the thread's entry in `r9`, into its slot.
    pub(crate) fn take_began(&mut self) {
        let (none, end) = (self.b.label(), self.b.label());
        self.b.branch(Cond::Eq, Reg::R9, 0, none);
        self.b.load(Size::DW, Reg::R1, Reg::R9, threads::SYSCALL_TIME);
        self.b.store(Size::DW, Reg::R9, threads::SYSCALL_TIME, 0);
        self.b.jump(end);
        self.b.bind(none);
        self.b.mov(Reg::R1, 0);
        self.b.bind(end);
        self.b.store(Size::DW, Reg::R10, slot::BEGAN, Reg::R1);
    }

    fn step(&mut self, step: &Step) -> Result<(), &'static str> {
        match step {
            Step::And(mask) => {
                self.b.constant(Reg::R2, *mask);
                self.b.and(Reg::R1, Reg::R2);
            }
            Step::Add(number) => {
                self.b.constant(Reg::R2, *number as u64);
                self.b.add(Reg::R1, Reg::R2);
            }
            Step::Shift(bits) => self.b.rsh(Reg::R1, i32::from(*bits)),
            Step::When { argument, equals, value } => {
                let other = self.b.label();
                self.b.store(Size::DW, Reg::R10, slot::VALUE, Reg::R1);
                self.argument(*argument)?;
                self.b.mov(Reg::R3, Reg::R1);
                self.b.load(Size::DW, Reg::R1, Reg::R10, slot::VALUE);
                self.b.constant(Reg::R2, *equals);
                self.b.branch(Cond::Ne, Reg::R3, Reg::R2, other);
                self.b.constant(Reg::R1, *value as u64);
                self.b.bind(other);
            }
            Step::Bits(rules) => self.bits(rules),
            Step::RecorderTid => self.recorder_tid_step(),
        }
        Ok(())
    }

    fn bits(&mut self, rules: &[Bits]) {
        self.b.mov(Reg::R4, 0);
        for Bits { mask, equals, set } in rules {
            let next = self.b.label();
            self.b.mov(Reg::R3, Reg::R1);
            self.b.constant(Reg::R2, *mask);
            self.b.and(Reg::R3, Reg::R2);
            self.b.constant(Reg::R2, *equals);
            self.b.branch(Cond::Ne, Reg::R3, Reg::R2, next);
            self.b.constant(Reg::R2, *set);
            self.b.or(Reg::R4, Reg::R2);
            self.b.bind(next);
        }
        self.b.mov(Reg::R1, Reg::R4);
    }
}
