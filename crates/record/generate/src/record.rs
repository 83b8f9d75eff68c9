//! A record's room in the ring, its header, and the store that commits it.

use crate::code::Code;
use crate::error::Error;
use crate::{slot, value};
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Label, Memory, Pointer, Value, field};
use mote_catalog::event::{Event, TEXT_MAX, Type};
use mote_layout::record::{ID_BITS, PREFIX_BYTES};
use mote_loss::Cause;
use mote_ring::Mode;
use mote_ring::control::{CONTROL_BYTES, Control, SLOT_BYTES, Slot};
use std::mem::offset_of;
use std::rc::Rc;

/// How many events of a ring were lost for this cause.
fn lost(control: &Pointer<Control>, cause: Cause) -> Memory {
    Memory::new(control, (offset_of!(Control, lost) + 8 * cause as usize) as i32, Size::DW)
}

/// Where the id in the header comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Id {
    /// Known when the program is made.
    Constant(u16),
    /// In its slot.
    Slot,
}

/// Most bytes of a field in a record.
fn bytes_max(ty: &Type) -> usize {
    match ty {
        Type::Scalar(scalar)
        | Type::Enumeration(scalar, _)
        | Type::Flags(scalar, _)
        | Type::Labelled(scalar, _) => scalar.bytes(),
        Type::Text => TEXT_MAX as usize,
        Type::FixedText(bytes) => usize::from(*bytes),
        Type::Array(scalar, count) => scalar.bytes() * usize::from(*count),
        Type::Sequence(scalar, count) => 2 + scalar.bytes() * usize::from(*count),
    }
}

/// Most bytes of an event's record.
pub(crate) fn record_max(event: &Event) -> usize {
    PREFIX_BYTES + event.fields.iter().map(|field| bytes_max(&field.ty)).sum::<usize>()
}

/// Larger records would reach over the bytes behind the rings.
const RECORD_MAX: usize = 30 << 10;

impl Code<'_> {
    /// Writes a record, when a ring was claimed and all conditions hold; ends the program.
    ///
    /// # Errors
    /// [`Error::Event`] for fields that cannot be had.
    pub(crate) fn record(&mut self, event: &Event, id: Id) -> Result<(), Error> {
        let bytes = record_max(event);
        if bytes > RECORD_MAX {
            return Err(Error::event(&event.name, format!("its records have up to {bytes} bytes")));
        }
        if bytes as u64 + 1 >= self.plan.geometry.sub_bytes() {
            self.count_lost(Cause::TooBig);
            self.jump(self.release);
            return Ok(());
        }
        self.reserve(bytes);
        self.header(id);
        for (at, field) in event.fields.iter().enumerate() {
            self.field(event, at, field)?;
        }
        self.commit();
        Ok(())
    }

    /// One more is lost in the claimed ring.
    fn count_lost(&mut self, cause: Cause) {
        let lost = lost(&self.saved.control, cause);
        if self.access.is_preempted() {
            self.add_atomically(lost, 1);
        } else {
            self.increase(lost, 1);
        }
    }

    /// Room for so many bytes in this sub-buffer or the next; else one is lost.
    fn reserve(&mut self, bytes: usize) {
        let (saved, geometry) = (Rc::clone(&self.saved), self.plan.geometry);
        // The last byte is never filled.
        let limit = geometry.sub_bytes() as i32 - 1 - bytes as i32;
        let pos = self.get(saved.control.at(field!(Control, pos)));
        self.when((&pos & (geometry.sub_bytes() as i32 - 1)).ge(limit), |code| {
            let leave = code.leave_label();
            let full = code.invoke_function(leave, (&saved.control,));
            code.when(full.ne(0), |code| {
                code.count_lost(Cause::RingFull);
                code.jump(code.release);
            });
            code.set(&pos, saved.control.at(field!(Control, pos)));
        });
        self.put(slot::POS, &pos);
        // The mask of a ring of 2 GiB or more would not fit the instruction; such rings are out of reach anyway.
        self.set(&pos, &pos & (geometry.ring_bytes() as i32 - 1));
        self.set(&saved.to, &saved.to + pos);
    }

    fn header(&mut self, id: Id) {
        let saved = Rc::clone(&self.saved);
        self.put(slot::START, &saved.to);
        let time = self.time();
        self.put(saved.control.at(field!(Control, last_time)), &time);
        let id = match id {
            Id::Constant(id) => id.into(),
            Id::Slot => Expr::from(slot::low::<u16>(slot::ID)),
        };
        self.put(Memory::new(&saved.to, 0, Size::DW), (time << ID_BITS) | id);
        let tid = self.recorder_tid();
        self.put(Memory::new(&saved.to, 8, Size::W), tid);
        self.at = PREFIX_BYTES as i16;
        self.moved = false;
    }

    fn commit(&mut self) {
        let saved = Rc::clone(&self.saved);
        let pos = self.get(slot::POS);
        if self.moved {
            self.set(&saved.to, &saved.to - slot::START);
            self.set(&pos, &pos + &saved.to);
        }
        self.put(saved.control.at(field!(Control, pos)), pos + self.at);
        self.jump(self.release);
    }

    /// The value becomes the next field, of so many bytes.
    pub(crate) fn put_next(&mut self, size: Size, value: Value) {
        self.put(self.of_record(0, size), value);
        self.at += size.bytes() as i16;
    }

    /// The value becomes the next field, a scalar of this type.
    pub(crate) fn put_scalar(&mut self, ty: &Type, value: Value) -> Result<(), &'static str> {
        let (scalar, _) = value::scalar(ty).ok_or("it is not a number")?;
        self.put_next(value::size(scalar.bytes()).ok_or("no number has its size")?, value);
        Ok(())
    }
}

