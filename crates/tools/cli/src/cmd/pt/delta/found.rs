//! What a delta profile has found, to be shown.

use crate::cmd::pt::shown::Input;
use crate::cmd::pt::streams::{self, Threads};
use crate::cmd::pt::times::Times;
use mote_hardware::delta::{Answer, Case, Question};
use mote_hardware::paths::Named;

/// All that is shown.
pub(super) struct Found<'a> {
    pub(super) input: &'a Input,
    pub(super) question: Question,
    pub(super) answer: Answer,
    pub(super) threads: Threads,
    pub(super) times: Times,
    /// The stacks at the begins of the worst, the outermost function first.
    pub(super) stacks: Vec<Vec<Named>>,
}

impl Found<'_> {
    /// The command that shows an interval, from the instruction that begins it to that which ends it.
    pub(super) fn command(&self, case: &Case) -> String {
        let count = case.to.number - case.from.number + 1;
        streams::flow(self.input, case.who.of, case.from.number, count)
    }
}
