//! What a person is told while the recording is made.

use super::aggregates;
use crate::options::Options;
use crate::watch::Watch;
use mote_filter::Aggregate;
use std::time::{Duration, Instant};

/// The person's side.
pub(crate) struct Screen<'w> {
    pub(crate) watch: &'w mut dyn Watch,
    /// How often counts and histograms are shown, in lines of how many columns.
    interval: Option<Duration>,
    columns: usize,
    /// When they were last shown.
    shown: Instant,
}

impl<'w> Screen<'w> {
    /// Shows as the options say.
    pub(crate) fn new(watch: &'w mut dyn Watch, options: &Options) -> Screen<'w> {
        Screen { watch, interval: options.interval, columns: options.columns, shown: Instant::now() }
    }

    /// Says something that a person should know now.
    pub(crate) fn say(&mut self, text: &str) {
        self.watch.say(text);
    }

    /// Whether it is time to show counts and histograms again.
    pub(crate) fn is_due(&self) -> bool {
        self.interval.is_some_and(|interval| self.shown.elapsed() >= interval)
    }

    /// Shows counts and histograms.
    pub(crate) fn show_aggregates(&mut self, all: &[Aggregate]) {
        self.shown = Instant::now();
        let text = self.text(all);
        if !text.is_empty() {
            self.watch.aggregates(&text);
        }
    }

    /// Counts and histograms as text.
    pub(crate) fn text(&self, all: &[Aggregate]) -> String {
        aggregates::text(all, self.columns)
    }
}
