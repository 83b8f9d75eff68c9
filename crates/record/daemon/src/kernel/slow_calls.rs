//! Slow system calls: read from the kernel's programs, written as a stream of the kernel's trace, and summed up for whoever looks.

use super::Kernel;
use super::make::announce;
use crate::consumer::totals::{Context, Totals, add};
use crate::options::LatencyOptions;
use crate::output::folder::Folder;
use crate::output::packets::Files;
use crate::output::sink::{Bytes, StreamSink, TraceSink};
use mote_layout::packet::{HEADER_BYTES, PacketHeader, STREAM_PER_CPU};
use mote_layout::record;
use mote_slow::{Collector, Latencies, Latency, Settings, event};
use mote_sys::{Errno, Result};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// Name of the stream's file.
const FILE: &str = "latency";
/// Records wait for as many bytes, or for [`FLUSH`].
const PACKET: usize = 256 << 10;
/// The newest slow calls, which each snapshot gets.
const NEWEST: usize = 1000;
/// After so long they are written.
const FLUSH: Duration = Duration::from_secs(1);

/// Slow calls on their way into the trace.
#[derive(Debug)]
pub(crate) struct SlowCalls {
    wanted: LatencyOptions,
    /// Ids of the events of `mote_slow::event`.
    ids: [u32; 2],
    collector: Collector,
    rows: Rows,
    last: Latencies,
    /// The newest slow calls: time and record.
    newest: VecDeque<(u64, Vec<u8>)>,
    /// Snapshots that slow calls may still ask for.
    snapshots: u32,
}

impl SlowCalls {
    pub(super) fn new(wanted: &LatencyOptions, ids: [u32; 2], stream: u32) -> SlowCalls {
        SlowCalls {
            wanted: wanted.clone(),
            ids,
            collector: Collector::new(wanted),
            rows: Rows { stream, written: Instant::now(), ..Rows::default() },
            last: Latencies::default(),
            newest: VecDeque::new(),
            snapshots: wanted.snapshots,
        }
    }

    /// Takes in slow calls; returns the threads that they are of.
    fn take(&mut self, latency: &mut Latency) -> Vec<u32> {
        let SlowCalls { collector, rows, newest, ids, wanted, .. } = self;
        let mut threads = BTreeSet::new();
        collector.read(latency, |slow, file| {
            threads.insert(slow.tid);
            let record = rows.add(ids[0], slow.time_ns, slow.tid, &event::slow_fields(slow, file));
            newest.extend((wanted.snapshots > 0).then_some(record));
            let old = newest.len().saturating_sub(NEWEST);
            newest.drain(..old);
        });
        threads.into_iter().collect()
    }
}

/// The stream: records that wait, and the file with the others.
#[derive(Debug)]
struct Rows {
    stream: u32,
    file: Option<Box<dyn StreamSink>>,
    sequence: u64,
    records: Vec<u8>,
    first: u64,
    last: u64,
    written: Instant,
    totals: Totals,
}

impl Default for Rows {
    fn default() -> Rows {
        let (records, totals) = (Vec::new(), Totals::default());
        Rows {
            stream: 0,
            file: None,
            sequence: 0,
            records,
            first: 0,
            last: 0,
            written: Instant::now(),
            totals,
        }
    }
}

impl Rows {
    /// Adds a record. Calls that returned on several CPUs at once may come in another order: none is before the one in front of it.
    /// Returns its time and its bytes.
    fn add(&mut self, id: u32, time: u64, tid: u32, fields: &[u8]) -> (u64, Vec<u8>) {
        let time = time.max(self.last);
        if self.records.is_empty() {
            self.first = time;
        }
        self.last = time;
        let record =
            [&record::header(time, id as u16).to_le_bytes()[..], &tid.to_le_bytes(), fields].concat();
        self.records.extend_from_slice(&record);
        self.totals.count(id as usize, 1);
        (time, record)
    }

    fn is_due(&self) -> bool {
        self.records.len() >= PACKET || (!self.records.is_empty() && self.written.elapsed() >= FLUSH)
    }

