//! The state of one event.
//!
//! # Parties
//! Threads and signal handlers that come by a site; the control path (`session`), which alone writes.
//! # State
//! `gate` says what is between the event and its channel:
//! - null: nothing;
//! - [`CLOSED`]: the event is off. What comes by is what has begun before it was switched off;
//! - a [`Filter`]: it decides.
//!
//! # Ordering
//! A. `gate` is written with release after `channel` and `id`, read with acquire: what comes through an open gate, or is
//!    let through by a filter, finds the channel and the id of that time or later ones.
//! B. A filter is whole before `gate` points to it (same pairing), and freed a grace period after `gate` points elsewhere: it is
//!    followed inside of a read section only.
//!
//! An event that has begun unfiltered is recorded unfiltered even if a filter comes before it is written. An event that was off
//! is never let through unfiltered because its switching on was seen in parts: its gate was closed, or it was never on.

use crate::filter::{self, Filter};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use mote_layout::context::{DROP, RECORD};
use mote_layout::site::{SWITCH_OFFSET, Switch};
use mote_ring::Writer;
use mote_vm::Engine;

/// Address of no filter, in the gate of an event that is off.
const CLOSED: *mut Filter = core::ptr::without_provenance_mut(1);
/// Set in `id` when the session has told the id.
const TOLD: u32 = 1 << 31;
/// Set in `id` when the session has said with the id that the event is to be on.
const WANTED: u32 = 1 << 30;

/// State of one event, which its sites, its probe, and the agent share; within one line of the cache. `mote.h` has the same.
///
/// # Invariants
/// agent-I1: `channel` is null or points to a [`Writer`] that lives as long as the process.
/// agent-I2: `gate` is null, [`CLOSED`], or points to a [`Filter`] that lives until a grace period after it was replaced.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct Event {
    channel: AtomicPtr<Writer>,
    gate: AtomicPtr<Filter>,
    id: AtomicU32,
    switch: AtomicU32,
}
const _: () = assert!(size_of::<Event>() == 32 && core::mem::offset_of!(Event, switch) == SWITCH_OFFSET);

/// The filter has ended with a fault, or claims so.
pub const FAULTED: u64 = u64::MAX;

impl Event {
    /// An event that is off and unknown to any session.
    pub const fn new() -> Event {
        Event {
            channel: AtomicPtr::new(core::ptr::null_mut()),
            gate: AtomicPtr::new(core::ptr::null_mut()),
            id: AtomicU32::new(0),
            switch: AtomicU32::new(0),
        }
    }

    /// The channel to write to, and the event's id there; `None` while it is off.
    ///
    /// # Cost
    /// Two loads of one line.
    #[inline(always)]
    pub fn destination(&self) -> Option<(&'static Writer, u16)> {
        // Acquire pairs with the release in `on`: the id and the channel's fields are set.
        let channel = self.channel.load(Ordering::Acquire);
        // SAFETY: agent-I1.
        let channel = unsafe { channel.cast_const().as_ref() }?;
        Some((channel, self.id.load(Ordering::Relaxed) as u16))
    }

    /// Whether a site that tests instead of being patched should go on.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.switch.load(Ordering::Relaxed) != 0
    }

    /// True when something is between the event and its channel: [`Event::judge`] is to be asked before it is recorded.
    ///
    /// # Cost
    /// One load and one test.
    #[inline(always)]
    pub fn is_gated(&self) -> bool {
        !self.gate.load(Ordering::Acquire).is_null()
    }

    /// What is to become of this occurrence of the event, whose context is `words`: `DROP`, `RECORD` or `ASIDE`
    /// (`mote_layout::context`).
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

    /// As [`Event::judge`], but for faults, of which it answers [`FAULTED`]: [`Event::judge_fault`] is to be asked then. It needs
    /// nothing of what its caller holds in registers, which makes it quick to say no.
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
        // One test for both that are no filters.
        if gate.addr() <= CLOSED.addr() {
            return without_filter(gate);
        }
        // SAFETY: agent-I2; we are in a read section.
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
        // SAFETY: agent-I2; we are in a read section.
        let keep = match unsafe { self.filter().as_ref() } {
            // SAFETY: the caller's promise.
            Some(filter) => unsafe { filter.can_keep(words) },
            None => false,
        };
        drop(section);
        filter::faulted(self, keep)
    }

    /// Counts an occurrence that cannot be judged because what it points to cannot be read. Answers as [`Event::judge`]; the
    /// caller has put something else in its place.
    ///
    /// # Signal safety
    /// Callable from a handler.
    pub fn fault(&self) -> u64 {
        let section = filter::read();
        // SAFETY: agent-I2; we are in a read section.
        let keep = unsafe { self.filter().as_ref() }.is_some_and(Filter::keeps_on_fault);
        drop(section);
        filter::faulted(self, keep)
    }

    /// The id that the session has told.
    pub(crate) fn id(&self) -> Option<u16> {
        let id = self.id.load(Ordering::Relaxed);
        (id & TOLD != 0).then_some(id as u16)
    }

    /// Whether the session wanted the event when it told the id.
    pub(crate) fn is_wanted(&self) -> bool {
        self.id.load(Ordering::Relaxed) & WANTED != 0
    }

    /// Notes the event's id, and whether it is wanted.
    pub(crate) fn tell(&self, id: u16, wanted: bool) {
        let wanted = if wanted { WANTED } else { 0 };
        self.id.store(TOLD | wanted | u32::from(id), Ordering::Relaxed);
    }

    /// The filter that decides now, if any.
    pub(crate) fn filter(&self) -> *const Filter {
        // Ordering B.
        let gate = self.gate.load(Ordering::Acquire);
        if gate == CLOSED { core::ptr::null() } else { gate }
    }

    /// Sends the event to `channel`, as `filter` decides, if it is not null.
    pub(crate) fn on(&self, channel: &'static Writer, filter: *const Filter) {
        self.channel.store((&raw const *channel).cast_mut(), Ordering::Release);
        // Ordering A, B.
        self.gate.store(filter.cast_mut(), Ordering::Release);
        // SAFETY: null, or a filter that was made just now or is in force: nobody has freed it.
        let engine = unsafe { filter.as_ref() }.map(|filter| filter.program().engine());
        let switch = match engine {
            None => Switch::Whole,
            Some(Engine::Jit) => Switch::Filtered,
            Some(Engine::Interpreter) => Switch::Interpreted,
        };
        self.switch.store(switch as u32, Ordering::Release);
    }

    /// Sends the event nowhere.
    pub(crate) fn off(&self) {
        self.switch.store(0, Ordering::Release);
        self.gate.store(CLOSED, Ordering::Release);
        self.channel.store(core::ptr::null_mut(), Ordering::Release);
    }
}

impl Default for Event {
    fn default() -> Event {
        Event::new()
    }
}

/// The verdict when the gate was changed meanwhile.
#[cold]
#[inline(never)]
fn without_filter(gate: *mut Filter) -> u64 {
    if gate.is_null() { RECORD } else { DROP }
}
