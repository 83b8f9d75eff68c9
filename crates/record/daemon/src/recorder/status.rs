//! How the recording is.

use super::{Recorder, aggregates};
use crate::call_counts;
use crate::consumer::state::Figures;
use mote_filter::Aggregate;
use mote_words::counted;

impl Recorder<'_> {
    /// What has come of both traces so far.
    pub(super) fn figures(&self) -> Figures {
        let kernel = self.kernel.get().map(|kernel| kernel.trace.state.figures());
        self.figures_of_processes() + kernel.unwrap_or_default()
    }

    /// What has come of the processes' trace so far.
    fn figures_of_processes(&self) -> Figures {
        self.output.trace.state.figures() + Figures { unknown: self.session.missed(), ..Figures::default() }
    }

    /// What is counted so far.
    pub(super) fn aggregates(&self) -> Vec<Aggregate> {
        let read = self.memory.aggregates(&self.session.filters().maps, self.session.layout());
        let calls = call_counts::aggregate(self.subjects.counts());
        read.into_iter().chain(self.kernel.aggregates()).chain(calls).collect()
    }

    /// How it is, for a person with lines of so many columns.
    pub(super) fn status(&self, columns: usize) -> String {
        let (events, filters) = (self.session.events(), self.session.filters());
        let on = (0..events.len()).filter(|id| filters.is_on(*id)).count();
        let mut text = format!(
            "recording for {:.1} s: {}, {}, {on} of {} on",
            self.clock.elapsed().as_secs_f64(),
            self.figures_of_processes(),
            counted(self.session.processes(), "process", "processes"),
            counted(events.len(), "kind of event", "kinds of events"),
        );
        for line in filters.lines() {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        if let Some(kernel) = self.kernel.get() {
            text.push_str(&kernel.status());
        }
        if let Some(profile) = &self.profile {
            text.push_str(&profile.status());
        }
        if let Some(sampled) = &self.sampled {
            text.push_str(&sampled.status());
        }
        let counted = aggregates::text(&self.aggregates(), columns);
        if !counted.is_empty() {
            text.push_str("\n\n");
            text.push_str(counted.trim_end());
        }
        text
    }
}