    fn write(&mut self, context: &Context) -> Result<()> {
        // A packet without records would begin when the one before it did: readers take that for disorder.
        if self.records.is_empty() {
            return Ok(());
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => context.sink.stream(FILE)?,
        };
        let records = std::mem::take(&mut self.records);
        let part = Part { stream: self.stream, sequence: self.sequence, times: (self.first, self.last) };
        let added = part.write(&mut *file, context, &records);
        self.file = Some(file);
        self.written = Instant::now();
        added?;
        self.sequence += 1;
        self.totals.packets += 1;
        self.totals.bytes += (HEADER_BYTES + records.len()) as u64;
        Ok(())
    }
}

/// A packet of the stream.
struct Part {
    stream: u32,
    sequence: u64,
    /// Of its first and its last record.
    times: (u64, u64),
}

impl Part {
    fn write(&self, file: &mut dyn StreamSink, context: &Context, records: &[u8]) -> Result<()> {
        let header = PacketHeader {
            uuid: context.uuid,
            stream_class: STREAM_PER_CPU,
            stream: self.stream,
            begin: self.times.0,
            end: self.times.1,
            content: records.len() as u64,
            sequence: self.sequence,
            cpu: 0,
            lost: Default::default(),
        };
        file.add(header.encode(), &Bytes(records)).map(drop)
    }
}

impl Kernel {
    /// Writes the newest slow calls into a snapshot of this trace. Returns how many.
    pub(crate) fn add_slow(&self, directory: &Folder) -> io::Result<u64> {
        let Some(calls) = &self.slow_calls else { return Ok(0) };
        let ends = calls.newest.front().zip(calls.newest.back());
        let Some(((first, _), (last, _))) = ends else { return Ok(0) };
        let records: Vec<u8> = calls.newest.iter().flat_map(|(_, record)| record).copied().collect();
        let sink = Files { directory: directory.clone(), hidden: directory.open(mote_journal::DIRECTORY)? };
        let part = Part { stream: calls.rows.stream, sequence: 0, times: (*first, *last) };
        let written = self.with_context(|context| {
            let mut file = sink.stream(FILE)?;
            part.write(&mut *file, context, &records)?;
            file.finish();
            Ok(calls.newest.len() as u64)
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
        let written = self.with_context(|context| calls.rows.write(context));
        self.slow_calls = Some(calls);
        written.err().map(|why| format!("cannot write kernel/{FILE}: {why}; slow system calls are missing"))
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
        self.slow_calls = Some(SlowCalls::new(wanted, [slow, open], stream));
        Some(self.trace.note_events(&self.events, &[slow, open]))
    }

    /// Follows all processes that run, for `-a`. Returns how many cannot be followed.
    pub(crate) fn follow_all(&self) -> u64 {
        if self.slow_calls.is_none() || !self.wanted.all {
            return 0;
        }
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
        let mut refused = 0;
        for pid in pids.filter(|pid| *pid != std::process::id()) {
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
        let problem = if calls.rows.is_due() { self.write_slow() } else { None };
        Looked { threads, snapshot, problem }
    }

    /// Writes those that have not returned. Returns what went wrong.
    pub(crate) fn end_slow(&mut self, mut latency: Latency) -> Option<String> {
        let (now, own) = (Kernel::now(), self.tracer.own_thread().ok());
        let calls = self.slow_calls.as_mut()?;
        let figures = calls.collector.end(&mut latency, self.tracer.state(), own, now);
        for open in &figures.open {
            calls.rows.add(calls.ids[1], now, open.tid, &event::open_fields(open.number, open.age_ns));
        }
        calls.last = figures;
        let problem = self.write_slow();
        let calls = self.slow_calls.as_mut()?;
        calls.rows.file.iter_mut().for_each(|file| file.finish());
        let (from, to) = (&calls.rows.totals, &mut self.dumped);
        to.counts.resize(to.counts.len().max(from.counts.len()), 0);
        add(&mut to.counts, &from.counts);
        to.bytes += from.bytes;
        to.packets += from.packets;
        problem
    }
}
