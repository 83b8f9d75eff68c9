//! What lasts from one event to the next: counters, and what is kept for each thread.

use crate::emit::code::{Code, Held, Stop, ThreadKey, ThreadPlaces, Ways};
use crate::maps::EVENTS;
use crate::target::ContextWord;
use crate::typed::Kept;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Local, Memory, Value, field, map, map_value};

/// The number of a span of time is in the upper half of a counter of [`Code::limit`].
const SPAN_SHIFT: u32 = 32;

impl Code<'_> {
    /// The address of a counter.
    fn counter(&mut self, counter: u16) -> Expr {
        let first = match self.needs.counters {
            Some(map) => map_value(map, u32::from(counter) * 8),
            None => Expr::from(0),
        };
        if !self.is_kernel() {
            return first;
        }
        let event = self.event();
        first + (event & (EVENTS - 1)) * (u32::from(self.plan.counters) * 8)
    }

    /// What stands for the event on the kernel's side.
    fn event(&mut self) -> Memory {
        let number = self.maps.event_number(&self.plan.event);
        self.given(ContextWord::Event(number as u32))
    }

    pub(in crate::emit) fn every(&mut self, n: u64, counter: u16, ways: Ways) -> Result<(), Stop> {
        let counter = self.counter(counter);
        let before = self.fetch_add(counter.place::<u64>(), 1);
        self.choose((before % n).eq(0), ways);
        Ok(())
    }

    pub(in crate::emit) fn first(&mut self, n: u64, counter: u16, ways: Ways) -> Result<(), Stop> {
        let counter = self.counter(counter);
        let counter = self.get(counter);
        // Once they are over, no thread writes any more.
        self.jump_if(Expr::from(&counter).place::<u64>().ge(n), ways.1);
        let before = self.fetch_add(Expr::from(counter).place::<u64>(), 1);
        self.choose(before.lt(n), ways);
        Ok(())
    }

    /// The counter's upper half is the number of the span, the lower one how many were let through in it. The first in
    /// a new span puts its number there; a thread that loses that race is one of those that come after.
    pub(in crate::emit) fn limit(&mut self, n: u32, ns: u64, counter: u16, ways: Ways) -> Result<(), Stop> {
        let (holds, not, _) = ways;
        let now = self.call_with(helper::KTIME_GET_NS, ())?;
        // Not in `r0`, which a compare-and-swap needs.
        let span = self.scratch();
        self.set(&span, (now / ns) << SPAN_SHIFT);
        let counter = self.counter(counter);
        let counter = self.get(counter);
        let place = || Expr::from(&counter).place::<u64>();
        let old = self.get(place());
        self.block(|code, counted| {
            code.when(((&old >> SPAN_SHIFT) << SPAN_SHIFT).ne(&span), |code| {
                let found = code.compare_exchange(place(), &old, &span | 1);
                code.jump_if(found.eq(&old), holds);
                code.jump(counted);
            });
            code.jump_if(old.low().ge(n), not);
        });
        // Within its span, and one of the first.
        let before = self.fetch_add(place(), 1);
        self.choose((before - span).lt(n), ways);
        Ok(())
    }

    pub(in crate::emit) fn sample(&mut self, part: u64, ways: Ways) -> Result<(), Stop> {
        let random = self.call_with(helper::GET_PRANDOM_U32, ())?;
        self.choose(random.lt(part), ways);
        Ok(())
    }

    // Of each thread.

    /// At the program's beginning: finds what was kept of the thread's last event.
    pub(in crate::emit) fn look_up_thread(&mut self) -> Result<(), Stop> {
        let Some(threads) = self.needs.threads else { return Ok(()) };
        let key = if self.is_kernel() { self.room::<ThreadKey>()? } else { Local::at(self.reserve(8)?) };
        let places = ThreadPlaces { key, pointer: self.room()?, now: self.room()? };
        self.thread = places;
        let thread = self.call_with(helper::GET_CURRENT_PID_TGID, ())?;
        self.put(key.member(field!(ThreadKey, thread)), thread);
        if self.is_kernel() {
            let event = self.event();
            self.put(key.member(field!(ThreadKey, event)), event);
        }
        let found = self.invoke(helper::MAP_LOOKUP, (map(threads), key.address()));
        self.put(places.pointer, found);
        if self.plan.thread.contains(&Kept::Time) {
            let now = self.invoke(helper::KTIME_GET_NS, ());
            self.put(places.now, now);
        }
        Ok(())
    }

    pub(in crate::emit) fn has_last(&mut self, ways: Ways) -> Result<(), Stop> {
        self.choose(self.thread.pointer.ne(0), ways);
        Ok(())
    }

    /// Where a value of the thread's last event is, behind the pointer.
    fn kept_at(pointer: impl Into<Expr>, kept: usize) -> Memory {
        Memory::new(pointer, (kept * 8) as i32, Size::DW)
    }

    /// What was kept of the thread's last event; fails at its first event, before which there is none.
    fn last_event(&mut self) -> Value {
        let last = self.get(self.thread.pointer);
        self.jump_if(last.eq(0), self.fail);
        last
    }

    /// A value that was kept.
    pub(in crate::emit) fn kept(&mut self, kept: u16) -> Result<Held, Stop> {
        let last = self.last_event();
        let value = self.get(Code::kept_at(last, kept.into()));
        Ok(self.held(value))
    }

    /// A value that was kept, or 0 at the thread's first event: what a counter of the kernel's has grown from.
    pub(in crate::emit) fn kept_or_zero(&mut self, kept: u16) -> Result<Held, Stop> {
        let last = self.get(self.thread.pointer);
        self.when(last.ne(0), |code| code.set(&last, Code::kept_at(&last, kept.into())));
        Ok(self.held(last))
    }

    /// ns since the thread's last event of this kind; fails at the first.
    pub(in crate::emit) fn delta(&mut self) -> Result<Held, Stop> {
        let at = self.plan.thread.iter().position(|kept| *kept == Kept::Time).unwrap_or(0);
        let last = self.last_event();
        let delta = self.get(self.thread.now - Code::kept_at(last, at));
        Ok(self.held(delta))
    }

    pub(in crate::emit) fn string_kept(&mut self, word: u16, kept: u16, ways: Ways) -> Result<(), Stop> {
        let hash = self.string_hash(word)?;
        let last = self.last_event();
        self.choose(hash.eq(Code::kept_at(last, kept.into())), ways);
        Ok(())
    }

    /// At the program's end: keeps what the thread's next event will ask for.
    pub(in crate::emit) fn keep_thread(&mut self) -> Result<(), Stop> {
        let Some(threads) = self.needs.threads else { return Ok(()) };
        let plan = self.plan;
        let value = self.reserve(plan.thread.len() as u32 * 8)?;
        let place = |at: usize| Local::<u64>::at(value + at as i16 * 8);
        for (at, kept) in plan.thread.iter().enumerate() {
            let now: Expr = match kept {
                Kept::Time => self.thread.now.into(),
                Kept::Word(word) => self.event_word(*word).into(),
                // It was read at the beginning.
                Kept::Published(offset) => self.published_now(*offset).unwrap_or(self.thread.now).into(),
                Kept::StringHash(word) => self.string_hash(*word)?.into(),
            };
            self.put(place(at), now);
        }
        let last = self.get(self.thread.pointer);
        self.either(
            last.ne(0),
            |code| {
                let all = 0..plan.thread.len();
                all.for_each(|at| code.put(Code::kept_at(&last, at), place(at)));
                Ok(())
            },
            |code| {
                let key = code.thread.key.address();
                code.call_only(helper::MAP_UPDATE, (map(threads), key, place(0).address(), 0))
            },
        )
        .1
    }
}
