//! Other events, and other rules, while a recording runs.
//!
//! Everything is chosen anew by the rules that stand then; the tracer puts the new programs in the place of the old
//! ones in one step ([`mote_kernel::session::Kernel::replace`]). What is refused changes nothing.

use super::Kernel;
use super::choose::{Choice, Patterns, Wanting};
use super::make::announce;
use crate::cooperation::Cooperation;
use crate::error::Error;
use crate::options::Options;
use mote_generate::Chosen;
use mote_session::rules::RuleList;
use std::collections::BTreeSet;

/// A change that was chosen, and is not made yet.
pub(crate) struct Change {
    before: (RuleList, Patterns, BTreeSet<String>),
    chosen: Result<(Vec<Chosen>, Choice), Error>,
    new: Vec<u32>,
    /// The journal has its new events.
    pub(crate) is_noted: bool,
}

impl Change {
    /// Whether the trace gets events that it did not know.
    pub(crate) fn has_new_events(&self) -> bool {
        !self.new.is_empty()
    }
}

impl Kernel {
    /// The rules without these patterns, and how many of the patterns meant something.
    pub(crate) fn rules_without(&self, patterns: &[String], options: &Options) -> (RuleList, usize) {
        let mut rules = self.wanting.rule_list.clone();
        let meant = rules.take_back(patterns, |pattern| self.wanting.is_on(pattern, options));
        (rules, meant)
    }

    /// Chooses events by other rules. An event that is known and does not happen does no harm: so new ones are noted
    /// here, before a program can write them.
    pub(crate) fn choose_by(
        &mut self,
        work: impl FnOnce(&mut RuleList),
        options: &Options,
        cooperation: &Cooperation,
    ) -> Change {
        let Wanting { rule_list, patterns, on, .. } = &self.wanting;
        let before = (rule_list.clone(), patterns.clone(), on.clone());
        work(&mut self.wanting.rule_list);
        let mut new = Vec::new();
        let chosen = self.choose(options, cooperation, &mut new);
        let is_noted = self.trace.note_events(&self.events, &new);
        Change { before, chosen, new, is_noted }
    }

    /// Makes a change. Returns remarks on the rules.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(crate) fn replace(&mut self, change: Change) -> Result<Vec<String>, String> {
        let replaced = change.chosen.and_then(|(chosen, choice)| {
            let done = self.tracer.replace(&chosen, choice.maps);
            done.map(|()| choice.remarks).map_err(|why| Error::Kernel(why.to_string()))
        });
        replaced.map_err(|why| {
            (self.wanting.rule_list, self.wanting.patterns, self.wanting.on) = change.before;
            why.to_string()
        })
    }

    /// Chooses events anew. Those that the trace did not know are added to `new`.
    fn choose(
        &mut self,
        options: &Options,
        cooperation: &Cooperation,
        new: &mut Vec<u32>,
    ) -> Result<(Vec<Chosen>, Choice), Error> {
        let mut choice = self.wanting.choose(&self.wanted, options, &cooperation.session_area)?;
        // Filters that are new may look at windows of processes.
        cooperation.register_all(self);
        let mut chosen = Vec::new();
        for (event, filter) in std::mem::take(&mut choice.events) {
            let known = self.events.len();
            let id = announce(&self.trace, &mut self.events, &event.description())?;
            new.extend((id >= known).then_some(id));
            chosen.push(Chosen { id: id as u16, event, filter });
        }
        Ok((chosen, choice))
    }

    /// The rules that stand, a line each.
    pub(crate) fn lines(&self) -> String {
        self.wanting.rule_list.lines().map(|line| format!("\n  {line}")).collect()
    }
}
