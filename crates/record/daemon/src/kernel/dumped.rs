//! The state of the system at the start, as a stream of the kernel's trace.

use super::{DIRECTORY, Kernel};
use crate::consumer::totals::{Context, Totals};
use crate::output::sink::{Bytes, StreamSink};
use mote_journal::Fact;
use mote_kernel::births::Born;
use mote_kernel::dump::{Dump, Scope, namespace};
use mote_layout::packet::{HEADER_BYTES, PacketHeader, STREAM_PER_CPU};
use mote_layout::record;
use mote_sys::Result;

/// Name of its file.
const FILE: &str = "statedump";
/// Name of the file of what is found out later.
const BORN_FILE: &str = "namespaces";
/// Threads that are told there, at most.
const BORN_MAX: usize = 1 << 18;
/// Bytes of records in a packet, about.
const PACKET: usize = 1 << 20;

impl Kernel {
    /// Writes the state of the system, or of these processes. Returns what went wrong.
    pub(super) fn dump(&mut self, processes: &[i32]) -> Option<String> {
        let scope = if self.wanted.all {
            Scope::All
        } else {
            Scope::Processes(processes.iter().map(|pid| pid.unsigned_abs()).collect())
        };
        let first = self.tracer.channel().geometry().rings();
        let ids = self.dump.clone();
        let written = self.with_context(|context| {
            let mut stream = Stream::new(context, first, FILE);
            Dump::of(scope).for_each(|record| {
                if let Some(id) = ids.get(record.event) {
                    stream.add(Kernel::now(), *id as u16, record.tid, &record.fields);
                }
            });
            stream.end()
        });
        match written {
            Ok(totals) => {
                self.dumped = totals;
                None
            }
            Err(why) => {
                Some(format!("cannot write {DIRECTORY}/{FILE}: {why}; the state at the start is missing"))
            }
        }
    }
}

impl Kernel {
    /// Notes which threads have other ids for themselves than here: in the journal at once, in the trace at the end. Returns whether the journal could be
    /// written.
    pub(super) fn note_born(&mut self) -> bool {
        let (born, lost) = self.tracer.born();
        self.born_lost += lost;
        let mut noted = true;
        for Born { time_ns, tid, pid, vtid, vpid, .. } in &born {
            let at = if *time_ns == 0 { Kernel::now() } else { *time_ns };
            let fact = Fact::Namespace { tid: *tid, pid: *pid, vtid: *vtid, vpid: *vpid, at };
            noted &= self.trace.directory.note(&fact);
        }
        // The others are in the dump.
        let born: Vec<Born> = born.into_iter().filter(|born| born.time_ns > 0).collect();
        let room = BORN_MAX.saturating_sub(self.born.len());
        self.born_lost += born.len().saturating_sub(room) as u64;
        self.born.extend(born.into_iter().take(room));
        noted
    }

    /// Writes which threads have had other ids, as a stream. Returns what went wrong.
    pub(super) fn write_born(&mut self) -> Option<String> {
        let mut born = std::mem::take(&mut self.born);
        born.sort_by_key(|born| born.time_ns);
        let (number, ids) = (self.tracer.channel().geometry().rings() + 2, self.dump.clone());
        let written = self.with_context(|context| {
            let mut stream = Stream::new(context, number, BORN_FILE);
            for born in &born {
                let record = namespace(born);
                if let Some(id) = ids.get(record.event) {
                    stream.add(born.time_ns, *id as u16, record.tid, &record.fields);
                }
            }
            stream.end()
        });
        match written {
            Ok(totals) => {
                self.dumped.counts.resize(self.dumped.counts.len().max(totals.counts.len()), 0);
                crate::consumer::totals::add(&mut self.dumped.counts, &totals.counts);
                self.dumped.bytes += totals.bytes;
                self.dumped.packets += totals.packets;
                let lost = std::mem::take(&mut self.born_lost);
                (lost > 0).then(|| format!("of {lost} threads in pid namespaces it is not known which ids they have for themselves"))
            }
            Err(why) => Some(format!("cannot write {DIRECTORY}/{BORN_FILE}: {why}")),
        }
    }
}

/// The stream. It belongs to no CPU; its records are in the order in which they were found.
struct Stream<'c> {
    context: &'c Context,
    name: &'static str,
    file: Option<Box<dyn StreamSink>>,
    number: u32,
    sequence: u64,
    records: Vec<u8>,
    /// Times of the first and last of `records`.
    times: (u64, u64),
    totals: Totals,
    failed: Result<()>,
}

impl<'c> Stream<'c> {
    fn new(context: &'c Context, number: u32, name: &'static str) -> Stream<'c> {
        let (records, totals) = (Vec::new(), Totals::default());
        Stream {
            context,
            name,
            file: None,
            number,
            sequence: 0,
            records,
            times: (0, 0),
            totals,
            failed: Ok(()),
        }
    }

    fn add(&mut self, now: u64, id: u16, tid: u32, fields: &[u8]) {
        if self.records.is_empty() {
            self.times.0 = now;
        }
        self.times.1 = now;
        self.records.extend_from_slice(&record::header(now, id).to_le_bytes());
        self.records.extend_from_slice(&tid.to_le_bytes());
        self.records.extend_from_slice(fields);
        let counts = &mut self.totals.counts;
        counts.resize(counts.len().max(usize::from(id) + 1), 0);
        counts[usize::from(id)] += 1;
        if self.records.len() >= PACKET {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_ok() && !self.records.is_empty() {
            self.failed = self.write();
        }
        self.records.clear();
    }

    fn write(&mut self) -> Result<()> {
        let header = PacketHeader {
            uuid: self.context.uuid,
            stream_class: STREAM_PER_CPU,
            stream: self.number,
            begin: self.times.0,
            end: self.times.1,
            content: self.records.len() as u64,
            sequence: self.sequence,
            cpu: 0,
            lost: Default::default(),
        };
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.context.sink.stream(self.name)?,
        };
        let records = self.records.as_slice();
        let added = file.add(header.encode(), &Bytes(records));
        self.file = Some(file);
        added?;
        self.sequence += 1;
        self.totals.packets += 1;
        self.totals.bytes += (HEADER_BYTES + records.len()) as u64;
        Ok(())
    }

    fn end(mut self) -> Result<Totals> {
        self.flush();
        self.file.iter_mut().for_each(|file| file.finish());
        self.failed.map(|()| self.totals)
    }
}
