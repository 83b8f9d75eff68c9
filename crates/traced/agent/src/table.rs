//! The filters that are loaded, and the freeing of those that no thread asks any more.
//!
//! Which filters are asked is found by looking: [`Table::unmark`], [`Table::mark`] for each event's filter, then
//! [`Table::sweep`]. What was not marked is retired, and freed when a grace period is over ([`Table::tidy`]). Changed
//! with the control path held only.

use crate::filter::{Engine, Filter};
use crate::growing::Growing;
use mote_bpf::Word;
use mote_rcu::{Library, Token, start_poll};
use mote_sys::Result;
use mote_sys::mem::Mapping;

/// Most filters that are loaded at a time, retired ones included.
const FILTERS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
enum State {
    Free,
    Live,
    /// No event leads to it since then.
    Retired(Token<Library>),
}

/// What is known of a filter.
#[derive(Clone, Copy, Debug)]
struct Note {
    state: State,
    marked: bool,
    serial: u64,
}

/// The loaded filters.
///
/// # Invariants
/// `filters-noted`: `filters` has room for as many filters as there are notes; those whose note is not `Free` are
/// written.
#[derive(Debug)]
pub(crate) struct Table {
    notes: Growing<Note, FILTERS_MAX>,
    filters: Option<Mapping>,
}

impl Table {
    /// None.
    pub(crate) const fn new() -> Table {
        Table { notes: Growing::new(), filters: None }
    }

    fn at(&self, index: usize) -> *mut Filter {
        let base = self.filters.as_ref().map_or(core::ptr::null_mut(), Mapping::base);
        base.cast::<Filter>().wrapping_add(index)
    }

    /// The filter that was loaded of this program for such a context.
    pub(crate) fn find(&self, serial: u64, words: &[Word]) -> Option<*const Filter> {
        let fits = |(index, note): &(usize, &Note)| {
            // SAFETY: `filters-noted`: it is not free.
            let shape = || unsafe { &*self.at(*index) }.shape();
            matches!(note.state, State::Live) && note.serial == serial && shape() == Some(words)
        };
        let (index, _) = self.notes.all().iter().enumerate().find(fits)?;
        Some(self.at(index).cast_const())
    }

    /// Adds a filter. It stays until a grace period after the first sweep for which it was not marked.
    ///
    /// # Errors
    /// `ENOMEM` when there are too many; the filter is dropped then.
    pub(crate) fn add(&mut self, serial: u64, filter: Filter) -> Result<*const Filter> {
        if self.filters.is_none() {
            self.filters = Some(Mapping::private(FILTERS_MAX * size_of::<Filter>())?);
        }
        let note = Note { state: State::Live, marked: true, serial };
        let free = self.notes.all().iter().position(|note| matches!(note.state, State::Free));
        let index = free.unwrap_or(self.notes.all().len());
        match self.notes.all_mut().get_mut(index) {
            Some(place) => *place = note,
            None => self.notes.push(note)?,
        }
        // SAFETY: `filters-noted`: the place is free, so that no thread reads there.
        unsafe { self.at(index).write(filter) };
        Ok(self.at(index).cast_const())
    }

    /// What the filter at `at` runs on.
    pub(crate) fn engine(&self, at: *const Filter) -> Option<Engine> {
        let index = self.index(at)?;
        // SAFETY: `filters-noted`; `index` gives places of live filters only.
        Some(unsafe { &*self.at(index) }.engine())
    }

    /// Says that an event leads to `filter`; null is none.
    pub(crate) fn mark(&mut self, filter: *const Filter) {
        if let Some(index) = self.index(filter)
            && let Some(note) = self.notes.all_mut().get_mut(index)
        {
            note.marked = true;
        }
    }

    fn index(&self, filter: *const Filter) -> Option<usize> {
        let bytes = filter.addr().checked_sub(self.at(0).addr()).filter(|_| !filter.is_null())?;
        let index = bytes / size_of::<Filter>();
        let live = |note: &Note| matches!(note.state, State::Live);
        self.notes.all().get(index).is_some_and(live).then_some(index)
    }

    /// Forgets all marks.
    pub(crate) fn unmark(&mut self) {
        self.notes.all_mut().iter_mut().for_each(|note| note.marked = false);
    }

    /// Retires every filter that is not marked. Events lead to marked ones only.
    pub(crate) fn sweep(&mut self) {
        let token = start_poll::<Library>();
        for note in self.notes.all_mut() {
            if matches!(note.state, State::Live) && !note.marked {
                note.state = State::Retired(token);
            }
        }
    }

    /// Frees retired filters that no thread runs any more. Returns whether others are left.
    pub(crate) fn tidy(&mut self) -> bool {
        let mut left = false;
        for index in 0..self.notes.all().len() {
            let Some(note) = self.notes.all_mut().get_mut(index) else { continue };
            let State::Retired(token) = note.state else { continue };
            if !token.is_done() {
                left = true;
                continue;
            }
            note.state = State::Free;
            // SAFETY: `filters-noted`; no event has led to it for a grace period (`gate-outlives-section`).
            unsafe { self.at(index).drop_in_place() };
        }
        left
    }
}
