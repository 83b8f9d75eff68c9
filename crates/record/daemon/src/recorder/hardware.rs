//! The hardware trace, as the loop drives it: begun, looked at, ended; and what rules have asked for of it.

use super::Recorder;
use crate::area::packets::{Asker, Request};
use crate::error::Error;
use crate::hardware::{Taken, directory_of};
use mote_pmu::Written;
use mote_words::size;

impl Recorder<'_> {
    /// Begins the hardware trace of what runs, or of a command that waits to become its program.
    ///
    /// # Errors
    /// As [`crate::hardware::Hardware::begin`].
    pub(crate) fn begin_hardware(&mut self, waiting: Option<i32>) -> Result<(), Error> {
        let asks = self.rules_ask_for_packets();
        let Some(hardware) = &mut self.hardware else { return Ok(()) };
        hardware.heed_rules(asks);
        let fact = hardware.begin(&self.options, waiting, &mut self.output.owner)?;
        let noted = self.output.note(&fact);
        self.check_journal(noted);
        Ok(())
    }

    /// Begins the hardware trace of the command, which is started and waits.
    ///
    /// # Errors
    /// As [`Recorder::begin_hardware`]; the command has ended then, before it was its program.
    pub(crate) fn trace_command(&mut self) -> Result<(), Error> {
        let Some(command) = &mut self.subjects.command else { return Ok(()) };
        let pid = command.id().cast_signed();
        let begun = command.wait_until_stopped().and_then(|()| self.begin_hardware(Some(pid)));
        begun.inspect_err(|_| self.subjects.kill_command())
    }

    /// Hears what has come of the hardware trace.
    pub(super) fn look_at_hardware(&mut self) {
        let asks = self.rules_ask_for_packets();
        let Some(hardware) = &mut self.hardware else { return };
        hardware.heed_rules(asks);
        let problem = hardware.look(&mut self.output.owner);
        self.note_snapshots();
        problem.into_iter().for_each(|why| self.problem(why));
    }

    /// Ends the hardware trace.
    pub(super) fn end_hardware(&mut self) {
        let Some(hardware) = &mut self.hardware else { return };
        let problems = hardware.end(&mut self.output.owner);
        self.note_snapshots();
        problems.into_iter().for_each(|why| self.problem(why));
    }

    /// Ends what is said of its snapshots.
    pub(super) fn finish_hardware(&mut self, duration_ns: u64) {
        if self.hardware.as_mut().is_some_and(|hardware| !hardware.finish(duration_ns)) {
            self.problem("the events of snapshots of the hardware trace could not be written".to_owned());
        }
    }

    /// Whether rules that stand ask for the packets before events.
    fn rules_ask_for_packets(&self) -> bool {
        self.session.filters().snapshots_packets()
            || self.kernel.get().is_some_and(|kernel| kernel.wanting.snapshots_packets())
    }

    /// Makes events of the snapshots that were taken for rules.
    fn note_snapshots(&mut self) {
        let taken = self.hardware.as_ref().map(crate::hardware::Hardware::taken).unwrap_or_default();
        for taken in taken {
            let event = self.event_of(&taken.request);
            self.tell_snapshot(&taken, &event);
            let Recorder { hardware: Some(hardware), options, output, clock, .. } = self else { return };
            let noted = hardware.note(&taken, &event, (options, &output.trace, &clock.samples));
            if let Err(why) = noted {
                self.problem(format!("{} has no event: {why}", directory_of(taken.number)));
            }
        }
    }

    /// The name of the event that asks; of one that no rule knows, which a process has made up, that.
    fn event_of(&self, request: &Request) -> String {
        let known = match request.asker {
            Asker::Process => self.session.filters().event(request.event),
            Asker::Kernel => self.kernel.get().and_then(|kernel| kernel.wanting.rules.event(request.event)),
        };
        known.unwrap_or("an unknown event").to_owned()
    }

    fn tell_snapshot(&mut self, Taken { number, request, written }: &Taken, event: &str) {
        let Written { of, packets, covered_ns, overwritten_ns, .. } = written;
        let path = self.output.trace.directory.path().join(directory_of(*number));
        let path = path.display();
        self.screen.say(&format!(
            "hardware trace of the {} before {event} (thread {}, {of}): {path}, {}",
            milliseconds(*covered_ns),
            request.tid,
            size(*packets)
        ));
        if *overwritten_ns > 0 {
            self.problem(format!(
                "{path} lacks the first {} of the {} before {event}, which were written over before they were read: use \
                 a larger --pt=snapshot=SIZE",
                milliseconds(*overwritten_ns),
                milliseconds(request.duration_ns)
            ));
        }
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}
