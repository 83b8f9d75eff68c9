//! Requests that were not answered yet, and what each of them waits for.

use crate::input::Ticket;
use mote_filter::Rule;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long figures are waited for: a consumer that stands before a slow disk is worth knowing about now.
const FIGURES_PATIENCE: Duration = Duration::from_secs(1);

/// Requests that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Rules on events of processes that go into force when the kernel's side has taken its own.
    pub(crate) changes: BTreeMap<Ticket, Changing>,
    /// Changes that are made, with the number of problems before: what comes of them is known when all actions are
    /// done.
    pub(crate) concluding: Vec<(Ticket, u64, String)>,
    /// Rules to add that name words which all processes share, and are being made.
    pub(crate) for_words: Vec<(Ticket, Vec<Rule>, Vec<Rule>)>,
    /// Snapshots, by the consumer's numbers.
    snapshots: Vec<(u64, Ticket)>,
    /// Figures, by the consumer's numbers.
    figures: Vec<(u64, Ticket)>,
    /// Asked, and no number yet.
    asked: BTreeMap<Ticket, Wanted>,
    /// Since when the first figures are waited for.
    figures_since: Option<Instant>,
}

/// What a request wants of the consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Snapshot,
    Figures,
}

/// A change of rules that waits for the kernel's side.
pub(crate) enum Changing {
    /// Rules to add, and how many in all.
    Enable(Vec<Rule>, usize),
    /// Patterns to take back.
    Disable(Vec<String>),
}

impl Waiting {
    /// The consumer is to be asked.
    pub(crate) fn ask(&mut self, ticket: Ticket, wanted: Wanted, now: Instant) {
        self.asked.insert(ticket, wanted);
        if wanted == Wanted::Figures {
            self.figures_since.get_or_insert(now);
        }
    }

    /// The consumer was asked, under this number.
    pub(crate) fn asked(&mut self, ticket: Ticket, number: u64) {
        match self.asked.remove(&ticket) {
            Some(Wanted::Snapshot) => self.snapshots.push((number, ticket)),
            Some(Wanted::Figures) => self.figures.push((number, ticket)),
            None => {}
        }
    }

    /// Takes out those that wait for a snapshot with a number up to this one.
    pub(crate) fn take_snapshots(&mut self, number: u64) -> Vec<Ticket> {
        due(&mut self.snapshots, number)
    }

    /// Takes out those that wait for figures with a number up to this one.
    pub(crate) fn take_figures(&mut self, number: u64) -> Vec<Ticket> {
        let due = due(&mut self.figures, number);
        if self.figures.is_empty() {
            self.figures_since = None;
        }
        due
    }

    /// Whether figures were waited for long enough.
    pub(crate) fn are_figures_late(&self, now: Instant) -> bool {
        self.figures_since.is_some_and(|since| now.saturating_duration_since(since) > FIGURES_PATIENCE)
    }
}

/// Takes out those that wait for a number up to this one.
fn due(waiting: &mut Vec<(u64, Ticket)>, number: u64) -> Vec<Ticket> {
    waiting.extract_if(.., |(wanted, _)| *wanted <= number).map(|(_, ticket)| ticket).collect()
}
