//! What the kernel's side has to say, and requests about its events.

use super::Recorder;
use crate::error::Error;
use crate::kernel::{Looked, Remarks};
use mote_filter::Rule;
use mote_session::rules::RuleList;
use mote_words::counted;

impl Recorder<'_> {
    /// Tells what there is to tell, and writes down what is new.
    pub(crate) fn tell(&mut self, remarks: Remarks) {
        let Remarks { said, problems, is_unnoted, has_new_events } = remarks;
        self.check_journal(!is_unnoted);
        if has_new_events {
            self.renew_metadata();
        }
        said.iter().for_each(|text| self.screen.say(text));
        problems.into_iter().for_each(|text| self.problem(text));
    }

    /// Keeps what gives stacks of processes' events their names.
    pub(crate) fn keep_symbols(&mut self) {
        self.output.keep_symbols().into_iter().for_each(|why| self.problem(why));
    }

    /// Attaches the kernel's programs and switches them on. From here on nothing is missed of those that are followed.
    pub(crate) fn begin_kernel(&mut self) {
        let problems = self.kernel.begin_programs(self.session.filters().asks_kernel());
        problems.into_iter().for_each(|why| self.problem(why));
        let Recorder { kernel, options, clock, output, .. } = self;
        let remarks = kernel.begin(&options.attach, clock, &mut output.owner);
        self.tell(remarks);
        self.kernel.follow_all().into_iter().for_each(|why| self.problem(why));
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// As [`crate::profile::Profile::begin`].
    pub(crate) fn begin_profile(&mut self) -> Result<(), Error> {
        let Some(profile) = &mut self.profile else { return Ok(()) };
        let remarks = profile.begin(&self.options)?;
        self.tell(remarks);
        Ok(())
    }

    /// Notes what is known of sampled threads.
    pub(super) fn look_at_profile(&mut self) {
        let Some(profile) = &mut self.profile else { return };
        let remarks = profile.look(&mut self.output.owner);
        self.tell(remarks);
    }

    /// Ends the sampling.
    pub(super) fn end_profile(&mut self) {
        let Some(profile) = &mut self.profile else { return };
        let remarks = profile.end(&mut self.output.owner);
        self.tell(remarks);
    }

    /// Notes names of threads that kernel events are of.
    pub(super) fn name_threads(&mut self, ids: &[u32]) {
        let noted = self.kernel.name_threads(ids, &mut self.output.owner);
        self.check_journal(noted);
    }

    /// Records kernel events by these rules, too.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(super) fn enable_kernel(&mut self, rules: Vec<Rule>) -> Result<(), String> {
        if rules.is_empty() {
            return Ok(());
        }
        self.change_kernel(|list| list.add(rules))
    }

    /// Takes rules on kernel events away, or what they do about some. Returns how many patterns meant something.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(super) fn disable_kernel(&mut self, patterns: &[String]) -> Result<usize, String> {
        let (rules, meant) = self.kernel.rules_without(patterns, &self.options)?;
        self.change_kernel(|old| *old = rules)?;
        Ok(meant)
    }

    fn change_kernel(&mut self, work: impl FnOnce(&mut RuleList)) -> Result<(), String> {
        let change = self.kernel.choose(work, &self.options)?;
        self.check_journal(change.is_noted);
        if change.has_new_events() {
            self.renew_metadata();
        }
        let remarks = self.kernel.replace(change)?;
        remarks.iter().for_each(|remark| self.screen.say(remark));
        Ok(())
    }

    /// What is done at every tick about slow calls.
    pub(super) fn look_at_slow_calls(&mut self) {
        let Looked { threads, snapshot, problem } = self.kernel.look_at_slow_calls(self.screen.watch);
        problem.into_iter().for_each(|why| self.problem(why));
        self.name_threads(&threads);
        if let Some((left, most)) = snapshot
            && self.ask_for_snapshot().is_ok()
            && left == 0
        {
            self.screen.say(&format!(
                "{} taken for slow calls, as many as --snapshot allows; later slow calls take none",
                counted(most, "snapshot was", "snapshots were")
            ));
        }
    }

    /// Has the consumer write down what the flight recorder holds. Returns the number of the request.
    ///
    /// # Errors
    /// This is no flight recorder.
    pub(crate) fn ask_for_snapshot(&mut self) -> Result<u64, &'static str> {
        if self.options.mode != mote_ring::Mode::Overwrite {
            return Err(mote_session::NO_SNAPSHOTS);
        }
        Ok(self.consumer.shared.snapshots.ask())
    }
}
