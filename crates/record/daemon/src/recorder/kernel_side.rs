//! The kernel's side, as the loop drives it: begun, changed, looked at in each round, ended. With what processes share
//! with its programs.

use super::clock::Clock;
use crate::consumer::trace::Consumed;
use crate::cooperation::{Cooperation, never};
use crate::error::Error;
use crate::kernel::{Change, Kernel, KernelRecorded, Looked, Remarks};
use crate::options::{LatencyOptions, Options};
use crate::output::owner::Owner;
use crate::samples::of_monotonic;
use crate::watch::Watch;
use mote_clock::Sample;
use mote_filter::Aggregate;
use mote_journal::Fact;
use mote_session::rules::RuleList;
use mote_words::counted;

/// What is said of a recording that has no kernel events.
const NO_KERNEL: &str =
    "no kernel events are recorded here: begin the recording with -k, for example -k sched";

/// The kernel's side.
pub(crate) struct KernelSide {
    /// Its trace and its programs, if its events were asked for.
    pub(super) kernel: Option<Kernel>,
    pub(crate) cooperation: Cooperation,
}

impl KernelSide {
    /// That of a recording that begins.
    pub(crate) fn new(kernel: Option<Kernel>, cooperation: Cooperation) -> KernelSide {
        KernelSide { kernel, cooperation }
    }

    /// The kernel's trace and programs.
    pub(crate) fn get(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// The same, to change them.
    pub(crate) fn get_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_mut()
    }

    /// Switches the kernel's programs on. From here on nothing is missed of those that are followed.
    pub(crate) fn begin(&mut self, attached: &[i32], clock: &Clock, owner: &mut Owner) -> Remarks {
        let Some(kernel) = &mut self.kernel else { return Remarks::default() };
        let remarks = kernel.begin(attached, clock.source, &clock.samples);
        if kernel.is_blind() {
            owner.note_unknown();
        } else {
            let attached: Vec<u32> = attached.iter().map(|pid| pid.unsigned_abs()).collect();
            owner.note(&attached);
        }
        remarks
    }

    /// Attaches what looks for slow calls, if they are wanted, before the command starts; and what publishes the state
    /// of threads, if rules ask for it.
    pub(crate) fn begin_programs(&mut self, asks: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(kernel) = &self.kernel
            && let Some(settings) = kernel.slow_settings()
            && let Err(why) = self.cooperation.watch(&kernel.tracer, &settings)
        {
            problems.push(format!("slow system calls are not recorded: {why}"));
        }
        problems.extend(self.begin_cooperation(asks));
        problems
    }

    /// Attaches what publishes the state of threads, if rules ask for it and it is not there yet. Returns what went
    /// wrong.
    pub(crate) fn begin_cooperation(&mut self, asks: bool) -> Option<String> {
        let asks = asks && self.cooperation.latency.is_none();
        let kernel = self.kernel.as_ref().filter(|_| asks)?;
        let why = self.cooperation.publish(kernel).err()?;
        Some(format!(
            "the state of threads in the kernel (`$kernel`), which rules use, is not available: {why}"
        ))
    }

    /// Attaches it when a process asks, by a call of `mote::thread_state` or a threshold: until one does, it costs
    /// no process anything.
    pub(crate) fn publish_if_asked(&mut self) -> Remarks {
        let mut remarks = Remarks::default();
        if !self.cooperation.is_wanted() {
            return remarks;
        }
        let Some(kernel) = self.kernel.as_mut() else { return remarks };
        if kernel.slow_settings().is_none() {
            remarks = watch_slow_calls(kernel, &never());
        }
        if let Err(why) = self.cooperation.publish(kernel) {
            self.cooperation.note_refused();
            remarks.problems.push(format!(
                "the state of threads in the kernel, which a process uses, is not available: {why}"
            ));
        }
        remarks
    }

    /// Follows all processes that run, for `-a`. Returns what went wrong.
    pub(crate) fn follow_all(&self) -> Option<String> {
        let refused = self.kernel.as_ref().map_or(0, Kernel::follow_all);
        (refused > 0).then(|| {
            format!(
                "slow system calls of {} are not recorded: the kernel did not let mote follow them",
                counted(refused, "process", "processes")
            )
        })
    }

    /// Takes rules on kernel events away, or what they do about some. Returns those that are left, and how many
    /// patterns meant something.
    ///
    /// # Errors
    /// Why not, for a person.
    pub(crate) fn rules_without(
        &self,
        patterns: &[String],
        options: &Options,
    ) -> Result<(RuleList, usize), String> {
        let kernel = self.kernel.as_ref().ok_or(NO_KERNEL)?;
        let (rules, meant) = kernel.rules_without(patterns, options);
        if meant == 0 {
            let lines = kernel.lines();
            return Err(format!("no recorded kernel event matches this pattern; recorded are{lines}"));
        }
        Ok((rules, meant))
    }

