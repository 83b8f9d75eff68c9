//! Bytes: texts, arrays, from where an event has them to the record or to the scratch area.

use crate::access::Access;
use crate::code::Code;
use crate::slot;
use crate::state;
use mote_bpf::op::Size;
use mote_bpf::{Reg, helper};
use mote_builder::{Build, Expr, Memory, Value};
use mote_catalog::event::{Origin, Part, TEXT_MAX, Type};
use mote_layout::types::Scalar;
use std::rc::Rc;

/// Most bytes that are copied by loads and stores instead of a call.
const INLINE_MAX: u32 = 32;

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// The record.
    Record,
    /// This offset of the ring's scratch area.
    Scratch(u32),
}

impl Code<'_> {
    /// Where bytes go.
    pub(crate) fn destination(&self, to: To) -> Expr {
        match to {
            To::Record => &self.saved.to + self.at,
            To::Scratch(offset) => slot::SCRATCH + offset,
        }
    }

    /// `size` bytes there, so many behind the first.
    pub(crate) fn part_of(&self, to: To, offset: u32, size: Size) -> Memory {
        match to {
            To::Record => self.of_record(offset, size),
            To::Scratch(first) => Memory::new(slot::SCRATCH, (first + offset) as i32, size),
        }
    }

    /// Copies a text with its NUL; returns its bytes, 1 to [`TEXT_MAX`]. One that cannot be read is empty, and counted.
    pub(crate) fn text(&mut self, from: &Origin, to: To) -> Result<Value, &'static str> {
        if let Origin::Socket(socket, Part::Text) = from {
            return self.socket_text(*socket, to);
        }
        if let Origin::AnyText(address) = from {
            let address = self.value(address, &Type::Scalar(Scalar::hex(64)))?;
            let length = self.read_either(address, to);
            return Ok(self.checked_text(length, TEXT_MAX, to));
        }
        let (helper, address) = self.text_address(from)?;
        Ok(self.copy_text(helper, address, TEXT_MAX, to))
    }

    /// As [`Code::text`], from an address and of at most `bytes`.
    pub(crate) fn copy_text(&mut self, helper: u32, address: impl Into<Expr>, bytes: u32, to: To) -> Value {
        let length = self.invoke(helper, (self.destination(to), bytes, address));
        self.checked_text(length, bytes, to)
    }

    /// Reads a text from the kernel's half of addresses (the negative numbers), or from the process's.
    fn read_either(&mut self, address: Value, to: To) -> Value {
        let read = |code: &mut Self, helper| {
            drop(code.invoke(helper, (code.destination(to), TEXT_MAX, &address)));
        };
        self.either(
            address.slt(0),
            |code| read(code, helper::PROBE_READ_KERNEL_STR),
            |code| read(code, helper::PROBE_READ_USER_STR),
        );
        // What either of them returned.
        self.pin(Reg::R0)
    }

    /// The text is empty, and counted, when the helper has not returned how many bytes it has read.
    fn checked_text(&mut self, length: Value, bytes: u32, to: To) -> Value {
        self.when(length.gt(bytes).or(length.eq(0)), |code| {
            code.count(state::TEXT_FAULTS);
            code.no_text(&length, to);
        });
        length
    }

    /// The text is empty.
    pub(crate) fn no_text(&mut self, length: &Value, to: To) {
        self.put(self.part_of(to, 0, Size::B), 0);
        self.set(length, 1);
    }

    /// The address of a text, and what reads there.
    fn text_address(&mut self, from: &Origin) -> Result<(u32, Value), &'static str> {
        let address = match from {
            Origin::UserText(argument) => {
                return Ok((helper::PROBE_READ_USER_STR, self.argument(*argument)?));
            }
            Origin::OperandText(operand) => return Ok((helper::PROBE_READ_USER_STR, self.operand(operand))),
            Origin::KernelText { argument, path } if path.is_empty() => self.argument(*argument)?,
            Origin::KernelText { argument, path } => self.member(*argument, path, Size::DW)?,
            Origin::Location { .. } => self.location(from)?.0,
            _ => self.bytes_address(from)?,
        };
        Ok((helper::PROBE_READ_KERNEL_STR, address))
    }

    /// The address in the trace event's record, and how many bytes there are.
    fn location(&mut self, from: &Origin) -> Result<(Value, Value), &'static str> {
        let (Origin::Location { offset, relative }, Access::Record) = (from, self.access) else {
            return Err("the event has no record of its own");
        };
        let at = i16::try_from(*offset).map_err(|_| "its record is too long")?;
        let bytes = self.get(self.of_context(at.into(), Size::W));
        let behind = if *relative { i32::from(at) + 4 } else { 0 };
        let address = self.get((&bytes & 0xffff) + behind + self.context());
        self.set(&bytes, &bytes >> 16);
        Ok((address, bytes))
    }

    /// The address of bytes in the kernel's memory.
    fn bytes_address(&mut self, from: &Origin) -> Result<Value, &'static str> {
        match from {
            Origin::Record(offset) if self.access == Access::Record => Ok(self.get(self.context() + *offset)),
            Origin::Member { argument, path, .. } => {
                let (address, last) = self.walk(*argument, path)?;
                self.when(address.ne(0), |code| code.set(&address, &address + last));
                Ok(address)
            }
            _ => Err("it has no bytes"),
        }
    }

    /// Copies bytes that lie at a fixed place. What cannot be read is zeros.
    pub(crate) fn bytes(&mut self, from: &Origin, bytes: u32, to: To) -> Result<(), &'static str> {
        if *from == Origin::Comm {
            drop(self.invoke(helper::GET_CURRENT_COMM, (self.destination(to), bytes)));
            return Ok(());
        }
        if let Origin::Member { argument, path, .. } = from
            && self.access == Access::Typed
            && bytes <= INLINE_MAX
            && to == To::Record
        {
            return self.inline(*argument, path, bytes);
        }
        let address = self.bytes_address(from)?;
        drop(self.invoke(helper::PROBE_READ_KERNEL, (self.destination(to), bytes, address)));
        Ok(())
    }

    /// By loads through a typed pointer.
    fn inline(&mut self, argument: u8, path: &[u32], bytes: u32) -> Result<(), &'static str> {
        let (address, last) = self.walk(argument, path)?;
        self.either(
            address.eq(0),
            |code| parts(bytes).for_each(|(offset, size)| code.put(code.of_record(offset, size), 0)),
            |code| {
                for (offset, size) in parts(bytes) {
                    let part = code.load(size, &address, last + offset);
                    code.put(code.of_record(offset, size), part);
                }
            },
        );
        Ok(())
    }

    /// A varying number of values of `unit` bytes that the trace event's record holds: their count, and themselves.
    pub(crate) fn sequence(&mut self, from: &Origin, unit: u32, most: u32) -> Result<(), &'static str> {
        let (most, unit_bits) = (unit * most, unit.trailing_zeros());
        let (address, bytes) = self.location(from)?;
        self.when(bytes.gt(most), |code| code.set(&bytes, most));
        self.set(&bytes, &bytes >> unit_bits);
        self.put(self.of_record(0, Size::H), &bytes);
        self.at += 2;
        self.set(&bytes, &bytes << unit_bits);
        self.put(slot::VALUE, &bytes);
        drop(self.invoke(helper::PROBE_READ_KERNEL, (self.destination(To::Record), bytes, address)));
        let length = self.get(slot::VALUE);
        self.advance(length, most);
        Ok(())
    }

    /// The record goes on so many bytes further, at most `most`.
    pub(crate) fn advance(&mut self, length: Value, most: u32) {
        let saved = Rc::clone(&self.saved);
        // The verifier may have forgotten the bound in the meantime.
        self.when(length.gt(most), |code| code.set(&length, 0));
        self.set(&saved.to, &saved.to + length);
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
