//! Which events are recorded: the events that there are, the rules about them, and the memory that these use.

use crate::Settings;
use crate::events::Events;
use crate::filters::{Filters, Scope, Weight};
use crate::layout::Layout;
use crate::memory::SharedWords;
use mote_layout::functions::{SAMPLING_PROVIDER, function_of};
use std::path::PathBuf;

/// Events and rules.
pub(crate) struct Selection {
    pub(crate) events: Events,
    pub(crate) filters: Filters,
    pub(crate) layout: Layout,
    pub(crate) words: SharedWords,
    /// Rules keep records aside, and that was said.
    speculates: bool,
    /// It was said which patterns match no event.
    are_patterns_reported: bool,
}

/// What came of a decision about events.
pub(crate) struct Decided {
    /// Events that rules emit, and that are new.
    pub(crate) emitted: Vec<u32>,
    /// From now on rules keep records aside.
    pub(crate) begins_to_speculate: bool,
    /// What a person should know.
    pub(crate) reports: Vec<(String, Weight)>,
}

impl Selection {
    /// The rules of a session that begins; no event is known yet.
    ///
    /// # Errors
    /// An object with filters that cannot be used, and why.
    pub(crate) fn new(settings: Settings) -> Result<Selection, (PathBuf, String)> {
        Ok(Selection {
            events: Events::default(),
            filters: Filters::new(&settings)?,
            layout: settings.layout,
            words: SharedWords::default(),
            speculates: false,
            are_patterns_reported: false,
        })
    }

    /// Lets the filters decide.
    pub(crate) fn decide(&mut self, work: impl FnOnce(&mut Filters, &mut Scope<'_>)) -> Decided {
        let (mut emitted, mut reports) = (Vec::new(), Vec::new());
        let mut scope = Scope {
            layout: &mut self.layout,
            words: &self.words,
            events: &mut self.events,
            emitted: &mut emitted,
            reports: &mut reports,
        };
        work(&mut self.filters, &mut scope);
        self.filters.tell_more(&mut reports);
        let begins_to_speculate = self.filters.speculates() && !std::mem::replace(&mut self.speculates, true);
        Decided { emitted, begins_to_speculate, reports }
    }

    /// The bundle of the newest filters, if it was not made yet.
    pub(crate) fn renew(&mut self) -> Option<Vec<u8>> {
        self.filters.renew(&self.layout)
    }

    /// The patterns that match no event so far, each with the similar names that there are; once.
    pub(crate) fn unmatched_once(&mut self) -> Vec<(&str, Vec<String>)> {
        if std::mem::replace(&mut self.are_patterns_reported, true) {
            return Vec::new();
        }
        // Everything is waited for without a word: a program may have no event before it runs. Functions get theirs
        // later, and what puts them there says which there are.
        let is_theirs = |pattern: &str| {
            function_of(pattern).is_some() || pattern.split(':').next() == Some(SAMPLING_PROVIDER)
        };
        let patterns = self.filters.patterns().filter(|pattern| *pattern != "*" && !is_theirs(pattern));
        self.events.unmatched(patterns)
    }
}
