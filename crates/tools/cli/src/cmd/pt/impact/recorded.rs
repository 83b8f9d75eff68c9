//! How many events a tracer has recorded.

use anyhow::ensure;
use mote_timeline::{Entry, Range, Trace};
use std::collections::BTreeMap;
use std::path::Path;

/// What tracers say of the program at its begin; no event of its own.
const STATE: [&str; 2] = ["lttng_ust_statedump", mote_journal::STATE];

/// How many there are of each name.
pub(super) type Events = BTreeMap<String, u64>;

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) events: Events,
    /// How many events were lost.
    pub(super) lost: u64,
}

impl Recorded {
    /// So many events, of which there is one at least.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn new(events: Events, lost: u64) -> anyhow::Result<Recorded> {
        let recorded = Recorded { events, lost };
        ensure!(recorded.total() > 0, "it has recorded no event: has the program any for it?");
        Ok(recorded)
    }

    /// All events that were recorded.
    pub(super) fn total(&self) -> u64 {
        self.events.values().sum()
    }
}

/// The events in a trace of mote's or LTTng's, which write none where there was no event.
///
/// # Errors
/// There is no event.
pub(super) fn of_trace(path: &Path) -> anyhow::Result<Recorded> {
    let Ok(trace) = Trace::open(path) else { return Recorded::new(Events::new(), 0) };
    let mut by_class: BTreeMap<_, u64> = BTreeMap::new();
    let mut lost = 0_u64;
    let mut events = trace.events(Range::ALL);
    while let Some(entry) = events.next() {
        match entry {
            Entry::Event(record) => *by_class.entry(record.class()).or_default() += 1,
            Entry::Loss(loss) => lost = lost.saturating_add(loss.loss.known().unwrap_or(1)),
        }
    }
    let mut by_name = Events::new();
    for (class, count) in by_class {
        let Some((_, event)) = trace.class(class) else { continue };
        if STATE.contains(&trace.provider(class)) {
            continue;
        }
        *by_name.entry(event.name.to_string()).or_default() += count;
    }
    Recorded::new(by_name, lost.max(trace.lost()))
}
