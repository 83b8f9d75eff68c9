//! Maps without helpers of our own.

use crate::emit::code::{Code, Stop};
use crate::maps::{Entry, dropped_offset};
use mote_bpf::Reg;
use mote_bpf::helper::{self, BUCKETS, SUB_BUCKETS};
use mote_bpf::op::{AtomicOp, Cond, Size};

/// `BPF_NOEXIST`: only when there is no such key.
const NEW: i32 = 1;

impl Code<'_> {
    /// Adds 1 to the value of a key on the stack; counts what does not fit.
    pub(in crate::emit) fn kernel_add_one(&mut self, map: u32, key: i16) -> Result<(), Stop> {
        let dropped = self.maps.shared(Entry::dropped());
        let mark = self.stack_mark();
        let one = self.reserve(8)?;
        let (absent, add, done) = (self.label(), self.label(), self.label());
        self.find(map, key)?;
        self.branch(Cond::Eq, Reg::R0, 0, absent);
        self.bind(add);
        self.changed(Reg::R1);
        self.b.mov(Reg::R1, 1);
        self.b.atomic(AtomicOp::Add, Size::DW, Reg::R0, 0, Reg::R1);
        self.jump(done);
        self.bind(absent);
        self.b.store(Size::DW, Reg::R10, one, 1);
        self.changed(Reg::R1);
        self.b.map(Reg::R1, map);
        self.stack_address(Reg::R2, key);
        self.stack_address(Reg::R3, one);
        self.changed(Reg::R4);
        self.b.mov(Reg::R4, NEW);
        self.call(helper::MAP_UPDATE)?;
        self.branch(Cond::Eq, Reg::R0, 0, done);
        // Another CPU was faster, or there is no room.
        let (full, again) = (self.label(), self.label());
        self.find(map, key)?;
        self.branch(Cond::Ne, Reg::R0, 0, again);
        self.bind(full);
        self.changed(Reg::R0);
        self.b.map_value(Reg::R0, dropped, dropped_offset(map));
        self.bind(again);
        self.changed(Reg::R1);
        self.b.mov(Reg::R1, 1);
        self.b.atomic(AtomicOp::Add, Size::DW, Reg::R0, 0, Reg::R1);
        self.bind(done);
        self.give_back(mark);
        Ok(())
    }

    /// The value of a key on the stack, or null, into `r0`.
    fn find(&mut self, map: u32, key: i16) -> Result<(), Stop> {
        self.changed(Reg::R1);
        self.b.map(Reg::R1, map);
        self.stack_address(Reg::R2, key);
        self.call(helper::MAP_LOOKUP)
    }

    /// `r0 =` bucket of the value in `r1` ([`helper::bucket`]). Without branches but one: the kernel's verifier follows
    /// all ways.
    pub(in crate::emit) fn kernel_log_linear(&mut self) -> Result<(), Stop> {
        self.needs_all_registers()?;
        let (bits, other, mask) = (Reg::R0, Reg::R2, Reg::R3);
        [bits, other, mask].into_iter().for_each(|reg| self.changed(reg));
        let (end, large) = (self.label(), self.label());
        self.b.mov(bits, Reg::R1);
        self.branch(Cond::Lt, Reg::R1, SUB_BUCKETS as i32, end);
        // All bits below the highest one, and then how many there are.
        for by in [1, 2, 4, 8, 16, 32] {
            self.b.mov(other, bits);
            self.b.rsh(other, by);
            self.b.or(bits, other);
        }
        self.b.mov(other, bits);
        self.b.rsh(other, 1);
        self.b.constant(mask, 0x5555_5555_5555_5555);
        self.b.and(other, mask);
        self.b.sub(bits, other);
        self.b.mov(other, bits);
        self.b.rsh(other, 2);
        self.b.constant(mask, 0x3333_3333_3333_3333);
        self.b.and(other, mask);
        self.b.and(bits, mask);
        self.b.add(bits, other);
        self.b.mov(other, bits);
        self.b.rsh(other, 4);
        self.b.add(bits, other);
        self.b.constant(mask, 0x0f0f_0f0f_0f0f_0f0f);
        self.b.and(bits, mask);
        self.b.constant(mask, 0x0101_0101_0101_0101);
        self.b.mul(bits, mask);
        self.b.rsh(bits, 56);
        // The three bits behind the highest one.
        let lowest = SUB_BUCKETS.trailing_zeros() as i32 + 1;
        self.b.mov(other, bits);
        self.b.sub(other, lowest);
        self.changed(Reg::R1);
        self.b.rsh(Reg::R1, other);
        self.b.and(Reg::R1, SUB_BUCKETS as i32 - 1);
        self.b.sub(bits, lowest - 1);
        self.b.lsh(bits, SUB_BUCKETS.trailing_zeros() as i32);
        self.b.add(bits, Reg::R1);
        self.branch(Cond::Lt, bits, BUCKETS as i32, end);
        self.bind(large);
        self.b.mov(bits, BUCKETS as i32 - 1);
        self.bind(end);
        Ok(())
    }

    /// Writes `size` bytes of the stack into the next of `entries` entries: what the helper `keep_last` does.
    pub(in crate::emit) fn kernel_keep_last(
        &mut self,
        map: u32,
        entries: u32,
        data: i16,
        size: u32,
    ) -> Result<(), Stop> {
        let mark = self.stack_mark();
        let (index, number) = (self.reserve(8)?, self.reserve(8)?);
        let done = self.label();
        self.b.store(Size::W, Reg::R10, index, 0);
        self.find(map, index)?;
        self.branch(Cond::Eq, Reg::R0, 0, done);
        self.changed(Reg::R1);
        self.b.mov(Reg::R1, 1);
        self.b.atomic(AtomicOp::FetchAdd, Size::DW, Reg::R0, 0, Reg::R1);
        self.changed(Reg::R2);
        self.b.mov(Reg::R2, Reg::R1);
        self.b.add(Reg::R2, 1);
        self.b.store(Size::DW, Reg::R10, number, Reg::R2);
        self.b.modulo(Reg::R1, entries as i32);
        self.b.add(Reg::R1, 1);
        self.b.store(Size::W, Reg::R10, index, Reg::R1);
        self.find(map, index)?;
        self.branch(Cond::Eq, Reg::R0, 0, done);
        // Readers pass over an entry that is being written.
        self.b.store(Size::DW, Reg::R0, 0, 0);
        self.changed(Reg::R1);
        for at in (0..size as i16).step_by(8) {
            self.b.load(Size::DW, Reg::R1, Reg::R10, data + at);
            self.b.store(Size::DW, Reg::R0, 8 + at, Reg::R1);
        }
        self.b.load(Size::DW, Reg::R1, Reg::R10, number);
        self.b.store(Size::DW, Reg::R0, 0, Reg::R1);
        self.bind(done);
        self.give_back(mark);
        Ok(())
    }
}
