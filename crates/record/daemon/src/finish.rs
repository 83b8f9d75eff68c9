//! The end of a recording: what is written when everything has been read.

use crate::areas::Faults;
use crate::command::{Command, Signals};
use crate::record::Recorded;
use crate::recorder::{Recorder, Served};
use crate::tap::Consumed;
use mote_journal::Fact;
use std::time::Duration;

impl Recorder<'_> {
    /// Writes what is known now that everything has been read.
    pub(crate) fn finish(&mut self, served: Served, consumed: &[Consumed], signals: &Signals) -> Recorded {
        let Served { command, duration_ns } = served;
        self.hear_consumer();
        self.samples.end();
        self.note_samples();
        if self.trace.directory.removed().is_none()
            && let Err(why) = self.write_metadata()
        {
            self.problem(why.to_string());
        }
        let (own, none) = (consumed.first(), Consumed::default());
        let own = own.unwrap_or(&none);
        if own.nameless > 0 {
            self.problem(format!("{} threads have no name: they started too fast to be noted", own.nameless));
        }
        self.end_cooperation();
        let aggregates = self.write_aggregates();
        self.note_faults();
        let kernel = self.finish_kernel(consumed.get(1), duration_ns);
        self.tell_more_problems();
        let mut summary = self.summary(own, duration_ns);
        summary.status = command.and_then(|command| self.wait_for(command, signals));
        if !self.trace.directory.note(&Fact::End(summary.clone())) {
            self.problem("the journal could not be written to its end".to_owned());
        }
        self.hand_over();
        let moved = self.trace.directory.moved_to();
        if let Some(path) = &moved {
            self.watch
                .say(&format!("the recording was moved while it was made; it is {} now", path.display()));
        }
        Recorded {
            directory: moved.unwrap_or_else(|| self.trace.directory.path().to_owned()),
            summary,
            kernel,
            problems: self.problems.all(),
            aggregates,
        }
    }

    /// Tells of the faults that filters had. Events that were dropped for them are counted as lost, too.
    fn note_faults(&mut self) {
        let Faults { dropped, kept, by_event } = self.session.areas.faults();
        if dropped == 0 && kept == 0 {
            return;
        }
        let name = |(id, count): (&u32, &u64)| {
            let event = self.trace.events.description(*id)?;
            Some(format!("{}:{} ({count})", event.provider, event.name))
        };
        let names: Vec<String> = by_event.iter().filter_map(name).take(10).collect();
        self.problem(format!(
            "filters could not read the memory that events gave them, {dropped} times dropping and {kept} times keeping the \
             event: {}; a pointer among the event's fields is bad",
            names.join(", ")
        ));
    }

    /// Waits for the command, still passing signals on.
    fn wait_for(&mut self, mut command: Command, signals: &Signals) -> Option<i32> {
        if !command.has_ended() {
            self.watch.say("recording has ended; waiting for the command to end");
        }
        while !command.has_ended() {
            if let Some(arrived) = signals.next()
                && !arrived.from_terminal
                && arrived.asks_to_end()
            {
                command.pass_on(arrived.signal);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        command.wait()
    }
}
