//! The state of one event.
//!
//! # Parties
//! Threads and signal handlers that come by a site; the control path (`session`), which alone writes.
//! # State
//! `gate` says what is between the event and its destinations:
//! - null: nothing; there is one destination;
//! - [`CLOSED`]: the event is off. What comes by is what has begun before it was switched off;
//! - a [`Filter`]: it decides; there is one destination;
//! - a [`Multicast`], as a negative number: it has the destinations, and their filters.
//!
//! `destination` is the one destination, channel and id in one word; 0 when there is none. When a multicast has come
//! into its place, or the event is off, what it was stays there as long as its session has the event on: for what has
//! begun before.
//!
//! `direct` is not 0 while there is one destination and nothing is in front of it: then it says all that a small event
//! needs to know, in one word ([`Direct`]).
//!
//! `switch` says whether sites lead here: how sessions have the event on, and whether the program has probes of its own
//! at it (`probes`). The gate knows nothing of those.
//!
//! # Ordering
//! A. `gate` is written with release after `destination`, read with acquire: what comes through an open gate, or is
//!    let through by a filter, finds the destination of that time, or none, if its session has let go of the event.
//! B. A filter is whole before `gate` points to it (same pairing), and freed a grace period after `gate` points
//!    elsewhere: it is followed inside of a read section only. The same holds for multicasts, and for filters behind
//!    multicasts.
//! C. One destination does not take the place of another one directly: it is 0 in between, and (`settled`) long enough
//!    for every thread that has begun before to come to its end. So a session gets nothing that was meant for another
//!    one. Meanwhile the session has a multicast.
//! D. `direct` is set after the gate was opened, and 0 again before the gate or the destination changes: what goes by
//!    it is recorded as what has come through the open gate of that time.
//!
//! An event that has begun unfiltered is recorded unfiltered even if a filter comes before it is written. An event that
//! was off is never let through unfiltered because its switching on was seen in parts: its gate was closed, or it was
//! never on, and the program had no probe of its own there.

use crate::channel::{ADDRESS_BITS, Channel};
use crate::filter::{self, Engine, Filter};
use crate::multicast::{Destination, Destinations, Multicast, Multicasts, Verdicts};
use crate::speculation::by_key;
use crate::stack::Here;
use crate::{channel, shared, speculation};
use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use mote_layout::context::{DROP, KEPT, RECORD, SPECULATE};
use mote_layout::site::{PROBED, STACK, SWITCH_OFFSET, Switch};
use mote_ring::direct::WriteTo;
use mote_ring::timing::{Noted, Noting};
use mote_ring::writer::Payload;
use mote_ring::{Direct, Record};

/// Address of no filter, in the gate of an event that is off.
const CLOSED: *mut Filter = core::ptr::without_provenance_mut(1);
/// Set in a gate that leads to a multicast: no address of a process has it.
const MULTICAST: usize = 1 << (usize::BITS - 1);

/// State of one event, which its sites, its probe, and the agent share; within one line of the cache. `mote.h` has the
/// same.
///
/// # Invariants
/// `channel-never-freed`: `destination` is 0 or holds the address of a [`Channel`] that lives as long as the process.
/// `direct-or-none`: `direct` is 0 or the word of a [`Direct`].
/// `gate-outlives-section`: `gate` is null, [`CLOSED`], points to a [`Filter`] that lives until a grace period after it
/// was replaced, or leads to a [`Multicast`] of which the same holds, and whose filters do.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Event {
    /// Address of a channel below, the id above [`ADDRESS_BITS`].
    destination: AtomicU64,
    gate: AtomicPtr<Filter>,
    /// By which sessions know it (`event_ids`); 0 when they do not.
    number: AtomicU32,
    switch: AtomicU32,
    /// [`Direct::word`], or 0.
    direct: AtomicU64,
}
const _: () = assert!(size_of::<Event>() == 32 && core::mem::offset_of!(Event, switch) == SWITCH_OFFSET);

/// What is between an event and its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// Several sessions have it, with filters or without.
    Sessions,
    /// A filter, or the event is off.
    Filter,
}

/// The filter has ended with a fault, or claims so.
pub const FAULTED: u64 = u64::MAX;

impl Event {
    /// An event that is off and unknown to any session.
    pub const fn new() -> Event {
        Event {
            destination: AtomicU64::new(0),
            gate: AtomicPtr::new(core::ptr::null_mut()),
            number: AtomicU32::new(0),
            switch: AtomicU32::new(0),
            direct: AtomicU64::new(0),
        }
    }

