//! The state of the system at the start, as a stream of the kernel's trace.

use super::{DIRECTORY, Kernel};
use crate::consumer::totals::{Context, Totals};
use crate::output::records::{RecordStream, now};
use mote_journal::Fact;
use mote_kernel::births::Born;
use mote_kernel::dump::{Dump, Scope, namespace};
use mote_sys::Result;
use mote_words::counted;

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
        let (totals, written) = self.with_context(|context| {
            let mut records = Filling { context, stream: RecordStream::new(FILE, first), written: Ok(()) };
            Dump::of(scope).for_each(|record| {
                if let Some(id) = ids.get(record.event) {
                    records.add(*id, now(), record.tid, &record.fields);
                }
            });
            records.end()
        });
        self.dumped.add(&totals);
        let failed = written.err()?;
        Some(format!(
            "cannot write all of {DIRECTORY}/{FILE}: {failed}; some of the state at the start is missing"
        ))
    }
}

impl Kernel {
    /// Notes which threads have other ids for themselves than here: in the journal at once, in the trace at the end.
    /// Returns whether the journal could be written.
    pub(super) fn note_born(&mut self) -> bool {
        let (born, lost) = self.tracer.born();
        self.born_lost += lost;
        let mut noted = true;
        for Born { time_ns, tid, pid, vtid, vpid, .. } in &born {
            let at = if *time_ns == 0 { now() } else { *time_ns };
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
        let (totals, written) = self.with_context(|context| {
            let mut records =
                Filling { context, stream: RecordStream::new(BORN_FILE, number), written: Ok(()) };
            for born in &born {
                let record = namespace(born);
                if let Some(id) = ids.get(record.event) {
                    records.add(*id, born.time_ns, record.tid, &record.fields);
                }
            }
            records.end()
        });
        self.dumped.add(&totals);
        if let Err(why) = written {
            return Some(format!("cannot write all of {DIRECTORY}/{BORN_FILE}: {why}"));
        }
        let lost = std::mem::take(&mut self.born_lost);
        (lost > 0).then(|| {
            let threads = counted(lost, "thread runs", "threads run");
            format!(
                "{threads} in a pid namespace (a container); their ids inside it are missing from the trace"
            )
        })
    }
}

/// A stream that is written as it is filled.
struct Filling<'c> {
    context: &'c Context,
    stream: RecordStream,
    written: Result<()>,
}

impl Filling<'_> {
    fn add(&mut self, id: u32, time: u64, tid: u32, fields: &[u8]) {
        if self.written.is_ok() {
            self.stream.add(id, time, tid, fields);
            if self.stream.waiting() >= PACKET {
                self.written = self.stream.write(self.context);
            }
        }
    }

    fn end(mut self) -> (Totals, Result<()>) {
        let (totals, ended) = self.stream.end(self.context);
        (totals, self.written.and(ended))
    }
}
