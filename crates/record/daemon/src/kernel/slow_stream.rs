//! Slow system calls on their way into the trace.

use crate::consumer::stacks::of_anyone;
use crate::options::{self, LatencyOptions};
use crate::output::records::RecordStream;
use mote_kernel::map::State;
use mote_layout::stack::Copy;
use mote_sampler::Copies;
use mote_slow::{Collector, Latencies, Latency, Slow, event};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name of the stream's file.
pub(super) const FILE: &str = "latency";
/// Records wait for as many bytes, or for [`FLUSH`].
const PACKET: usize = 256 << 10;
/// The newest slow calls, which each snapshot gets.
const NEWEST: usize = 1000;
/// After so long they are written.
const FLUSH: Duration = Duration::from_secs(1);

/// Slow calls on their way into the trace.
#[derive(Debug)]
pub(crate) struct SlowCalls {
    pub(super) wanted: LatencyOptions,
    /// Ids of the events of `mote_slow::event`.
    pub(super) ids: [u32; 2],
    pub(super) collector: Collector,
    pub(super) stream: RecordStream,
    /// When the stream was written last.
    pub(super) written: Instant,
    pub(super) last: Latencies,
    /// The newest slow calls: time and record.
    pub(super) newest: VecDeque<(u64, Vec<u8>)>,
    /// Snapshots that slow calls may still ask for.
    pub(super) snapshots: u32,
    /// What makes addresses of the copies of their stacks.
    stacks: Copies,
}

impl SlowCalls {
    pub(super) fn new(wanted: &LatencyOptions, ids: [u32; 2], stream: u32, state: &Arc<State>) -> SlowCalls {
        SlowCalls {
            wanted: wanted.clone(),
            ids,
            collector: Collector::new(wanted),
            stream: RecordStream::new(FILE, stream),
            written: Instant::now(),
            last: Latencies::default(),
            newest: VecDeque::new(),
            snapshots: wanted.snapshots,
            stacks: of_anyone(state, options::cpus()),
        }
    }

    /// Takes in slow calls; returns the threads that they are of.
    pub(super) fn take(&mut self, latency: &mut Latency) -> Vec<u32> {
        let SlowCalls { collector, stream, newest, ids, wanted, stacks, .. } = self;
        let mut threads = BTreeSet::new();
        stacks.refresh();
        collector.read(latency, |slow, file| {
            threads.insert(slow.tid);
            let slow = unwound(slow, stacks);
            let (time, record) = stream.add(ids[0], slow.time_ns, slow.tid, &event::slow_fields(&slow, file));
            newest.extend((wanted.snapshots > 0).then(|| (time, record.to_vec())));
            let old = newest.len().saturating_sub(NEWEST);
            newest.drain(..old);
        });
        threads.into_iter().collect()
    }

    /// Whether the stream is to be written.
    pub(super) fn is_due(&self) -> bool {
        let waiting = self.stream.waiting();
        waiting >= PACKET || waiting > 0 && self.written.elapsed() >= FLUSH
    }
}

/// The same with addresses in the place of a copy of its stack.
fn unwound(mut slow: Slow, stacks: &mut Copies) -> Slow {
    let bytes: Vec<u8> = slow.user_stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let Some(copy) = Copy::read(&bytes) else { return slow };
    // What it mapped since the last look may be missing, and then it is read from `/proc`.
    slow.user_stack.clear();
    stacks.unwind(&copy, slow.time_ns, &mut slow.user_stack);
    slow
}
