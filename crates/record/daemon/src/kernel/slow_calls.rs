//! Slow system calls: read from the kernel's programs, written as a stream of the kernel's trace, and summed up for
//! whoever looks.

use super::Kernel;
use super::make::announce;
use super::slow_stream::{FILE, SlowCalls};
use crate::consumer::totals::Context;
use crate::options::LatencyOptions;
use crate::output::folder::Folder;
use crate::output::packets::Files;
use crate::output::records::{RecordStream, now};
use mote_slow::{Latencies, Latency, Settings, event};
use mote_symbol::collect::processes;
use mote_sys::Errno;
use std::io;
use std::sync::Arc;
use std::time::Instant;

impl Kernel {
    /// Writes the newest slow calls into a snapshot of this trace. Returns how many.
    pub(crate) fn add_slow(&self, directory: &Folder) -> io::Result<u64> {
        let Some(calls) = &self.slow_calls else { return Ok(0) };
        if calls.newest.is_empty() {
            return Ok(0);
        }
        let sink = Files { directory: directory.clone(), hidden: directory.open(mote_journal::DIRECTORY)? };
        let mut stream = RecordStream::new(FILE, calls.stream.number());
        calls.newest.iter().for_each(|(time, record)| stream.add_record(*time, record));
        let written = self.with_context(|context| {
            let (_, ended) = stream.end(&Context { sink: Arc::new(sink), ..context.clone() });
            ended.map(|()| calls.newest.len() as u64)
        });
        written.map_err(|why: Errno| io::Error::from_raw_os_error(why.0))
    }

    /// The id of the event of slow calls.
    pub(crate) fn slow_id(&self) -> Option<usize> {
        self.slow_calls.as_ref().map(|calls| calls.ids[0] as usize)
    }

    /// Whether slow calls ask for snapshots: then they are looked for more often.
    pub(crate) fn snapshots_slow(&self) -> bool {
        self.slow_calls.as_ref().is_some_and(|calls| calls.snapshots > 0)
    }

    /// What the system calls came to, at the end.
    pub(super) fn latencies(&self) -> Option<Latencies> {
        self.slow_calls.as_ref().map(|calls| calls.last.clone())
    }

    /// Writes the slow calls that wait. Returns what went wrong.
    fn write_slow(&mut self) -> Option<String> {
        let mut calls = self.slow_calls.take()?;
        calls.written = Instant::now();
        let written = self.with_context(|context| calls.stream.write(context));
        self.slow_calls = Some(calls);
        written.err().map(not_written)
    }
}

/// What has come of a look at slow calls.
#[derive(Default)]
pub(crate) struct Looked {
    /// Threads that slow calls are of.
    pub(crate) threads: Vec<u32>,
    /// A snapshot is wanted; how many more may be, of how many.
    pub(crate) snapshot: Option<(u32, u32)>,
    /// Why they could not be written.
    pub(crate) problem: Option<String>,
}

impl Kernel {
    /// What to look for, if slow calls are wanted.
    pub(crate) fn slow_settings(&self) -> Option<Settings> {
        self.slow_calls.as_ref().map(|calls| calls.wanted.settings())
    }

    /// Takes slow calls in from now on, which the recording was not begun for. Returns whether the journal has their
    /// events; `None` when the trace is full, and has no slow calls.
    pub(crate) fn watch_slow(&mut self, wanted: &LatencyOptions) -> Option<bool> {
        let [slow, open] = event::descriptions();
        let slow = announce(&self.trace, &mut self.events, &slow).ok()?;
        let open = announce(&self.trace, &mut self.events, &open).ok()?;
        let stream = self.tracer.channel().geometry().rings() + 1;
        self.slow_calls = Some(SlowCalls::new(wanted, [slow, open], stream, self.tracer.state()));
        Some(self.trace.note_events(&self.events, &[slow, open]))
    }

    /// Follows all processes that run, for `-a`. Returns how many cannot be followed.
    pub(crate) fn follow_all(&self) -> u64 {
        if self.slow_calls.is_none() || !self.wanted.all {
            return 0;
        }
        let mut refused = 0;
        for pid in processes().filter(|pid| *pid != std::process::id()) {
            // One that has just ended is not missed.
            let gone = || !std::path::Path::new(&format!("/proc/{pid}")).exists();
            refused += u64::from(self.tracer.follow(pid).is_err() && !gone());
        }
        refused
    }

    /// Takes slow calls in, moves thresholds, and shows figures by `show`.
    pub(crate) fn look_at_slow(&mut self, latency: &mut Latency, mut show: impl FnMut(&Latencies)) -> Looked {
        let Some(calls) = &mut self.slow_calls else { return Looked::default() };
        let threads = calls.take(latency);
        let asks = !threads.is_empty() && calls.snapshots > 0;
        calls.snapshots -= u32::from(asks);
        calls.collector.step(latency).iter().for_each(&mut show);
        let snapshot = asks.then_some((calls.snapshots, calls.wanted.snapshots));
        let problem = if calls.is_due() { self.write_slow() } else { None };
        Looked { threads, snapshot, problem }
    }

    /// Writes those that have not returned. Returns what went wrong.
    pub(crate) fn end_slow(&mut self, mut latency: Latency) -> Option<String> {
        let (now, own) = (now(), self.tracer.own_thread().ok());
        let calls = self.slow_calls.as_mut()?;
        let figures = calls.collector.end(&mut latency, self.tracer.state(), own, now);
        for open in &figures.open {
            calls.stream.add(calls.ids[1], now, open.tid, &event::open_fields(open.number, open.age_ns));
        }
        calls.last = figures;
        let mut calls = self.slow_calls.take()?;
        let (totals, ended) = self.with_context(|context| calls.stream.end(context));
        self.slow_calls = Some(calls);
        self.dumped.add(&totals);
        ended.err().map(not_written)
    }
}

fn not_written(why: Errno) -> String {
    format!("cannot write kernel/{FILE}: {why}; slow system calls are missing")
}
