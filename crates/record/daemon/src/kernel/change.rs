//! Other events, and other rules, while a recording runs.
//!
//! Everything is chosen anew by the rules that stand then; the tracer puts the new programs in the place of the old ones in one step
//! ([`mote_kernel::session::Kernel::replace`]). What is refused changes nothing.

use super::Kernel;
use super::choose::Choice;
use super::make::announce;
use crate::cooperation::Cooperation;
use crate::error::Error;
use crate::options::Options;
use crate::recorder::Recorder;
use mote_filter::Rule;
use mote_generate::Chosen;
use mote_session::rules::RuleList;

/// What is said of a recording that has no kernel events.
const NO_KERNEL: &str =
    "no kernel events are recorded here: begin the recording with -k, for example -k sched";

impl Recorder<'_> {
    /// Records kernel events by these rules, too.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(crate) fn enable_kernel(&mut self, rules: Vec<Rule>) -> Result<(), String> {
        if rules.is_empty() {
            return Ok(());
        }
        self.change_kernel(|standing| standing.add(rules))
    }

    /// Takes rules on kernel events away, or what they do about some. Returns how many patterns meant something.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(crate) fn disable_kernel(&mut self, patterns: &[String]) -> Result<usize, String> {
        let kernel = self.kernel.as_ref().ok_or(NO_KERNEL)?;
        let mut standing = kernel.wanting.standing.clone();
        let meant = standing.take_back(patterns, |pattern| kernel.wanting.is_on(pattern, &self.options));
        if meant == 0 {
            return Err(format!(
                "no kernel event that is recorded has this pattern; there are{}",
                kernel.lines()
            ));
        }
        self.change_kernel(|old| *old = standing)?;
        Ok(meant)
    }

    fn change_kernel(&mut self, work: impl FnOnce(&mut RuleList)) -> Result<(), String> {
        let kernel = self.kernel.as_mut().ok_or(NO_KERNEL)?;
        let before =
            (kernel.wanting.standing.clone(), kernel.wanting.patterns.clone(), kernel.wanting.on.clone());
        work(&mut kernel.wanting.standing);
        let mut new = Vec::new();
        let chosen = kernel.choose(&self.options, &self.cooperation, &mut new);
        // Before a program can write them: an event that is known and does not happen does no harm.
        let noted = kernel.trace.note_events(&kernel.events, &new);
        self.check_journal(noted);
        if !new.is_empty() {
            self.renew_metadata();
        }
        let kernel = self.kernel.as_mut().ok_or(NO_KERNEL)?;
        let replaced = chosen.and_then(|(chosen, choice)| {
            let done = kernel.tracer.replace(&chosen, choice.maps);
            done.map(|()| choice.remarks).map_err(|why| Error::Kernel(why.to_string()))
        });
        match replaced {
            Ok(remarks) => {
                remarks.iter().for_each(|remark| self.watch.say(remark));
                Ok(())
            }
            Err(why) => {
                (kernel.wanting.standing, kernel.wanting.patterns, kernel.wanting.on) = before;
                Err(why.to_string())
            }
        }
    }
}

impl Kernel {
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
        self.wanting.standing.lines().map(|line| format!("\n  {line}")).collect()
    }
}