    /// The shortest way to the event's destination; `None` while it is off, or something has to be looked at first.
    ///
    /// # Cost
    /// One load.
    #[inline(always)]
    pub fn direct(&self) -> Option<Direct> {
        // Acquire pairs with the release in `send_to_one`: the channel's fields are set.
        // SAFETY: `direct-or-none`.
        unsafe { Direct::of(self.direct.load(Ordering::Acquire)) }
    }

    /// The channel to write to, and the event's id there; `None` while it is off, or goes to several sessions.
    ///
    /// # Cost
    /// One load.
    #[inline(always)]
    pub fn destination(&self) -> Option<(&'static Channel, u16)> {
        // Acquire pairs with the release in `send`: the channel's fields are set.
        let word = self.destination.load(Ordering::Acquire);
        if word == 0 {
            return None;
        }
        const ID_BITS: u32 = u64::BITS - ADDRESS_BITS;
        let channel: *const Channel =
            core::ptr::with_exposed_provenance((word << ID_BITS >> ID_BITS) as usize);
        // SAFETY: `channel-never-freed`.
        Some((unsafe { &*channel }, (word >> ADDRESS_BITS) as u16))
    }

    /// Whether a site that tests instead of being patched should go on.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.switch.load(Ordering::Relaxed) != 0
    }

    /// Whether a session wants stacks with the event: the function of ours that the program calls notes where it is
    /// ([`crate::stack::Here`]) before the event is recorded. Never so while there is a shortest way.
    ///
    /// # Cost
    /// One load and one test.
    #[inline(always)]
    pub fn has_stack(&self) -> bool {
        self.switch.load(Ordering::Relaxed) & STACK != 0
    }

    /// Does something that may record the event, in a function that the program has called, into which this is inlined.
    #[inline(always)]
    pub fn noting_here<R>(&self, work: impl FnOnce() -> R) -> R {
        if self.has_stack() {
            core::hint::cold_path();
            return Here::now().have(work);
        }
        work()
    }

    /// Whether the program has probes of its own at the event.
    #[inline(always)]
    pub fn is_probed(&self) -> bool {
        self.switch.load(Ordering::Relaxed) & PROBED != 0
    }

    /// Whether a session has the event on.
    #[inline(always)]
    pub fn is_recorded(&self) -> bool {
        self.switch.load(Ordering::Relaxed) & !PROBED != 0
    }

    /// Notes whether the program has probes of its own at the event. With the control path held.
    ///
    /// Passes then come by an event that is off. One that was never on has an open gate, which is closed first: else a
    /// pass could find it open, and then the destination of a session whose filter comes a moment later.
    pub(crate) fn set_probed(&self, is_probed: bool) {
        if is_probed && !self.is_recorded() {
            self.gate.store(CLOSED, Ordering::Release);
        }
        let how = self.switch.load(Ordering::Relaxed) & !PROBED;
        self.switch.store(how | if is_probed { PROBED } else { 0 }, Ordering::Release);
    }

    /// Notes how sessions have the event on, 0 for not at all. With the control path held.
    fn set_switch(&self, how: u32) {
        let probed = self.switch.load(Ordering::Relaxed) & PROBED;
        self.switch.store(probed | how, Ordering::Release);
    }

    /// True when something is between the event and its channel: [`Event::judge`] is to be asked before it is recorded.
    ///
    /// # Cost
    /// One load and one test.
    #[inline(always)]
    pub fn is_gated(&self) -> bool {
        !self.gate.load(Ordering::Acquire).is_null()
    }

    /// What is between the event and its channel, as the gate says.
    ///
    /// # Cost
    /// One load and one test.
    #[inline(always)]
    pub fn between(&self) -> Between {
        match self.gate.load(Ordering::Acquire).addr() as isize {
            0 => Between::Nothing,
            ..0 => Between::Sessions,
            _ => Between::Filter,
        }
    }

    /// Writes a record to each of the several sessions that have the event on, if no filter is in front of any of
    /// them. False when it has to be judged; nothing was done then. Where a record could not be written, `otherwise`
    /// gets that way and those behind it, up to the first that is none: so nothing has to outlive a call on the way.
    ///
    /// The time is read once for two records ([`mote_ring::timing`]).
    ///
    /// What the gate leads to is read and gone by in one section: no session is written to that was not meant.
    ///
    /// # Signal safety
    /// Callable from a handler, as both have to be.
    ///
    /// # Cost
    /// Bench `event_cost`, case `two_sessions/rseq`.
    #[inline(always)]
    pub fn each_direct(&self, record: &impl WriteTo, otherwise: impl FnOnce(&[Option<Direct>])) -> bool {
        let Some(section) = filter::read_again() else { return false };
        let mut done = false;
        if let Some(multicast) = multicast_of(self.gate.load(Ordering::Acquire)) {
            // SAFETY: `gate-outlives-section`; we are in a read section.
            let ways = unsafe { &*multicast }.direct();
            done = matches!(ways, [Some(_), ..]);
            write_each(ways, record, otherwise);
        }
        drop(section);
        done
    }

    /// What is to become of this occurrence of the event, whose context is `words`: `DROP`, `RECORD`, `SPECULATE` or
    /// `KEPT` (`mote_layout::context`).
    ///
    /// # Safety
    /// `words` must point to the words of this event's description.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub unsafe fn judge(&self, words: *const u64) -> u64 {
        // SAFETY: the caller's promise.
        match unsafe { self.ask(words) } {
            // SAFETY: the caller's promise.
            FAULTED => unsafe { self.judge_fault(words) },
            verdict => verdict,
        }
    }

    /// As [`Event::judge`], but for faults, of which it answers [`FAULTED`]: [`Event::judge_fault`] is to be asked
    /// then. It needs nothing of what its caller holds in registers, which makes it quick to say no.
    ///
    /// # Safety
    /// `words` must point to the words of this event's description.
    ///
    /// # Signal safety
    /// Callable from a handler.
    ///
    /// # Cost
    /// Bench `filter`. No allocation; no system call but those of the filter's helpers.
    #[inline(always)]
    pub unsafe fn ask(&self, words: *const u64) -> u64 {
        let Some(section) = filter::read_again() else {
            // SAFETY: the caller's promise.
            return unsafe { self.ask_first(words) };
        };
        // SAFETY: the caller's promise; we are in a read section.
        let verdict = unsafe { self.ask_inside(words) };
        drop(section);
        verdict
    }

    /// As `ask`, for a thread that asks for the first time.
    #[cold]
    #[inline(never)]
    unsafe fn ask_first(&self, words: *const u64) -> u64 {
        let section = filter::read();
        // SAFETY: the caller's promise; we are in a read section.
        let verdict = unsafe { self.ask_inside(words) };
        drop(section);
        verdict
    }

    /// # Safety
    /// As for `ask`; the caller is in a read section.
    #[inline(always)]
    unsafe fn ask_inside(&self, words: *const u64) -> u64 {
        // Ordering B.
        let gate = self.gate.load(Ordering::Acquire);
        // One test for all that are no filters: multicasts are negative.
        if gate.addr() as isize <= CLOSED.addr() as isize {
            // SAFETY: the caller's promise; we are in a read section.
            return unsafe { without_filter(gate, words) };
        }
        // SAFETY: `gate-outlives-section`; we are in a read section.
        let filter = unsafe { &*gate.cast_const() };
        // SAFETY: the caller's promise; the filter was verified for this event's description.
        if unsafe { filter.drops_at_once(words) } {
            return DROP;
        }
        // SAFETY: as above.
        match unsafe { filter.run(words) } {
            Ok(verdict) => verdict,
            Err(_) => {
                // Branches that are foreseen cost less here than a word made of both.
                core::hint::cold_path();
                FAULTED
            }
        }
    }

    /// Counts a fault and says what becomes of the occurrence.
    ///
    /// # Safety
    /// `words` must point to the words of this event's description.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[cold]
    #[inline(never)]
    pub unsafe fn judge_fault(&self, words: *const u64) -> u64 {
        let section = filter::read();
        // If another one has come meanwhile, it is for the same words.
        let verdict = self.own_filter().map_or(DROP, |Destination { channel, filter, id }| {
            // SAFETY: `gate-outlives-section`; we are in a read section.
            let filter = unsafe { filter.as_ref() };
            // SAFETY: the caller's promise.
            let keep = filter.is_some_and(|filter| unsafe { filter.can_keep(words) });
            shared::faulted(channel, id, keep)
        });
        drop(section);
        verdict
    }

    /// The one destination with its filter as it is now, which may be behind a multicast. In a read section.
    fn own_filter(&self) -> Option<Destination> {
        let (channel, id) = self.destination()?;
        let gate = self.gate.load(Ordering::Acquire);
        match multicast_of(gate) {
            // SAFETY: `gate-outlives-section`; the caller is in a read section.
            Some(multicast) => unsafe { &*multicast }.to.of(channel).copied(),
            None => Some(Destination { channel, filter: filter_of(gate), id }),
        }
    }

    /// Counts an occurrence that cannot be judged because what it points to cannot be read. Returns as
    /// [`Event::judge`]; the caller has put something else in its place.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub fn fault(&self) -> u64 {
        let section = filter::read();
        let verdict = match multicast_of(self.gate.load(Ordering::Acquire)) {
            Some(multicast) => {
                // SAFETY: `gate-outlives-section`; we are in a read section.
                let multicast = unsafe { &*multicast };
                // SAFETY: as above.
                unsafe { multicast.fault() }
            }
            None => self.own_filter().map_or(DROP, |Destination { channel, filter, id }| {
                // SAFETY: as above.
                let keep = unsafe { filter.as_ref() }.is_some_and(Filter::keeps_on_fault);
                shared::faulted(channel, id, keep)
            }),
        };
        drop(section);
        verdict
    }

    /// Records an occurrence that was judged, where `verdict` says; for verdicts that are not plainly `RECORD`.
    ///
    /// # Safety
    /// The payload's bytes must be readable: for `Words` up to the end of the last 8-byte word.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[cold]
    #[inline(never)]
    pub unsafe fn write_judged(&self, payload: Payload<'_>, verdict: u64) {
        // What is aside, and multicasts, stay for the section.
        let section = filter::read();
        let thread = channel::this_thread();
        let deliver = |channel: &'static Channel, id, verdict| {
            let record = Record { tag: id, thread, payload };
            match verdict {
                DROP => {}
                // SAFETY: the caller's promise.
                SPECULATE => unsafe { speculation::write(channel, record) },
                // SAFETY: the caller's promise.
                kept if kept & 0xff == KEPT => unsafe { by_key::write(channel, record, kept) },
                // SAFETY: the caller's promise. What became of the record is counted in the ring.
                _ => unsafe { channel.write(record) },
            }
        };
        match (Verdicts::of(verdict), multicast_of(self.gate.load(Ordering::Acquire))) {
            // SAFETY: `gate-outlives-section`; we are in a read section.
            (Some(verdicts), Some(multicast)) => unsafe { &*multicast }
                .to
                .iter()
                .for_each(|to| deliver(to.channel, to.id, verdicts.for_session(to.channel))),
            (Some(verdicts), None) => {
                if let Some((channel, id)) = self.destination() {
                    deliver(channel, id, verdicts.for_session(channel));
                }
            }
            (None, _) => {
                if let Some((channel, id)) = self.destination() {
                    deliver(channel, id, verdict);
                }
            }
        }
        drop(section);
    }

    /// The number by which sessions know the event; 0 when they do not.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Notes the number.
    pub(crate) fn set_number(&self, number: u32) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Where the event goes. With the control path held, as all that follows.
    pub(crate) fn destinations(&self) -> Destinations {
        let gate = self.gate.load(Ordering::Acquire);
        if let Some(multicast) = multicast_of(gate) {
            // SAFETY: `gate-outlives-section`: multicasts are retired with the control path held.
            return unsafe { (*multicast).to };
        }
        let mut all = Destinations::NOWHERE;
        if gate != CLOSED
            && let Some((channel, id)) = self.destination()
        {
            all.put(Destination { channel, filter: filter_of(gate), id });
        }
        all
    }

    /// The filter that decides for a session's channel, if any.
    pub(crate) fn filter(&self, channel: &Channel) -> *const Filter {
        self.destinations().of(channel).map_or(core::ptr::null(), |destination| destination.filter)
    }

    /// Sends the event where `to` says. `settled`: no session has been left for so long that no thread is under way any
    /// more that began while the process was in it. False when there is no memory; all is as it was then.
    #[must_use]
    pub(crate) fn send(
        &self,
        to: &Destinations,
        multicasts: &mut Multicasts,
        era: u32,
        settled: bool,
    ) -> bool {
        let old = multicast_of(self.gate.load(Ordering::Acquire));
        let one = self.destination().map(|(channel, _)| channel);
        let may_stand_alone =
            |only: &&Destination| one.map_or(settled, |one| core::ptr::eq(one, only.channel));
        match to.only().filter(may_stand_alone) {
            Some(only) => self.send_to_one(only),
            None if to.iter().next().is_none() => {
                // Events that were never on are not written to.
                if self.is_recorded() {
                    self.off();
                }
            }
            None if old.is_some() && to.equal(&self.destinations()) => return true,
            None => {
                let Some(multicast) = multicasts.make(to, era) else { return false };
                // Ordering D.
                self.direct.store(0, Ordering::Release);
                // Ordering B.
                self.gate
                    .store(multicast.map_addr(|addr| addr | MULTICAST).cast_mut().cast(), Ordering::Release);
                if one.is_some_and(|one| to.of(one).is_none()) {
                    // Ordering C.
                    self.destination.store(0, Ordering::Release);
                }
                self.set_switch(switch(to));
            }
        }
        if let Some(old) = old {
            multicasts.retire(old);
        }
        true
    }

    fn send_to_one(&self, only: &Destination) {
        // An event that is on already, and stays as it is, keeps its way.
        let open = only.filter.is_null();
        let direct = open.then(|| only.channel.direct(only.id)).flatten().map_or(0, Direct::word);
        // Ordering D.
        if self.direct.load(Ordering::Relaxed) != direct {
            self.direct.store(0, Ordering::Release);
        }
        let address = (&raw const *only.channel).expose_provenance() as u64;
        self.destination.store(address | u64::from(only.id) << ADDRESS_BITS, Ordering::Release);
        // Ordering A, B.
        self.gate.store(only.filter.cast_mut(), Ordering::Release);
        // Ordering D.
        self.direct.store(direct, Ordering::Release);
        let mut all = Destinations::NOWHERE;
        all.put(*only);
        self.set_switch(switch(&all));
    }

    /// Sends the event nowhere.
    fn off(&self) {
        self.set_switch(0);
        // Ordering D.
        self.direct.store(0, Ordering::Release);
        self.gate.store(CLOSED, Ordering::Release);
        self.destination.store(0, Ordering::Release);
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

/// How an event is on that goes to these, for its word.
fn switch(to: &Destinations) -> u32 {
    let engine = |to: &Destination| {
        // SAFETY: null, or a filter that was made just now or is in force: no thread has freed it.
        unsafe { to.filter.as_ref() }.map(|filter| filter.engine())
    };
    let how = match to.iter().filter_map(engine).min_by_key(|engine| *engine == Engine::Jit) {
        None => Switch::Whole,
        Some(Engine::Jit) => Switch::Filtered,
        Some(Engine::Interpreter) => Switch::Interpreted,
    };
    let has_stack = to.iter().any(|to| to.channel.stack != 0);
    how as u32 | if has_stack { STACK } else { 0 }
}

/// Writes a record to each of the ways up to the first that is none; see [`Event::each_direct`].
#[inline(always)]
fn write_each(mut ways: &[Option<Direct>], record: &impl WriteTo, otherwise: impl FnOnce(&[Option<Direct>])) {
    while let [Some(one), others @ ..] = ways {
        let other = others.first().copied().flatten();
        let moment = Cell::new(other.unwrap_or(*one).look());
        if !record.write_to(*one, Noting(&moment)) {
            core::hint::cold_path();
            return otherwise(ways);
        }
        ways = others;
        if let (Some(other), [_, others @ ..]) = (other, ways) {
            if !record.write_to(other, Noted(&moment)) {
                core::hint::cold_path();
                return otherwise(ways);
            }
            ways = others;
        }
    }
}

/// The multicast that a gate leads to.
fn multicast_of(gate: *mut Filter) -> Option<*const Multicast> {
    (gate.addr() & MULTICAST != 0).then(|| gate.map_addr(|addr| addr & !MULTICAST).cast_const().cast())
}

/// The filter in a gate, if it is one.
fn filter_of(gate: *mut Filter) -> *const Filter {
    let is_filter = gate.addr() as isize > CLOSED.addr() as isize;
    if is_filter { gate } else { core::ptr::null() }
}

/// The verdict when there is no filter: the gate was changed meanwhile, or leads to a multicast.
///
/// # Safety
/// As for `Event::ask`; the caller is in a read section.
#[cold]
#[inline(never)]
unsafe fn without_filter(gate: *mut Filter, words: *const u64) -> u64 {
    match multicast_of(gate) {
        Some(multicast) => {
            // SAFETY: `gate-outlives-section`, and the caller's read section.
            let multicast = unsafe { &*multicast };
            // SAFETY: the caller's promise.
            unsafe { multicast.judge(words) }
        }
        None if gate.is_null() => RECORD,
        None => DROP,
    }
}
