//! The snapshots of packets as events: `pt_snapshot`, at the time of the event that has asked. A trace of their own, in
//! the directory `pt-snapshots` of the recording, which is there when there is the first one.

use super::directory_of;
use super::taker::Taken;
use crate::area::packets::Request;
use crate::consumer::state::TraceState;
use crate::consumer::totals::{Context, Totals};
use crate::consumer::trace::Consumed;
use crate::error::Error;
use crate::kernel::make::announce;
use crate::options::Options;
use crate::output::directory::Directory;
use crate::output::metadata::Frame;
use crate::output::records::RecordStream;
use crate::samples::{Samples, of_monotonic};
use crate::setup;
use crate::trace::Trace;
use mote_clock::Source;
use mote_journal::Fact;
use mote_pmu::Written;
use mote_session::events::Events;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The trace's directory in that of the recording.
const DIRECTORY: &str = "pt-snapshots";
/// The event (`mote_layout::describe`).
const DESCRIPTION: &str = "mote1\npt:pt_snapshot\n6 :0\nthe hardware trace before an event was kept: where, of which event, \
                           and how much, in bytes and nanoseconds\ndirectory str\nevent str\npid u32\ncpu u32\n\
                           duration u64\ncovered u64\noverwritten u64\nlatency u64\nbytes u64\n";

/// The trace.
pub(super) struct SnapshotEvents {
    trace: Trace,
    events: Events,
    id: u32,
    /// By CPU.
    streams: BTreeMap<u32, RecordStream>,
    /// Threads whose names the journal has.
    named: BTreeSet<u32>,
    context: Context,
}

impl SnapshotEvents {
    /// Makes it, without an event.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Metadata`].
    pub(super) fn make(
        options: &Options,
        (directory, frame): (&Directory, &Frame),
        samples: &Samples,
    ) -> Result<SnapshotEvents, Error> {
        let directory = directory.make_inside(DIRECTORY, &options.streams)?;
        let frame = setup::kernel_frame(frame);
        let mut trace = Trace::new(directory, frame, options.ctf, Arc::new(TraceState::default()));
        trace.directory.keep();
        trace.directory.note(&Fact::Session(setup::packets_session(options, trace.frame())));
        trace.note_samples([of_monotonic(&samples.first())].into_iter());
        let mut events = Events::default();
        let id = announce(&trace, &mut events, DESCRIPTION)?;
        trace.note_events(&events, &[id]);
        trace.write_metadata(&events, samples.conversion_of_monotonic())?;
        let context = Context { sink: trace.directory.sink(), uuid: trace.uuid(), clock: Source::Monotonic };
        Ok(SnapshotEvents { trace, events, id, streams: BTreeMap::new(), named: BTreeSet::new(), context })
    }

    /// Adds one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn add(&mut self, taken: &Taken, event: &str) -> mote_sys::Result<()> {
        let Written { packets, covered_ns, overwritten_ns, latency_ns, .. } = taken.written;
        let request = &taken.request;
        let mut fields = Vec::new();
        for text in [directory_of(taken.number).as_str(), event] {
            fields.extend(text.bytes().filter(|byte| *byte != 0));
            fields.push(0);
        }
        [request.pid, request.cpu].iter().for_each(|word| fields.extend(word.to_le_bytes()));
        for word in [request.duration_ns, covered_ns, overwritten_ns, latency_ns, packets] {
            fields.extend(word.to_le_bytes());
        }
        self.name(request);
        let (streams, cpu) = (self.streams.len() as u32, request.cpu);
        let stream = self
            .streams
            .entry(cpu)
            .or_insert_with(|| RecordStream::of_cpu(format!("cpu_{cpu}"), streams, cpu));
        stream.add(self.id, request.time_ns, request.tid, &fields);
        stream.write(&self.context)
    }

    /// Notes the name of a thread, once.
    fn name(&mut self, request: &Request) {
        let Request { pid, tid, time_ns: at, .. } = *request;
        if !self.named.insert(tid) {
            return;
        }
        // In another pid namespace it has another number, and perhaps no name.
        let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        let name = name.trim_end().to_owned();
        self.trace.directory.note(&Fact::Thread { tid, pid, at, name });
    }

    /// Ends it. Returns whether all of it is written.
    pub(super) fn finish(mut self, duration_ns: u64) -> bool {
        let (mut totals, mut is_written) = (Totals::default(), true);
        for stream in self.streams.values_mut() {
            let (own, written) = stream.end(&self.context);
            totals.add(&own);
            is_written &= written.is_ok();
        }
        let summary =
            self.trace.summary(&self.events, &Consumed { totals, ..Consumed::default() }, duration_ns);
        self.trace.directory.note(&Fact::End(summary)) & is_written
    }
}
