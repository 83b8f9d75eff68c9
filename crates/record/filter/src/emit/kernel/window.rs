//! `$window`: whether kernel events are wanted now, of all threads, of this process, or of this thread.
//!
//! The program that opens a window writes until when it is open: in the memory of the session, in the header of the
//! process's area, or in the thread's slot there ([`mote_layout::cooperation`]). `r2` points to the thread's entry in
//! the thread table when the program starts, or is 0; the entry says which area is that of the process.

use crate::emit::code::{Code, Label, Stop, Ways};
use crate::maps::{AREA_INDEX_AT, Entry, OWN_ID_AT};
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_bpf::op::{Cond, Size};
use mote_layout::cooperation::{Header, PROBES, SLOT_BYTES, SLOTS, SharedHeader, Slot};
use std::mem::offset_of;

impl Code<'_> {
    /// At the program's beginning: keeps the pointer to the thread's entry.
    pub(in crate::emit) fn save_entry(&mut self) -> Result<(), Stop> {
        if self.is_kernel() && self.needs.window {
            self.needs_all_registers()?;
            self.entry = self.reserve(8)?;
            self.b.store(Size::DW, Reg::R10, self.entry, Reg::R2);
        }
        Ok(())
    }

    /// Whether a window is open.
    pub(in crate::emit) fn window(&mut self, ways: Ways) -> Result<(), Stop> {
        let (holds, not, _) = ways;
        let mark = self.stack_mark();
        let (now, key) = (self.reserve(8)?, self.reserve(8)?);
        self.call(helper::KTIME_GET_NS)?;
        self.b.store(Size::DW, Reg::R10, now, Reg::R0);
        self.shared_word(Reg::R1, offset_of!(SharedHeader, window_until));
        self.b.load(Size::DW, Reg::R1, Reg::R1, 0);
        self.branch(Cond::Gt, Reg::R1, Reg::R0, holds);
        self.area(key, not)?;
        [Reg::R1, Reg::R3].into_iter().for_each(|reg| self.changed(reg));
        self.b.load(Size::DW, Reg::R3, Reg::R10, now);
        self.b.load(Size::DW, Reg::R1, Reg::R0, offset_of!(Header, window_until) as i16);
        self.branch(Cond::Gt, Reg::R1, Reg::R3, holds);
        self.thread_slot(not)?;
        self.b.load(Size::DW, Reg::R1, Reg::R0, offset_of!(Slot, window_until) as i16);
        self.decide(Cond::Gt, Reg::R1, Reg::R3, ways);
        self.give_back(mark);
        Ok(())
    }

    /// `r0 =` the area of the process; or there is none.
    fn area(&mut self, key: i16, none: Label) -> Result<(), Stop> {
        let areas = self.maps.shared(Entry::areas());
        self.changed(Reg::R1);
        self.b.load(Size::DW, Reg::R1, Reg::R10, self.entry);
        self.branch(Cond::Eq, Reg::R1, 0, none);
        self.b.load(Size::W, Reg::R1, Reg::R1, AREA_INDEX_AT);
        self.branch(Cond::Eq, Reg::R1, 0, none);
        self.b.store(Size::W, Reg::R10, key, Reg::R1);
        self.b.map(Reg::R1, areas);
        self.stack_address(Reg::R2, key);
        self.call(helper::MAP_LOOKUP)?;
        self.branch(Cond::Eq, Reg::R0, 0, none);
        self.b.store(Size::W, Reg::R10, key, 0);
        self.changed(Reg::R1);
        self.b.mov(Reg::R1, Reg::R0);
        self.stack_address(Reg::R2, key);
        self.call(helper::MAP_LOOKUP)?;
        self.branch(Cond::Eq, Reg::R0, 0, none);
        Ok(())
    }

    /// From the area in `r0` to the thread's slot; or it has none. Keeps `r3`.
    fn thread_slot(&mut self, none: Label) -> Result<(), Stop> {
        let found = self.label();
        [Reg::R0, Reg::R1, Reg::R2, Reg::R4, Reg::R5].into_iter().for_each(|reg| self.changed(reg));
        self.b.load(Size::DW, Reg::R1, Reg::R10, self.entry);
        self.branch(Cond::Eq, Reg::R1, 0, none);
        self.b.load(Size::W, Reg::R1, Reg::R1, OWN_ID_AT);
        // Slots without a thread have this id.
        self.branch(Cond::Eq, Reg::R1, 0, none);
        self.b.mov(Reg::R4, Reg::R0);
        for probe in 0..PROBES as i32 {
            let next = self.label();
            self.b.mov(Reg::R2, Reg::R1);
            self.b.add(Reg::R2, probe);
            self.b.and(Reg::R2, SLOTS as i32 - 1);
            self.b.add(Reg::R2, 1);
            self.b.lsh(Reg::R2, SLOT_BYTES.trailing_zeros() as i32);
            self.b.mov(Reg::R0, Reg::R4);
            self.b.add(Reg::R0, Reg::R2);
            self.b.load(Size::W, Reg::R5, Reg::R0, offset_of!(Slot, thread) as i16);
            self.branch(Cond::Eq, Reg::R5, Reg::R1, found);
            self.bind(next);
        }
        self.jump(none);
        self.bind(found);
        Ok(())
    }
}
