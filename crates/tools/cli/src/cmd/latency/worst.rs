//! The worst slow calls of a finished recording, with their stacks.

use mote_analysis::latency::{SlowCall, Worst};
use mote_timeline::{Entry, Range, Trace};
use mote_view::Stack;
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
    let mut events = trace.events(Range::ALL);
    let mut worst = Worst::new(most, OF_EACH);
    let mut slow = 0;
    while let Some(entry) = events.next() {
        let Entry::Event(record) = entry else { continue };
        let Some(call) = SlowCall::of(&record) else { continue };
        slow += 1;
        worst.add(call, || stacks.of(&record).unwrap_or_default());
    }
    Ok(Found { calls: worst.calls().to_vec(), slow, doubts: stacks.doubts() })
}

/// Names of the functions of a stack's kernel part, the innermost first.
pub(super) fn kernel_functions(stack: &Stack) -> Vec<&str> {
    stack
        .kernel
        .iter()
        .flat_map(|location| location.functions.iter().map(|function| &*function.name))
        .collect()
}
