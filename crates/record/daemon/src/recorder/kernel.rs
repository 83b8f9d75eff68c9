//! The kernel's side, as the loop drives it: begun, changed, looked at in each round, ended.

use super::Recorder;
use crate::consumer::trace::Consumed;
use crate::kernel::{KernelRecorded, Remarks};
use crate::options::LatencyOptions;
use mote_filter::Rule;
use mote_journal::Fact;
use mote_session::rules::RuleList;
use mote_words::counted;

/// What is said of a recording that has no kernel events.
const NO_KERNEL: &str =
    "no kernel events are recorded here: begin the recording with -k, for example -k sched";

impl Recorder<'_> {
    /// Switches the kernel's programs on. From here on nothing is missed of those that are followed.
    pub(crate) fn begin_kernel(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        let remarks = kernel.begin(&self.options.attach, self.source, &self.samples);
        let is_blind = kernel.is_blind();
        self.tell(remarks);
        if is_blind {
            self.note_unknown_owners();
        } else {
            let attached: Vec<u32> = self.options.attach.iter().map(|pid| pid.unsigned_abs()).collect();
            self.note_owners(&attached);
        }
    }

    fn tell(&mut self, remarks: Remarks) {
        remarks.said.iter().for_each(|text| self.watch.say(text));
        remarks.problems.into_iter().for_each(|text| self.problem(text));
    }

    /// Notes names of threads that kernel events are of.
    pub(crate) fn name_threads(&mut self, ids: &[u32]) {
        self.note_owners(ids);
        if let Some(kernel) = &mut self.kernel {
            let noted = kernel.name_threads(ids);
            self.check_journal(noted);
        }
    }

    /// Records kernel events by these rules, too.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(crate) fn enable_kernel(&mut self, rules: Vec<Rule>) -> Result<(), String> {
        if rules.is_empty() {
            return Ok(());
        }
        self.change_kernel(|list| list.add(rules))
    }

    /// Takes rules on kernel events away, or what they do about some. Returns how many patterns meant something.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(crate) fn disable_kernel(&mut self, patterns: &[String]) -> Result<usize, String> {
        let kernel = self.kernel.as_ref().ok_or(NO_KERNEL)?;
        let (rules, meant) = kernel.rules_without(patterns, &self.options);
        if meant == 0 {
            let lines = kernel.lines();
            return Err(format!("no recorded kernel event matches this pattern; recorded are{lines}"));
        }
        self.change_kernel(|old| *old = rules)?;
        Ok(meant)
    }

    fn change_kernel(&mut self, work: impl FnOnce(&mut RuleList)) -> Result<(), String> {
        let kernel = self.kernel.as_mut().ok_or(NO_KERNEL)?;
        let change = kernel.choose_by(work, &self.options, &self.cooperation);
        self.check_journal(change.is_noted);
        if change.has_new_events() {
            self.renew_metadata();
        }
        let kernel = self.kernel.as_mut().ok_or(NO_KERNEL)?;
        let remarks = kernel.replace(change)?;
        remarks.iter().for_each(|remark| self.watch.say(remark));
        Ok(())
    }

    /// Notes what processes have mapped.
    pub(crate) fn note_mapped(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            let noted = kernel.note_mapped();
            self.check_journal(noted);
        }
    }

    /// Switches the kernel's programs off; what they have written is in the rings.
    pub(crate) fn end_kernel(&mut self) {
        if let Some(kernel) = &self.kernel {
            kernel.tracer.disable();
        }
        self.note_mapped();
        let remarks = self.kernel.as_ref().map(|kernel| kernel.mapped_remarks());
        self.tell(remarks.unwrap_or_default());
    }

    /// Ends the kernel's trace.
    pub(crate) fn finish_kernel(
        &mut self,
        consumed: Option<&Consumed>,
        duration_ns: u64,
    ) -> Option<KernelRecorded> {
        let stopped = self.shared.failure().cloned();
        let (done, remarks) = self.kernel.as_mut()?.finish(consumed?, duration_ns, stopped);
        self.tell(remarks);
        let noted = self.kernel.as_mut()?.trace.directory.note(&Fact::End(done.summary.clone()));
        self.check_journal(noted);
        Some(done)
    }

    /// Attaches what looks for slow calls, if they are wanted. Before the command starts.
    pub(crate) fn begin_slow_calls(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        let Some(settings) = kernel.slow_settings() else { return };
        if let Err(why) = self.cooperation.watch(&kernel.tracer, &settings) {
            self.problem(format!("slow system calls are not recorded: {why}"));
        }
    }

    /// Takes slow calls in from now on, which the recording was not begun for.
    pub(crate) fn watch_slow_calls(&mut self, wanted: &LatencyOptions) {
        if let Some(noted) = self.kernel.as_mut().and_then(|kernel| kernel.watch_slow(wanted)) {
            self.check_journal(noted);
            self.renew_metadata();
        }
    }

    /// Follows all processes that run, for `-a`.
    pub(crate) fn follow_all(&mut self) {
        let refused = self.kernel.as_ref().map_or(0, |kernel| kernel.follow_all());
        if refused > 0 {
            self.problem(format!(
                "slow system calls of {} are not recorded: the kernel did not let mote follow them",
                counted(refused, "process", "processes")
            ));
        }
    }

    /// What is done at every tick: slow calls taken in, thresholds moved, figures shown.
    pub(crate) fn look_at_slow_calls(&mut self) {
        let (Some(kernel), Some(latency)) = (&mut self.kernel, &mut self.cooperation.latency) else { return };
        let looked = kernel.look_at_slow(latency, |now| self.watch.latency(now));
        looked.problem.into_iter().for_each(|why| self.problem(why));
        self.name_threads(&looked.threads);
        if let Some((left, most)) = looked.snapshot
            && self.ask_for_snapshot().is_ok()
            && left == 0
        {
            self.watch.say(&format!(
                "{} taken for slow calls, as many as --snapshot allows; later slow calls take none",
                counted(most, "snapshot was", "snapshots were")
            ));
        }
    }

    /// The last slow calls, and those that have not returned.
    pub(crate) fn end_slow_calls(&mut self) {
        self.look_at_slow_calls();
        let (Some(kernel), Some(latency)) = (&mut self.kernel, self.cooperation.latency.take()) else {
            return;
        };
        let problem = kernel.end_slow(latency);
        problem.into_iter().for_each(|why| self.problem(why));
    }
}
