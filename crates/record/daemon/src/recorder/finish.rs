//! The end of a recording: what is written when everything has been read.

use super::Recorder;
use super::outcome::Written;
use crate::area::group::GroupArea;
use crate::consumer::trace::Consumed;
use crate::hardware::Hardware;
use crate::recorder::group_areas::Faults;
use crate::watch::Recorded;
use mote_journal::{Fact, Summary};
use mote_session::{Input, Left};
use mote_words::counted;

impl Recorder<'_> {
    /// Begins to end the recording, if it has not begun to: looks for the last time at what is recorded, switches the
    /// kernel's programs off, and asks all processes to switch off.
    pub(crate) fn begin_to_end(&mut self) {
        if !self.session.stage().is_recording() {
            return;
        }
        self.outcome.duration_ns = self.clock.duration_ns();
        self.output.look_at_owners(&self.peers, usize::MAX);
        self.subjects.tell_over();
        self.subjects.end_bare().into_iter().for_each(|problem| self.problem(problem));
        let missing = self.subjects.missing(&self.options, true);
        missing.into_iter().for_each(|problem| self.problem(problem));
        let remarks = self.kernel.end();
        self.tell(remarks);
        self.look_at_slow_calls();
        self.end_profile();
        self.end_hardware();
        self.end_sampled();
        self.kernel.end_slow_calls().into_iter().for_each(|why| self.problem(why));
        self.take(Input::Ending);
        self.peers.let_be();
    }

    /// A round of the loop while the recording ends: hears processes that leave, sends those away that come, and looks
    /// what is left.
    pub(crate) fn serve_end(&mut self) {
        if let Some(ways_in) = self.ways_in.take() {
            self.peers.begin_round();
            self.peers.send_away(&ways_in.listeners);
            self.talk(None);
            self.ways_in = Some(ways_in);
        }
        // Looked at first: what was noticed before the end is heard then.
        let is_read = self.consumer.is_finished();
        self.hear_consumer();
        let remarks = self.subjects.hear(&self.options);
        self.tell(remarks);
        let (processes, helpers) = (self.peers.can_leave(), self.subjects.is_joining());
        let command = self.subjects.command_state();
        self.take(Input::Left(Left { processes, is_read, helpers, command }));
    }

    /// Writes what is known now that everything has been read.
    pub(super) fn write_end(&mut self) {
        let Some(consumed) = self.consumer.finish() else { return };
        let duration_ns = self.outcome.duration_ns;
        self.clock.samples.end();
        self.note_samples();
        if self.output.trace.directory.removed().is_none()
            && let Err(why) = self.write_metadata()
        {
            self.problem(why.to_string());
        }
        self.finish_hardware(duration_ns);
        let (own, none) = (consumed.first(), Consumed::default());
        let own = own.unwrap_or(&none);
        if own.nameless > 0 {
            let threads = counted(own.nameless, "thread has", "threads have");
            self.problem(format!("{threads} no name: too many started at once"));
        }
        self.kernel.cooperation.remarks().into_iter().for_each(|remark| self.problem(remark));
        self.output.keep_tables();
        let aggregates = self.write_aggregates();
        self.note_faults();
        let stopped = || self.consumer.shared.failure().cloned();
        let kernel = self.kernel.finish(consumed.get(1), duration_ns, stopped());
        let profile = self.profile.as_mut().map(|profile| profile.finish(duration_ns, stopped()));
        let kernel = kernel.map(|(done, remarks)| {
            self.tell(remarks);
            done
        });
        let profile = profile.map(|(summary, noted)| {
            self.check_journal(noted);
            summary
        });
        self.take(Input::Read);
        let hardware = self.hardware.as_ref().and_then(Hardware::recorded);
        self.outcome.written =
            Some(Written { summary: self.summary(own, duration_ns), kernel, profile, hardware, aggregates });
    }

    /// Writes the last line, and gives the recording to whoever is to have it.
    pub(super) fn finish(&mut self) {
        self.subjects.let_go();
        let Some(written) = self.outcome.written.take() else { return };
        let Written { mut summary, kernel, profile, hardware, aggregates } = written;
        summary.status = self.subjects.status();
        if !self.output.note(&Fact::End(summary.clone())) {
            self.problem("the end of the journal could not be written".to_owned());
        }
        let remarks = self.output.hand_over();
        self.tell(remarks);
        self.outcome.recorded = Some(Recorded {
            directory: self.output.place(self.screen.watch),
            summary,
            kernel,
            profile,
            hardware,
            problems: self.session.problems().all(),
            aggregates,
        });
    }

    /// Writes counts and histograms into the recording. Returns them as text.
    fn write_aggregates(&mut self) -> String {
        let all = self.aggregates();
        if all.is_empty() {
            return String::new();
        }
        let problems = self.output.write_aggregates(&all, self.clock.duration_ns());
        problems.into_iter().for_each(|problem| self.problem(problem));
        self.screen.text(&all)
    }

    /// Tells of the faults that filters had, and of keys without room. Events that were dropped for faults are counted
    /// as lost, too.
    fn note_faults(&mut self) {
        let Faults { dropped, kept, by_event, keys_refused } = self.memory.faults();
        if keys_refused > 0 {
            self.problem(format!(
                "there was no room to keep records aside for {} of `speculate by`, whose events were recorded at once; \
                 at most {} can be open at a time: commit or discard each",
                counted(keys_refused, "key", "keys"),
                GroupArea::pool_place().sizes.slots
            ));
        }
        if dropped == 0 && kept == 0 {
            return;
        }
        let name = |(id, count): (&u32, &u64)| {
            let event = self.session.events().description(*id)?;
            Some(format!("{}:{} ({count})", event.provider, event.name))
        };
        let names: Vec<String> = by_event.iter().filter_map(name).take(10).collect();
        self.problem(format!(
            "filters found bad pointers in the fields of events: {} dropped, {kept} recorded (--on-fault): {}",
            counted(dropped, "event was", "events were"),
            names.join(", ")
        ));
    }

    /// What the trace of the processes came to.
    pub(crate) fn summary(&self, consumed: &Consumed, duration_ns: u64) -> Summary {
        let own = self.output.trace.summary(self.session.events(), consumed, duration_ns);
        let (processes, threads) = self.session.seen();
        Summary {
            processes: processes as u32,
            threads: threads as u32,
            stopped: self.consumer.shared.failure().cloned(),
            lost_unknown: own.lost_unknown + self.session.missed(),
            ..own
        }
    }
}
