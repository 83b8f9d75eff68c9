//! A data stream of records that the recorder makes itself: no ring is behind it.

use crate::consumer::totals::{Context, Totals};
use crate::output::sink::{Bytes, StreamSink};
use mote_layout::packet::{HEADER_BYTES, PacketHeader, ReportedLoss, STREAM_PER_CPU};
use mote_layout::record;
use mote_loss::Cause;
use mote_sys::Result;
use mote_sys::time::{ClockId, clock_gettime};

/// The time that such records have: CLOCK_MONOTONIC, ns.
pub(crate) fn now() -> u64 {
    clock_gettime(ClockId::Monotonic)
}

/// The stream, and the records that wait for a packet.
#[derive(Debug)]
pub(crate) struct RecordStream {
    name: String,
    number: u32,
    /// Of which its records are; 0 where they are of none.
    cpu: u32,
    /// Records of other events that were lost before they came here.
    lost: u64,
    /// From the first packet on.
    sink: Option<Box<dyn StreamSink>>,
    sequence: u64,
    records: Vec<u8>,
    /// Of `records`: how many there are of each event, and the times of the first and the last.
    counts: Vec<u64>,
    times: (u64, u64),
    /// What was written.
    totals: Totals,
}

impl RecordStream {
    /// A stream with this name and number, and no record. It belongs to no CPU.
    pub(crate) fn new(name: &str, number: u32) -> RecordStream {
        RecordStream::of_cpu(name.to_owned(), number, 0)
    }

    /// The same for records of a CPU.
    pub(crate) fn of_cpu(name: String, number: u32, cpu: u32) -> RecordStream {
        let (records, counts, totals) = (Vec::new(), Vec::new(), Totals::default());
        RecordStream {
            name,
            number,
            cpu,
            lost: 0,
            sink: None,
            sequence: 0,
            records,
            counts,
            times: (0, 0),
            totals,
        }
    }

    /// Tells that events were lost since the last record, until `time`: by a packet without records.
    ///
    /// # Errors
    /// As [`RecordStream::write`].
    pub(crate) fn lose(&mut self, count: u64, time: u64, context: &Context) -> Result<()> {
        let written = self.write(context);
        self.lost += count;
        self.times.0 = self.times.1;
        self.times.1 = time.max(self.times.1);
        written.and(self.write_packet(context))
    }

    /// Its number among the streams of the trace.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Adds a record. Its time is `time`, or that of the record before, if that is later. Returns its time and bytes.
    pub(crate) fn add(&mut self, id: u32, time: u64, tid: u32, fields: &[u8]) -> (u64, &[u8]) {
        let (time, from) = (time.max(self.times.1), self.records.len());
        self.note_time(time);
        self.records.extend_from_slice(&record::header(time, id as u16).to_le_bytes());
        self.records.extend_from_slice(&tid.to_le_bytes());
        self.records.extend_from_slice(fields);
        self.counts.resize(self.counts.len().max(id as usize + 1), 0);
        self.counts[id as usize] += 1;
        (time, &self.records[from..])
    }

    /// Adds a record that is encoded already, with its time; it is not counted.
    pub(crate) fn add_record(&mut self, time: u64, record: &[u8]) {
        self.note_time(time);
        self.records.extend_from_slice(record);
    }

    fn note_time(&mut self, time: u64) {
        if self.records.is_empty() {
            self.times.0 = time;
        }
        self.times.1 = time;
    }

    /// Bytes of the records that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.records.len()
    }

    /// Writes the records that wait as one packet. A packet without records would begin when the one before it did,
    /// which readers take for disorder: there is none.
    ///
    /// # Errors
    /// As making a file, and writing there; the records are dropped then.
    pub(crate) fn write(&mut self, context: &Context) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let written = self.write_packet(context);
        self.records.clear();
        self.counts.clear();
        written
    }

    fn write_packet(&mut self, context: &Context) -> Result<()> {
        let mut lost = ReportedLoss::default();
        lost.events[Cause::RingFull as usize] = self.lost;
        let header = PacketHeader {
            uuid: context.uuid,
            stream_class: STREAM_PER_CPU,
            stream: self.number,
            begin: self.times.0,
            end: self.times.1,
            content: self.records.len() as u64,
            sequence: self.sequence,
            cpu: self.cpu,
            lost,
        };
        let mut sink = match self.sink.take() {
            Some(sink) => sink,
            None => context.sink.stream(&self.name)?,
        };
        let added = sink.add(header.encode(), &Bytes(&self.records));
        self.sink = Some(sink);
        added?;
        self.sequence += 1;
        let (counts, bytes) = (std::mem::take(&mut self.counts), (HEADER_BYTES + self.records.len()) as u64);
        self.totals.add(&Totals { counts, bytes, packets: 1, ..Totals::default() });
        Ok(())
    }

    /// Writes what waits, and ends the stream. Returns what was written, and whether that is all.
    pub(crate) fn end(&mut self, context: &Context) -> (Totals, Result<()>) {
        let written = self.write(context);
        self.sink.iter_mut().for_each(|sink| sink.finish());
        (std::mem::take(&mut self.totals), written)
    }
}
