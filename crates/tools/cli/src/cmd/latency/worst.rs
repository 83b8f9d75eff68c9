//! The worst slow calls of a finished recording, with their stacks.

use mote_analysis::Analysis;
use mote_analysis::latency::{SlowCall, Worst};
use mote_timeline::{Range, Record, Trace};
use mote_view::{Stack, Stacks};
use std::path::Path;

/// Calls of one kind that are shown at most.
const OF_EACH: usize = 3;

/// The worst calls, and how many slow ones there are in the recording.
#[derive(Default)]
pub(super) struct Found {
    pub(super) calls: Vec<(SlowCall, Stack)>,
    pub(super) slow: u64,
    /// Why addresses have no names.
    pub(super) doubts: Vec<String>,
}

/// Reads them from the recording.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn of(dir: &Path, most: usize) -> anyhow::Result<Found> {
    let trace = Trace::open(dir)?;
    let mut stacks = super::super::stacks(&trace, dir, None)?;
    let slow = SlowCalls { worst: Worst::new(most, OF_EACH), slow: 0, stacks: &mut stacks };
    let (calls, slow) = mote_analysis::run(&mut trace.events(Range::ALL), slow);
    Ok(Found { calls, slow, doubts: stacks.doubts() })
}

/// Keeps the worst calls with their stacks, and counts all.
struct SlowCalls<'s> {
    worst: Worst<Stack>,
    slow: u64,
    stacks: &'s mut Stacks,
}

impl Analysis for SlowCalls<'_> {
    type Output = (Vec<(SlowCall, Stack)>, u64);

    fn event(&mut self, record: &Record<'_>) {
        if let Some(call) = SlowCall::of(record) {
            self.slow += 1;
            self.worst.add(call, || self.stacks.of(record).unwrap_or_default());
        }
    }

    fn finish(self) -> Self::Output {
        (self.worst.calls().to_vec(), self.slow)
    }
}

/// Names of the functions of a stack's kernel part, the innermost first.
pub(super) fn kernel_functions(stack: &Stack) -> Vec<&str> {
    stack
        .kernel
        .iter()
        .flat_map(|location| location.functions.iter().map(|function| &*function.name))
        .collect()
}