impl<S> Code<'_, S> {
    /// Function: leaves the sub-buffer of the ring with these control words; what it returns is not 0 when the next one
    /// is still unread, and this one closed.
    pub(crate) fn leave_function(&mut self, label: Label) {
        let geometry = self.plan.geometry;
        let last = geometry.sub_bytes() as i32 - 1;
        self.function(label, |code, [control]| {
            let control = control.to::<Control>();
            let pos = code.get(control.at(field!(Control, pos)));
            // The last byte of this sub-buffer, or the first of the next one.
            let to = code.get(&pos | last);
            let full = code.get(0);
            code.block(|code, closed| {
                if geometry.mode == Mode::Discard {
                    let ahead = (&to + (last + 2)) - control.at(field!(Control, consumed));
                    code.when(ahead.gt(geometry.ring_bytes() as i32), |code| {
                        code.set(&full, 1);
                        code.jump_if(to.ne(&pos), closed);
                        code.exit_with(&full);
                    });
                }
                code.set(&to, &to + 1);
            });
            // Closed before: its end was noted then.
            code.when((&pos & last).ne(last), |code| {
                let slot = code.slot_of(&control, &pos);
                code.put(slot.at(field!(Slot, end)), &pos);
                code.put(slot.at(field!(Slot, time_end)), control.at(field!(Control, last_time)));
            });
            // While a sub-buffer is open nothing is lost: closing it changes nothing here.
            let slot = code.slot_of(&control, &to);
            code.put(slot.at(field!(Slot, lost)), lost(&control, Cause::RingFull));
            code.put(control.at(field!(Control, pos)), to);
            code.exit_with(full);
        });
    }

    /// The slot of a position in the ring with these control words.
    fn slot_of(&mut self, control: &Pointer<Control>, pos: &Value) -> Pointer<Slot> {
        let geometry = self.plan.geometry;
        let number = (pos & (geometry.ring_bytes() as i32 - 1)) >> geometry.sub_bits;
        self.get(number * SLOT_BYTES as u32 + CONTROL_BYTES as u32 + control).to()
    }
}