    /// Chooses kernel events by other rules. Their metadata are to be written before [`KernelSide::replace`].
    ///
    /// # Errors
    /// There are no kernel events.
    pub(crate) fn choose(
        &mut self,
        work: impl FnOnce(&mut RuleList),
        options: &Options,
    ) -> Result<Change, String> {
        let kernel = self.kernel.as_mut().ok_or(NO_KERNEL)?;
        Ok(kernel.choose_by(work, options, &self.cooperation))
    }

    /// Makes a change. Returns remarks on the rules.
    ///
    /// # Errors
    /// Why not, for a person; then nothing has changed.
    pub(crate) fn replace(&mut self, change: Change) -> Result<Vec<String>, String> {
        self.kernel.as_mut().ok_or(NO_KERNEL)?.replace(change)
    }

    /// Notes what processes have mapped. Returns whether the journal has it.
    pub(crate) fn note_mapped(&mut self) -> bool {
        self.kernel.as_mut().is_none_or(Kernel::note_mapped)
    }

    /// Notes samples of the clocks. Returns whether the journal has them.
    pub(crate) fn note_samples(&mut self, news: &[Sample]) -> bool {
        self.kernel.as_mut().is_none_or(|kernel| kernel.trace.note_samples(news.iter().map(of_monotonic)))
    }

    /// Notes names of threads that kernel events are of. Returns whether the journal has them.
    pub(crate) fn name_threads(&mut self, ids: &[u32], owner: &mut Owner) -> bool {
        owner.note(ids);
        self.kernel.as_mut().is_none_or(|kernel| kernel.name_threads(ids))
    }

    /// Writes the metadata of the kernel's trace as they are now.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Metadata`].
    pub(crate) fn write_metadata(&self, clock: &Clock) -> Result<(), Error> {
        let Some(kernel) = &self.kernel else { return Ok(()) };
        kernel.trace.write_metadata(&kernel.events, clock.samples.conversion_of_monotonic())
    }

    /// What is done at every tick: slow calls taken in, thresholds moved, figures shown. Returns what came of it.
    pub(crate) fn look_at_slow_calls(&mut self, watch: &mut dyn Watch) -> Looked {
        match (&mut self.kernel, &mut self.cooperation.latency) {
            (Some(kernel), Some(latency)) => kernel.look_at_slow(latency, |now| watch.latency(now)),
            _ => Looked::default(),
        }
    }

    /// Ends looking for slow calls; those that have not returned are written. Returns what went wrong.
    pub(crate) fn end_slow_calls(&mut self) -> Option<String> {
        let latency = self.cooperation.latency.take().filter(|_| self.kernel.is_some())?;
        self.kernel.as_mut()?.end_slow(latency)
    }

    /// What is counted by rules on kernel events, and the flags of the session.
    pub(crate) fn aggregates(&self) -> impl Iterator<Item = Aggregate> {
        let flags = self.cooperation.session_area.flags().into_iter();
        let flags = flags.map(|(name, set)| Aggregate::flag(name, set));
        let kernel = self.kernel.iter().flat_map(|kernel| kernel.wanting.rules.aggregates());
        kernel.chain(flags)
    }

    /// Switches the kernel's programs off; what they have written is in the rings.
    pub(crate) fn end(&mut self) -> Remarks {
        let Some(kernel) = &mut self.kernel else { return Remarks::default() };
        kernel.tracer.disable();
        let is_unnoted = !kernel.note_mapped();
        Remarks { is_unnoted, ..kernel.mapped_remarks() }
    }

    /// Ends the kernel's trace. `stopped` says why the recording was ended, if it was.
    pub(crate) fn finish(
        &mut self,
        consumed: Option<&Consumed>,
        duration_ns: u64,
        stopped: Option<String>,
    ) -> Option<(KernelRecorded, Remarks)> {
        let kernel = self.kernel.as_mut()?;
        let (done, mut remarks) = kernel.finish(consumed?, duration_ns, stopped);
        remarks.is_unnoted = !kernel.trace.directory.note(&Fact::End(done.summary.clone()));
        Some((done, remarks))
    }
}

/// Takes slow calls in from now on, which the recording was not begun for.
fn watch_slow_calls(kernel: &mut Kernel, wanted: &LatencyOptions) -> Remarks {
    match kernel.watch_slow(wanted) {
        Some(noted) => Remarks { is_unnoted: !noted, has_new_events: true, ..Remarks::default() },
        None => Remarks::default(),
    }
}
