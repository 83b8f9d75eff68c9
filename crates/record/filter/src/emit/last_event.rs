//! What lasts from one event to the next: counters, and what is kept for each thread.

use crate::emit::code::{Code, Held, Next, Stop, ThreadPlaces, Ways};
use crate::maps::EVENTS;
use crate::target::ContextWord;
use crate::typed::Kept;
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_bpf::op::{AtomicOp, Cond, Size};

impl Code<'_> {
    /// `dst =` address of a counter. Changes `other`, too.
    fn counter(&mut self, dst: Reg, other: Reg, counter: u16) {
        self.changed(dst);
        if let Some(map) = self.needs.counters {
            self.b.map_value(dst, map, u32::from(counter) * 8);
        }
        if self.is_kernel() {
            self.load_event(other);
            self.b.and(other, EVENTS as i32 - 1);
            self.b.mul(other, i32::from(self.plan.counters) * 8);
            self.b.add(dst, other);
        }
    }

    /// `dst =` what stands for the event on the kernel's side.
    fn load_event(&mut self, dst: Reg) {
        let number = self.maps.event_number(&self.plan.event);
        self.load_context(dst, ContextWord::Event(number as u32));
    }

    /// `dst =` what the counter was, before 1 was added to it. Changes `pointer`.
    fn count_up(&mut self, pointer: Reg, dst: Reg, counter: u16) {
        self.counter(pointer, dst, counter);
        self.changed(dst);
        self.b.mov(dst, 1);
        self.b.atomic(AtomicOp::FetchAdd, Size::DW, pointer, 0, dst);
    }

    pub(in crate::emit) fn every(&mut self, n: u64, counter: u16, ways: Ways) -> Result<(), Stop> {
        let (pointer, old) = (self.alloc()?, self.alloc()?);
        self.count_up(pointer.reg, old.reg, counter);
        match i32::try_from(n) {
            Ok(n) if n > 0 => self.b.modulo(old.reg, n),
            _ => {
                self.b.constant(pointer.reg, n);
                self.b.modulo(old.reg, pointer.reg);
            }
        }
        self.decide(Cond::Eq, old.reg, 0, ways);
        self.release(pointer);
        self.release(old);
        Ok(())
    }

    pub(in crate::emit) fn first(&mut self, n: u64, counter: u16, ways: Ways) -> Result<(), Stop> {
        let (pointer, old) = (self.alloc()?, self.alloc()?);
        self.counter(pointer.reg, old.reg, counter);
        // Once they are over, no thread writes any more.
        self.b.load(Size::DW, old.reg, pointer.reg, 0);
        let on = self.label();
        self.against(Cond::Ge, old.reg, n, (ways.1, on, Next::False))?;
        self.bind(on);
        self.count_up(pointer.reg, old.reg, counter);
        self.against(Cond::Lt, old.reg, n, ways)?;
        self.release(pointer);
        self.release(old);
        Ok(())
    }

    /// The counter's upper half is the number of the span, the lower one how many were let through in it. The first in
    /// a new span puts its number there; a thread that loses that race is one of those that come after.
    pub(in crate::emit) fn limit(&mut self, n: u32, ns: u64, counter: u16, ways: Ways) -> Result<(), Stop> {
        let (holds, not, _) = ways;
        self.call(helper::KTIME_GET_NS)?;
        if !self.is_reachable() {
            return Ok(());
        }
        let (span, pointer, old, part) = (Reg::R0, Reg::R2, Reg::R3, Reg::R4);
        [span, pointer, old, part, Reg::R5].into_iter().for_each(|reg| self.changed(reg));
        self.b.constant(Reg::R5, ns);
        self.b.div(span, Reg::R5);
        self.b.lsh(span, 32);
        self.counter(pointer, old, counter);
        self.b.load(Size::DW, old, pointer, 0);
        self.b.mov(part, old);
        self.b.rsh(part, 32);
        self.b.lsh(part, 32);
        let (same, lost) = (self.label(), self.label());
        self.branch(Cond::Eq, part, span, same);
        self.b.mov(Reg::R5, span);
        self.b.mov(part, span);
        self.b.or(part, 1);
        self.b.mov(Reg::R0, old);
        self.b.atomic(AtomicOp::CmpXchg, Size::DW, pointer, 0, part);
        self.branch(Cond::Eq, Reg::R0, old, holds);
        self.jump(lost);
        self.bind(same);
        self.b.mov(Reg::R5, span);
        self.b.mov32(old, old);
        self.branch(Cond::Ge, old, n as i32, not);
        self.bind(lost);
        self.b.mov(old, 1);
        self.b.atomic(AtomicOp::FetchAdd, Size::DW, pointer, 0, old);
        // Within its span, and one of the first.
        self.b.sub(old, Reg::R5);
        self.decide(Cond::Lt, old, n as i32, ways);
        Ok(())
    }

    pub(in crate::emit) fn sample(&mut self, part: u64, ways: Ways) -> Result<(), Stop> {
        self.call(helper::GET_PRANDOM_U32)?;
        self.hold_result()?;
        self.against(Cond::Lt, Reg::R0, part, ways)?;
        self.drop_result();
        Ok(())
    }

    // Of each thread.

    /// At the program's beginning: finds what was kept of the thread's last event.
    pub(in crate::emit) fn look_up_thread(&mut self) -> Result<(), Stop> {
        let Some(map) = self.needs.threads else { return Ok(()) };
        let key_bytes = if self.is_kernel() { 16 } else { 8 };
        let places =
            ThreadPlaces { key: self.reserve(key_bytes)?, pointer: self.reserve(8)?, now: self.reserve(8)? };
        self.thread = places;
        self.call(helper::GET_CURRENT_PID_TGID)?;
        self.b.store(Size::DW, Reg::R10, places.key, Reg::R0);
        if self.is_kernel() {
            self.load_event(Reg::R1);
            self.b.store(Size::DW, Reg::R10, places.key + 8, Reg::R1);
        }
        self.changed(Reg::R1);
        self.b.map(Reg::R1, map);
        self.stack_address(Reg::R2, places.key);
        self.call(helper::MAP_LOOKUP)?;
        self.b.store(Size::DW, Reg::R10, places.pointer, Reg::R0);
        if self.plan.thread.contains(&Kept::Time) {
            self.call(helper::KTIME_GET_NS)?;
            self.b.store(Size::DW, Reg::R10, places.now, Reg::R0);
        }
        Ok(())
    }

    pub(in crate::emit) fn has_last(&mut self, ways: Ways) -> Result<(), Stop> {
        let held = self.alloc()?;
        self.b.load(Size::DW, held.reg, Reg::R10, self.thread.pointer);
        self.decide(Cond::Ne, held.reg, 0, ways);
        self.release(held);
        Ok(())
    }

    /// A value that was kept; fails at the thread's first event, of which there is none.
    pub(in crate::emit) fn kept(&mut self, kept: u16) -> Result<Held, Stop> {
        let held = self.alloc()?;
        self.b.load(Size::DW, held.reg, Reg::R10, self.thread.pointer);
        self.branch(Cond::Eq, held.reg, 0, self.fail);
        self.b.load(Size::DW, held.reg, held.reg, kept as i16 * 8);
        Ok(held)
    }

    /// A value that was kept, or 0 at the thread's first event: what a counter of the kernel's has grown from.
    pub(in crate::emit) fn kept_or_zero(&mut self, kept: u16) -> Result<Held, Stop> {
        let held = self.alloc()?;
        self.b.load(Size::DW, held.reg, Reg::R10, self.thread.pointer);
        let none = self.label();
        self.branch(Cond::Eq, held.reg, 0, none);
        self.b.load(Size::DW, held.reg, held.reg, kept as i16 * 8);
        self.bind(none);
        Ok(held)
    }

    /// ns since the thread's last event of this kind; fails at the first.
    pub(in crate::emit) fn delta(&mut self) -> Result<Held, Stop> {
        let at = self.plan.thread.iter().position(|kept| *kept == Kept::Time).unwrap_or(0);
        let (held, last) = (self.alloc()?, self.alloc()?);
        self.b.load(Size::DW, last.reg, Reg::R10, self.thread.pointer);
        self.branch(Cond::Eq, last.reg, 0, self.fail);
        self.b.load(Size::DW, last.reg, last.reg, at as i16 * 8);
        self.b.load(Size::DW, held.reg, Reg::R10, self.thread.now);
        self.b.sub(held.reg, last.reg);
        self.release(last);
        Ok(held)
    }

    pub(in crate::emit) fn string_kept(&mut self, word: u16, kept: u16, ways: Ways) -> Result<(), Stop> {
        self.string_hash(word)?;
        self.hold_result()?;
        let last = self.kept(kept)?;
        self.decide(Cond::Eq, Reg::R0, last.reg, ways);
        self.release(last);
        self.drop_result();
        Ok(())
    }

    /// At the program's end: keeps what the thread's next event will ask for.
    pub(in crate::emit) fn keep_thread(&mut self) -> Result<(), Stop> {
        let Some(map) = self.needs.threads else { return Ok(()) };
        let plan = self.plan;
        let value = self.reserve(plan.thread.len() as u32 * 8)?;
        for (at, kept) in plan.thread.iter().enumerate() {
            let place = value + at as i16 * 8;
            match kept {
                Kept::Time => {
                    self.changed(Reg::R0);
                    self.b.load(Size::DW, Reg::R0, Reg::R10, self.thread.now);
                }
                Kept::Word(word) => self.load_word(Reg::R0, *word),
                Kept::Published(offset) => {
                    self.changed(Reg::R0);
                    // It was read at the beginning.
                    let now = self.published_now(*offset).unwrap_or(self.thread.now);
                    self.b.load(Size::DW, Reg::R0, Reg::R10, now);
                }
                Kept::StringHash(word) => self.string_hash(*word)?,
            }
            self.b.store(Size::DW, Reg::R10, place, Reg::R0);
        }
        let (new, done) = (self.label(), self.label());
        [Reg::R1, Reg::R2, Reg::R3, Reg::R4].into_iter().for_each(|reg| self.changed(reg));
        self.b.load(Size::DW, Reg::R1, Reg::R10, self.thread.pointer);
        self.branch(Cond::Eq, Reg::R1, 0, new);
        for at in 0..plan.thread.len() as i16 {
            self.b.load(Size::DW, Reg::R2, Reg::R10, value + at * 8);
            self.b.store(Size::DW, Reg::R1, at * 8, Reg::R2);
        }
        self.jump(done);
        self.bind(new);
        self.b.map(Reg::R1, map);
        self.stack_address(Reg::R2, self.thread.key);
        self.stack_address(Reg::R3, value);
        self.changed(Reg::R4);
        self.b.mov(Reg::R4, 0);
        self.call(helper::MAP_UPDATE)?;
        self.bind(done);
        Ok(())
    }
}
