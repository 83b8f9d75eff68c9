//! A record's room in the ring, its header, and the store that commits it.

use crate::code::{Code, LAST_TIME};
use crate::error::Error;
use crate::{slot, value};
use mote_bpf::Reg;
use mote_bpf::op::{AtomicOp, Cond, Size};
use mote_catalog::event::{Event, TEXT_MAX, Type};
use mote_layout::Cause;
use mote_layout::record::{ID_BITS, PREFIX_BYTES};
use mote_ring::Mode;
use mote_ring::control::{CONTROL_BYTES, Control, SLOT_BYTES, Slot};
use std::mem::offset_of;

const POS: i16 = offset_of!(Control, pos) as i16;
const CONSUMED: i16 = offset_of!(Control, consumed) as i16;
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

    /// The ring's mask does not fit the instruction's constant when the ring has 2 GiB or more; such rings are out of reach anyway.
    fn and_ring_mask(&mut self, reg: Reg) {
        self.b.and(reg, self.plan.geometry.ring_bytes() as i32 - 1);
    }

    /// Function: leaves the sub-buffer of the ring whose control words `r1` points to; `r0` is not 0 when the next one is still unread, and this one
    /// closed.
    pub(crate) fn leave_function(&mut self) {
        let geometry = self.plan.geometry;
        let last = geometry.sub_bytes() as i32 - 1;
        let (enter, move_to, closed) = (self.b.label(), self.b.label(), self.b.label());
        let slot = |member: usize| CONTROL_BYTES as i16 + member as i16;
        self.b.load(Size::DW, Reg::R2, Reg::R1, POS);
        // `r3`: the last byte of this sub-buffer, or the first of the next one.
        self.b.mov(Reg::R3, Reg::R2);
        self.b.or(Reg::R3, last);
        self.b.mov(Reg::R0, 0);
        if geometry.mode == Mode::Discard {
            self.b.load(Size::DW, Reg::R4, Reg::R1, CONSUMED);
            self.b.mov(Reg::R5, Reg::R3);
            self.b.add(Reg::R5, last + 2);
            self.b.sub(Reg::R5, Reg::R4);
            self.b.branch(Cond::Le, Reg::R5, geometry.ring_bytes() as i32, enter);
            self.b.mov(Reg::R0, 1);
            self.b.branch(Cond::Ne, Reg::R3, Reg::R2, move_to);
            self.b.exit();
        }
        self.b.bind(enter);
        self.b.add(Reg::R3, 1);
        self.b.bind(move_to);
        // Closed before: its end was noted then.
        self.b.mov(Reg::R4, Reg::R2);
        self.b.and(Reg::R4, last);
        self.b.branch(Cond::Eq, Reg::R4, last, closed);
        self.slot_of(Reg::R2);
        self.b.store(Size::DW, Reg::R5, slot(offset_of!(Slot, end)), Reg::R2);
        self.b.load(Size::DW, Reg::R4, Reg::R1, LAST_TIME);
        self.b.store(Size::DW, Reg::R5, slot(offset_of!(Slot, time_end)), Reg::R4);
        self.b.bind(closed);
        // While a sub-buffer is open nothing is lost: closing it changes nothing here.
        self.slot_of(Reg::R3);
        self.b.load(Size::DW, Reg::R4, Reg::R1, RING_FULL);
        self.b.store(Size::DW, Reg::R5, slot(offset_of!(Slot, lost)), Reg::R4);
        self.b.store(Size::DW, Reg::R1, POS, Reg::R3);
        self.b.exit();
    }

    /// `r5` = where [`CONTROL_BYTES`] before the slot of position `pos` is, in the ring whose control words `r1` points to; `r4` is lost.
    fn slot_of(&mut self, pos: Reg) {
        self.b.mov(Reg::R4, pos);
        self.and_ring_mask(Reg::R4);
        self.b.rsh(Reg::R4, self.plan.geometry.sub_bits as i32);
        self.b.mul(Reg::R4, SLOT_BYTES as i32);
        self.b.mov(Reg::R5, Reg::R1);
        self.b.add(Reg::R5, Reg::R4);
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
    pub(crate) fn put(&mut self, size: Size) {
        self.b.store(size, Reg::R8, self.at, Reg::R1);
        self.at += size.bytes() as i16;
    }

    /// Puts a value of so many bytes.
    pub(crate) fn put_scalar(&mut self, ty: &Type) -> Result<(), &'static str> {
        let (scalar, _) = value::scalar(ty).ok_or("it is no number")?;
        self.put(value::size(scalar.bytes()).ok_or("its size is no number's")?);
        Ok(())
    }
}
