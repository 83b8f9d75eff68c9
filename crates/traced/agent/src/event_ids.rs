//! What a session has told of events: their ids, and whether it wants them. Numbers for events, by which that is kept.

use crate::event::Event;
use crate::growing::Growing;
use mote_sys::Result;
use mote_sys::mem::Mapping;
use mote_wire::ID_ON;

/// Most events that have a number.
const EVENTS_MAX: usize = 1 << 20;
/// Set in a word when the session has told the id.
const KNOWN: u32 = 1 << 30;

/// The words of one session, by an event's number: the id, [`KNOWN`], and `ID_ON` when the event is to be on.
///
/// # Invariants
/// `words-for-all-numbers`: `words` has room for [`EVENTS_MAX`] words.
#[derive(Debug)]
pub(crate) struct EventIds {
    words: Option<Mapping>,
}

impl EventIds {
    /// Nothing.
    pub(crate) const fn new() -> EventIds {
        EventIds { words: None }
    }

    fn at(&self, number: u32) -> Option<*mut u32> {
        let index = Some(number as usize).filter(|index| (1..EVENTS_MAX).contains(index))?;
        Some(self.words.as_ref()?.base().cast::<u32>().wrapping_add(index))
    }

    /// The event's id, and whether it is wanted.
    pub(crate) fn of(&self, event: &Event) -> Option<(u16, bool)> {
        let at = self.at(event.number())?;
        // SAFETY: `words-for-all-numbers`; the memory is ours.
        let word = unsafe { at.read() };
        (word & KNOWN != 0).then_some((word as u16, word & ID_ON != 0))
    }

    /// Notes a word of `Ids`.
    pub(crate) fn note(&mut self, event: &Event, word: u32) -> Result<()> {
        if self.words.is_none() {
            self.words = Some(Mapping::private(EVENTS_MAX * size_of::<u32>())?);
        }
        if let Some(at) = self.at(event.number()) {
            // SAFETY: `words-for-all-numbers`; the memory is ours.
            unsafe { at.write(word & (0xffff | ID_ON) | KNOWN) };
        }
        Ok(())
    }

    /// Forgets an event.
    pub(crate) fn forget(&mut self, event: &Event) {
        if let Some(at) = self.at(event.number()) {
            // SAFETY: `words-for-all-numbers`; the memory is ours.
            unsafe { at.write(0) };
        }
    }
}

/// The numbers that are given out: from 1 on, and those of events that are no more again.
#[derive(Debug)]
pub(crate) struct Numbers {
    given: u32,
    free: Growing<u32, EVENTS_MAX>,
}

impl Numbers {
    /// None is given out.
    pub(crate) const fn new() -> Numbers {
        Numbers { given: 0, free: Growing::new() }
    }

    /// Gives the event a number if it has none. When there is none left it stays without, and off.
    pub(crate) fn give(&mut self, event: &Event) {
        if event.number() != 0 {
            return;
        }
        if let Some(number) = self.free.pop() {
            event.set_number(number);
        } else if (self.given as usize) < EVENTS_MAX - 1 {
            self.given += 1;
            event.set_number(self.given);
        }
    }

    /// Takes the number of an event that is no more.
    pub(crate) fn take(&mut self, event: &Event) {
        let number = event.number();
        event.set_number(0);
        if number != 0 {
            // Without memory it is not given out again.
            let _ = self.free.push(number);
        }
    }
}
