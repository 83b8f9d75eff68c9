//! Requests that are answered when the consumer has done something for them: a snapshot that is whole, figures with all that was in the
//! rings. Meanwhile the loop goes on.

use crate::control::Answer;
use crate::desk::Ticket;
use crate::recorder::Recorder;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often something was asked of the consumer. It answers a number when everything up to that one is done.
#[derive(Debug, Default)]
pub(crate) struct Asked(AtomicU64);

impl Asked {
    /// Asks once more; returns the number to wait for.
    pub(crate) fn ask(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// How long figures are waited for: a consumer that stands before a slow disk is worth knowing about now.
const FIGURES_PATIENCE: Duration = Duration::from_secs(1);

/// Who waits, and for which number.
#[derive(Debug, Default)]
pub(crate) struct Later {
    snapshots: Vec<(u64, Ticket)>,
    figures: Vec<(u64, Ticket)>,
    /// Since when the first of those waits.
    since: Option<Instant>,
}

impl Later {
    /// Waits for a snapshot.
    pub(crate) fn wait_for_snapshot(&mut self, number: u64, ticket: Ticket) {
        self.snapshots.push((number, ticket));
    }

    /// Waits until the rings were emptied.
    pub(crate) fn wait_for_figures(&mut self, number: u64, ticket: Ticket) {
        self.since.get_or_insert_with(Instant::now);
        self.figures.push((number, ticket));
    }
}

/// Takes out those that wait for a number up to this one.
fn due(waiting: &mut Vec<(u64, Ticket)>, number: u64) -> impl Iterator<Item = Ticket> + use<> {
    let (due, rest) = std::mem::take(waiting).into_iter().partition(|(wanted, _)| *wanted <= number);
    *waiting = rest;
    let due: Vec<(u64, Ticket)> = due;
    due.into_iter().map(|(_, ticket)| ticket)
}

impl Recorder<'_> {
    /// The snapshots that were asked for up to this number are one, which is whole; or there is none, because.
    pub(crate) fn answer_snapshots(&mut self, number: u64, came_to: Result<String, String>) {
        let (done, text) = match came_to {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        let due = due(&mut self.later.snapshots, number);
        self.late.extend(due.map(|ticket| (ticket, Answer { done, text: text.clone() })));
    }

    /// What was in the rings when this number was asked for is counted.
    pub(crate) fn answer_figures(&mut self, number: u64) {
        self.answer_figures_with(number, "");
    }

    /// Returns who has waited long enough with what is known.
    pub(crate) fn answer_old_figures(&mut self) {
        if self.later.since.is_some_and(|since| since.elapsed() > FIGURES_PATIENCE) {
            self.answer_figures_with(u64::MAX, "\nwriting takes long: these figures are some time old");
        }
    }

    fn answer_figures_with(&mut self, number: u64, remark: &str) {
        let due: Vec<Ticket> = due(&mut self.later.figures, number).collect();
        if self.later.figures.is_empty() {
            self.later.since = None;
        }
        if !due.is_empty() {
            let answer = Answer { done: true, text: self.status() + remark };
            self.late.extend(due.into_iter().map(|ticket| (ticket, answer.clone())));
        }
    }
}
