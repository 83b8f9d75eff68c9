//! A record's room in the ring, its header, and the store that commits it.

use crate::code::{Code, LAST_TIME};
use crate::error::Error;
use crate::{slot, value};
use mote_bpf::Reg;
use mote_bpf::op::{AtomicOp, Cond, Size};
use mote_builder::{Build, Label, Memory, Pointer, Value, field};
use mote_catalog::event::{Event, TEXT_MAX, Type};
use mote_layout::Cause;
use mote_layout::record::{ID_BITS, PREFIX_BYTES};
use mote_ring::Mode;
use mote_ring::control::{CONTROL_BYTES, Control, SLOT_BYTES, Slot};
use std::mem::offset_of;

const POS: i16 = offset_of!(Control, pos) as i16;
const RING_FULL: i16 = (offset_of!(Control, lost) + 8 * Cause::RingFull as usize) as i16;
const TOO_BIG: i16 = (offset_of!(Control, lost) + 8 * Cause::TooBig as usize) as i16;

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
            self.count_lost(TOO_BIG);
            self.b.jump(self.release);
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
    fn count_lost(&mut self, cause: i16) {
        self.b.mov(Reg::R1, 1);
        if self.access.is_preempted() {
            self.b.atomic(AtomicOp::Add, Size::DW, Reg::R7, cause, Reg::R1);
            return;
        }
        self.b.load(Size::DW, Reg::R2, Reg::R7, cause);
        self.b.add(Reg::R2, Reg::R1);
        self.b.store(Size::DW, Reg::R7, cause, Reg::R2);
    }

    /// Room for so many bytes in this sub-buffer or the next; else one is lost.
    fn reserve(&mut self, bytes: usize) {
        let geometry = self.plan.geometry;
        let (room, full) = (self.b.label(), self.b.label());
        // The last byte is never filled.
        let limit = geometry.sub_bytes() as i32 - 1 - bytes as i32;
        self.b.load(Size::DW, Reg::R2, Reg::R7, POS);
        self.b.mov(Reg::R1, Reg::R2);
        self.b.and(Reg::R1, geometry.sub_bytes() as i32 - 1);
        self.b.branch(Cond::Lt, Reg::R1, limit, room);
        self.b.mov(Reg::R1, Reg::R7);
        self.call_leave();
        self.b.branch(Cond::Ne, Reg::R0, 0, full);
        self.b.load(Size::DW, Reg::R2, Reg::R7, POS);
        self.b.jump(room);
        self.b.bind(full);
        self.count_lost(RING_FULL);
        self.b.jump(self.release);
        self.b.bind(room);
        self.b.store(Size::DW, Reg::R10, slot::POS, Reg::R2);
        self.and_ring_mask(Reg::R2);
        self.b.add(Reg::R8, Reg::R2);
    }

    /// The ring's mask does not fit the instruction's constant when the ring has 2 GiB or more; such rings are out of
    /// reach anyway.
    fn and_ring_mask(&mut self, reg: Reg) {
        self.b.and(reg, self.plan.geometry.ring_bytes() as i32 - 1);
    }

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
            let lost = Memory::new(&control, RING_FULL.into(), Size::DW);
            code.put(slot.at(field!(Slot, lost)), lost);
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

    fn header(&mut self, id: Id) {
        self.b.store(Size::DW, Reg::R10, slot::START, Reg::R8);
        self.time();
        self.b.store(Size::DW, Reg::R7, LAST_TIME, Reg::R0);
        self.b.lsh(Reg::R0, ID_BITS as i32);
        match id {
            Id::Constant(id) => self.b.or(Reg::R0, i32::from(id)),
            Id::Slot => {
                self.b.load(Size::H, Reg::R1, Reg::R10, slot::ID);
                self.b.or(Reg::R0, Reg::R1);
            }
        }
        self.b.store(Size::DW, Reg::R8, 0, Reg::R0);
        self.recorder_tid(Reg::R1);
        self.b.store(Size::W, Reg::R8, 8, Reg::R1);
        self.at = PREFIX_BYTES as i16;
        self.moved = false;
    }

    fn commit(&mut self) {
        self.b.load(Size::DW, Reg::R2, Reg::R10, slot::POS);
        if self.moved {
            self.b.load(Size::DW, Reg::R1, Reg::R10, slot::START);
            self.b.sub(Reg::R8, Reg::R1);
            self.b.add(Reg::R2, Reg::R8);
        }
        self.b.add(Reg::R2, i32::from(self.at));
        self.b.store(Size::DW, Reg::R7, POS, Reg::R2);
        self.b.jump(self.release);
    }

    /// The scalar in `r1` becomes the next field.
    pub(crate) fn put_next(&mut self, size: Size) {
        self.b.store(size, Reg::R8, self.at, Reg::R1);
        self.at += size.bytes() as i16;
    }

    /// Puts a value of so many bytes.
    pub(crate) fn put_scalar(&mut self, ty: &Type) -> Result<(), &'static str> {
        let (scalar, _) = value::scalar(ty).ok_or("it is no number")?;
        self.put_next(value::size(scalar.bytes()).ok_or("its size is no number's")?);
        Ok(())
    }
}
