//! Bytes: texts, arrays, stacks, from where an event has them to `r8 + at` or to the scratch area.

use crate::access::Access;
use crate::code::Code;
use crate::slot;
use crate::state;
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Reg, helper};
use mote_catalog::event::{Origin, Part, TEXT_MAX, Type};
use mote_layout::types::Scalar;

/// Most bytes that are copied by loads and stores instead of a call.
const INLINE_MAX: u32 = 32;
/// `BPF_F_USER_STACK`
const USER_STACK: i32 = 1 << 8;

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// The record.
    Record,
    /// This offset of the ring's scratch area.
    Scratch(u32),
}

impl Code<'_> {
    /// `r1` becomes where bytes go.
    pub(crate) fn destination(&mut self, to: To) {
        match to {
            To::Record => {
                self.b.mov(Reg::R1, Reg::R8);
                self.b.add(Reg::R1, i32::from(self.at));
            }
            To::Scratch(offset) => {
                self.b.load(Size::DW, Reg::R1, Reg::R10, slot::SCRATCH);
                self.b.add(Reg::R1, offset as i32);
            }
        }
    }

    /// Copies a text with its NUL; `r0` becomes its bytes, 1 to [`TEXT_MAX`]. One that cannot be read is empty, and
    /// counted.
    pub(crate) fn text(&mut self, from: &Origin, to: To) -> Result<(), &'static str> {
        if let Origin::Socket(socket, Part::Text) = from {
            return self.socket_text(*socket, to);
        }
        if let Origin::AnyText(address) = from {
            self.value(address, &Type::Scalar(Scalar::hex(64)))?;
            self.b.mov(Reg::R3, Reg::R1);
            self.copy_text_by(TEXT_MAX, to, Code::read_either);
            return Ok(());
        }
        let helper = self.text_address(from)?;
        self.copy_text(helper, TEXT_MAX, to);
        Ok(())
    }

    /// As [`Code::text`], from address `r3` and of at most `bytes`.
    pub(crate) fn copy_text(&mut self, helper: u32, bytes: u32, to: To) {
        self.copy_text_by(bytes, to, |code| code.b.call(helper));
    }

    /// Reads from the kernel's half of addresses (the negative numbers), or from the process's.
    fn read_either(&mut self) {
        let (kernel, end) = (self.b.label(), self.b.label());
        self.b.branch(Cond::SLt, Reg::R3, 0, kernel);
        self.b.call(helper::PROBE_READ_USER_STR);
        self.b.jump(end);
        self.b.bind(kernel);
        self.b.call(helper::PROBE_READ_KERNEL_STR);
        self.b.bind(end);
    }

    /// As [`Code::copy_text`]; `read` calls what reads.
    fn copy_text_by(&mut self, bytes: u32, to: To, read: impl FnOnce(&mut Self)) {
        let (fault, end) = (self.b.label(), self.b.label());
        self.destination(to);
        self.b.mov(Reg::R2, bytes as i32);
        read(self);
        self.b.branch(Cond::Gt, Reg::R0, bytes as i32, fault);
        self.b.branch(Cond::Ne, Reg::R0, 0, end);
        self.b.bind(fault);
        self.count(state::TEXT_FAULTS);
        self.no_text(to);
        self.b.bind(end);
    }

    /// The text is empty.
    pub(crate) fn no_text(&mut self, to: To) {
        self.destination(to);
        self.b.store(Size::B, Reg::R1, 0, 0);
        self.b.mov(Reg::R0, 1);
    }

    /// `r3` becomes the address of a text; returns what reads there.
    fn text_address(&mut self, from: &Origin) -> Result<u32, &'static str> {
        match from {
            Origin::UserText(argument) => {
                self.argument(*argument)?;
                self.b.mov(Reg::R3, Reg::R1);
                return Ok(helper::PROBE_READ_USER_STR);
            }
            Origin::OperandText(operand) => {
                crate::operand::value(self, operand, Reg::R3);
                return Ok(helper::PROBE_READ_USER_STR);
            }
            Origin::KernelText { argument, path } if path.is_empty() => self.argument(*argument)?,
            Origin::KernelText { argument, path } => {
                let last = self.walk(*argument, path)?;
                let end = self.b.label();
                self.b.branch(Cond::Eq, Reg::R1, 0, end);
                self.load(Size::DW, Reg::R1, last);
                self.b.bind(end);
            }
            Origin::Location { .. } => self.location(from)?,
            _ => self.bytes_address(from)?,
        }
        self.b.mov(Reg::R3, Reg::R1);
        Ok(helper::PROBE_READ_KERNEL_STR)
    }

    /// `r1` becomes the address in the trace event's record, `r5` how many bytes there are.
    fn location(&mut self, from: &Origin) -> Result<(), &'static str> {
        let (Origin::Location { offset, relative }, Access::Record) = (from, self.access) else {
            return Err("there is no trace event's record");
        };
        let at = i16::try_from(*offset).map_err(|_| "its record is too long")?;
        self.b.load(Size::W, Reg::R5, Reg::R6, at);
        self.b.mov(Reg::R1, Reg::R5);
        self.b.and(Reg::R1, 0xffff);
        self.b.rsh(Reg::R5, 16);
        if *relative {
            self.b.add(Reg::R1, i32::from(at) + 4);
        }
        self.b.add(Reg::R1, Reg::R6);
        Ok(())
    }

    /// `r1` becomes the address of bytes in the kernel's memory.
    fn bytes_address(&mut self, from: &Origin) -> Result<(), &'static str> {
        match from {
            Origin::Record(offset) if self.access == Access::Record => {
                self.b.mov(Reg::R1, Reg::R6);
                self.b.add(Reg::R1, *offset as i32);
            }
            Origin::Member { argument, path, .. } => {
                let last = self.walk(*argument, path)?;
                let end = self.b.label();
                self.b.branch(Cond::Eq, Reg::R1, 0, end);
                self.b.add(Reg::R1, last as i32);
                self.b.bind(end);
            }
            _ => return Err("there are no bytes"),
        }
        Ok(())
    }

    /// Copies bytes that lie at a fixed place. What cannot be read is zeros.
    pub(crate) fn bytes(&mut self, from: &Origin, bytes: u32, to: To) -> Result<(), &'static str> {
        if *from == Origin::Comm {
            self.destination(to);
            self.b.mov(Reg::R2, bytes as i32);
            self.b.call(helper::GET_CURRENT_COMM);
            return Ok(());
        }
        if let Origin::Member { argument, path, .. } = from
            && self.access == Access::Typed
            && bytes <= INLINE_MAX
            && to == To::Record
        {
            return self.inline(*argument, path, bytes);
        }
        self.bytes_address(from)?;
        self.b.mov(Reg::R3, Reg::R1);
        self.destination(to);
        self.b.mov(Reg::R2, bytes as i32);
        self.b.call(helper::PROBE_READ_KERNEL);
        Ok(())
    }

    /// By loads through a typed pointer.
    fn inline(&mut self, argument: u8, path: &[u32], bytes: u32) -> Result<(), &'static str> {
        let last = self.walk(argument, path)?;
        let (there, end) = (self.b.label(), self.b.label());
        let parts: Vec<(u32, Size)> = parts(bytes).collect();
        self.b.branch(Cond::Ne, Reg::R1, 0, there);
        for (offset, size) in &parts {
            self.b.store(*size, Reg::R8, self.at + *offset as i16, 0);
        }
        self.b.jump(end);
        self.b.bind(there);
        self.b.mov(Reg::R2, Reg::R1);
        for (offset, size) in &parts {
            self.load(*size, Reg::R2, last + offset);
            self.b.store(*size, Reg::R8, self.at + *offset as i16, Reg::R1);
        }
        self.b.bind(end);
        Ok(())
    }

    /// A varying number of values of `unit` bytes that the trace event's record holds: their count, and themselves.
    pub(crate) fn sequence(&mut self, from: &Origin, unit: u32, most: u32) -> Result<(), &'static str> {
        let fits = self.b.label();
        let bytes = unit * most;
        self.location(from)?;
        self.b.mov(Reg::R3, Reg::R1);
        self.b.branch(Cond::Le, Reg::R5, bytes as i32, fits);
        self.b.mov(Reg::R5, bytes as i32);
        self.b.bind(fits);
        self.b.rsh(Reg::R5, unit.trailing_zeros() as i32);
        self.b.store(Size::H, Reg::R8, self.at, Reg::R5);
        self.at += 2;
        self.b.lsh(Reg::R5, unit.trailing_zeros() as i32);
        self.b.store(Size::DW, Reg::R10, slot::VALUE, Reg::R5);
        self.destination(To::Record);
        self.b.mov(Reg::R2, Reg::R5);
        self.b.call(helper::PROBE_READ_KERNEL);
        self.b.load(Size::DW, Reg::R0, Reg::R10, slot::VALUE);
        self.advance(bytes);
        Ok(())
    }

    /// A stack: how many addresses, and they.
    pub(crate) fn stack(&mut self, user: bool, most: u32) {
        let (some, none) = (self.b.label(), self.b.label());
        self.if_foreign(none);
        let bytes = 8 * most;
        if matches!(self.access, Access::TypedCall | Access::RawCall) {
            self.b.load(Size::DW, Reg::R1, Reg::R10, slot::CONTEXT);
        } else {
            self.b.mov(Reg::R1, Reg::R6);
        }
        self.b.mov(Reg::R2, Reg::R8);
        self.b.add(Reg::R2, i32::from(self.at) + 2);
        self.b.mov(Reg::R3, bytes as i32);
        self.b.mov(Reg::R4, if user { USER_STACK } else { 0 });
        self.b.call(helper::GET_STACK);
        self.b.branch(Cond::Le, Reg::R0, bytes as i32, some);
        self.b.bind(none);
        self.b.mov(Reg::R0, 0);
        self.b.bind(some);
        self.b.mov(Reg::R1, Reg::R0);
        self.b.rsh(Reg::R1, 3);
        self.b.store(Size::H, Reg::R8, self.at, Reg::R1);
        self.at += 2;
        self.advance(bytes);
    }

    /// The record goes on `r0` bytes further, at most `most`.
    pub(crate) fn advance(&mut self, most: u32) {
        // The verifier may have forgotten the bound in the meantime.
        let within = self.b.label();
        self.b.branch(Cond::Le, Reg::R0, most as i32, within);
        self.b.mov(Reg::R0, 0);
        self.b.bind(within);
        self.b.add(Reg::R8, Reg::R0);
        self.moved = true;
    }
}

/// Largest accesses first.
fn parts(bytes: u32) -> impl Iterator<Item = (u32, Size)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = [Size::DW, Size::W, Size::H, Size::B]
            .into_iter()
            .find(|size| size.bytes() as u32 <= bytes - at)?;
        let part = (at, size);
        at += size.bytes() as u32;
        Some(part)
    })
}
