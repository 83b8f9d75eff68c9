//! `$window`: whether kernel events are wanted now, of all threads, of this process, or of this thread.
//!
//! The program that opens a window writes until when it is open: in the memory of the session, in the header of the
//! process's area, or in the thread's slot there ([`mote_layout::cooperation`]). `r2` points to the thread's entry in
//! the thread table when the program starts, or is 0; the entry says which area is that of the process.

use crate::emit::code::{Code, Label, Stop, Ways};
use crate::maps::{AREA_INDEX_AT, Entry, OWN_ID_AT};
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Local, Memory, Pointer, field, map};
use mote_layout::cooperation::{Header, PROBES, SLOT_BYTES, SLOTS, SharedHeader, Slot};
use std::mem::offset_of;

impl Code<'_> {
    /// At the program's beginning: keeps the pointer to the thread's entry.
    pub(in crate::emit) fn save_entry(&mut self) -> Result<(), Stop> {
        if self.is_kernel() && self.needs.window {
            self.needs_all_registers()?;
            self.entry = self.room()?;
            let entry = self.left_in(Reg::R2);
            self.put(self.entry, entry);
        }
        Ok(())
    }

    /// Whether a window is open.
    pub(in crate::emit) fn window(&mut self, ways: Ways) -> Result<(), Stop> {
        let (holds, not, _) = ways;
        let mark = self.stack_mark();
        let (now, key) = (self.room::<u64>()?, self.room::<u32>()?);
        let time = self.call_with(helper::KTIME_GET_NS, ())?;
        self.put(now, &time);
        let of_session = self.shared_word(offset_of!(SharedHeader, window_until));
        self.jump_if(of_session.place::<u64>().gt(time), holds);
        let area = self.area(key, not);
        let time = self.get(now);
        self.jump_if(area.at(field!(Header, window_until)).gt(&time), holds);
        let slot = self.thread_slot(&area, not);
        self.choose(slot.at(field!(Slot, window_until)).gt(time), ways);
        self.give_back(mark);
        Ok(())
    }

    /// The area of the process; or there is none.
    fn area(&mut self, key: Local<u32>, none: Label) -> Pointer<Header> {
        let areas = self.maps.shared(Entry::areas());
        let entry = self.get(self.entry);
        self.jump_if(entry.eq(0), none);
        let index = self.get(Memory::new(entry, AREA_INDEX_AT.into(), Size::W));
        self.jump_if(index.eq(0), none);
        self.put(key, index);
        let area = self.invoke(helper::MAP_LOOKUP, (map(areas), key.address()));
        self.jump_if(area.eq(0), none);
        self.put(key, 0);
        let header = self.invoke(helper::MAP_LOOKUP, (area, key.address()));
        self.jump_if(header.eq(0), none);
        header.to()
    }

    /// The thread's slot in an area; or it has none.
    fn thread_slot(&mut self, area: &Pointer<Header>, none: Label) -> Pointer<Slot> {
        let entry = self.get(self.entry);
        self.jump_if(entry.eq(0), none);
        let own = self.get(Memory::new(entry, OWN_ID_AT.into(), Size::W));
        // Slots without a thread have this id.
        self.jump_if(own.eq(0), none);
        let slot = self.scratch().to::<Slot>();
        self.block(|code, found| {
            for probe in 0..PROBES {
                let index = ((&own + probe) & (SLOTS - 1)) + 1;
                code.set(&slot, (index << SLOT_BYTES.trailing_zeros()) + area);
                code.jump_if(slot.at(field!(Slot, thread)).eq(&own), found);
            }
            code.jump(none);
        });
        slot
    }
}
