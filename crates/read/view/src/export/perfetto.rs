//! A trace of Perfetto, for <https://ui.perfetto.dev> and its `trace_processor`.
//!
//! A file is a sequence of packets (`perfetto/trace/trace.proto`), written as events come:
//! - each thread has a track: its system calls, its calls of functions and the spans that it works on are slices, all
//!   other events instants;
//! - each span has a track below its process, with one slice from its begin to its end, whatever threads it was on;
//! - switches of the scheduler are those of ftrace, from which Perfetto makes its tracks of CPUs and thread states;
//! - stacks are samples;
//! - losses are instants on a track of their own.
//!
//! Times are those of the trace's clock; a snapshot of clocks says what time of day that is.
//!
//! # Cost
//! Memory: what is known of threads, of open slices, and of stacks that differ; calls of functions whose caller has not
//! returned. Nothing is kept of other events.

use super::calls::{Edge, Held, edges};
use super::proto::Message;
use super::roles::{Role, Roles};
use crate::json::thread;
use crate::text::what;
use crate::{Format, Stacks};
use mote_analysis::{Call, SpanClasses, SpanRole, is_duration};
use mote_ctf::model::FieldClass;
use mote_ctf::{Field, Value};
use mote_timeline::{LossRecord, Record, Trace};
use std::collections::HashMap;

/// All packets are of one sequence. Those of calls of functions come late: Perfetto sorts by time, and leaves those of
/// one moment in their order.
const SEQUENCE: u32 = 1;
/// Deepest nesting of slices on a thread that is followed.
const DEPTH_MAX: usize = 4096;

/// Numbers of fields in `Trace` and `TracePacket`.
mod packet {
    pub(super) const PACKET: u32 = 1;
    pub(super) const FTRACE_EVENTS: u32 = 1;
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const PERF_SAMPLE: u32 = 66;
}

/// Kinds of `TrackEvent`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// A slice that is open on a thread's track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    Call(usize),
    /// Kind and id.
    Span(usize, u64),
}

/// A thread's track.
#[derive(Debug, Default)]
struct Thread {
    uuid: u64,
    open: Vec<Slice>,
    /// What lies between its clock and 1970.
    epoch: i64,
}

/// Writes a trace of Perfetto.
pub struct Perfetto<'s> {
    roles: Roles,
    stacks: Option<&'s mut Stacks>,
    began: bool,
    /// The next number of a track.
    next: u64,
    /// By session and thread.
    threads: HashMap<(usize, u32), Thread>,
    /// By session and process.
    processes: HashMap<(usize, u32), u64>,
    /// Tracks of open spans, by session and id.
    spans: HashMap<(usize, u64), u64>,
    losses: Option<u64>,
    functions: Held,
    interned: Interned,
}

/// Numbers of what was written once: functions, which are frames, too, and stacks.
#[derive(Debug, Default)]
struct Interned {
    functions: HashMap<String, u64>,
    stacks: HashMap<Vec<u64>, u64>,
}

impl<'s> Perfetto<'s> {
    /// Writes events of `trace`, with the stacks that `stacks` reads, if any.
    #[must_use]
    pub fn new(trace: &Trace, stacks: Option<&'s mut Stacks>) -> Perfetto<'s> {
        Perfetto {
            roles: Roles::new(trace),
            stacks,
            began: false,
            next: 1,
            threads: HashMap::new(),
            processes: HashMap::new(),
            spans: HashMap::new(),
            losses: None,
            functions: Held::default(),
            interned: Interned::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Says once what time of day it is on the trace's clock.
    fn begin_at(&mut self, out: &mut Vec<u8>, clock: i64, time: i64) {
        /// Numbers of `BuiltinClock`: the trace's clock stands for the one that Perfetto's times are of.
        const REALTIME: u32 = 1;
        const BOOTTIME: u32 = 6;
        if std::mem::replace(&mut self.began, true) {
            return;
        }
        packet(out, None, |packet| {
            // What was interned before is not known.
            packet.unsigned(packet::SEQUENCE_FLAGS, 1u32);
            packet.message(packet::CLOCK_SNAPSHOT, |snapshot| {
                for (id, now) in [(BOOTTIME, clock), (REALTIME, time)] {
                    snapshot.message(1, |clock| {
                        clock.unsigned(1, id);
                        clock.unsigned(2, now.max(0) as u64);
                    });
                }
                snapshot.unsigned(2, BOOTTIME);
            });
        });
    }

    /// The number of a process's track, which is described when it is seen first.
    fn process(&mut self, out: &mut Vec<u8>, session: usize, pid: u32, name: &[u8]) -> u64 {
        if let Some(uuid) = self.processes.get(&(session, pid)) {
            return *uuid;
        }
        let uuid = self.number();
        self.processes.insert((session, pid), uuid);
        describe(out, uuid, |track| {
            track.message(3, |process| {
                process.signed(1, pid as i32);
                process.text(6, name);
            });
        });
        uuid
    }

    /// The thread's track; that of events without a thread is thread 0.
    fn thread(&mut self, out: &mut Vec<u8>, record: &Record<'_>) -> (usize, u32) {
        let session = record.origin().session();
        let tid = record.tid().unwrap_or(0);
        let key = (session, tid);
        if self.threads.contains_key(&key) {
            return key;
        }
        let name = thread(record).unwrap_or_default();
        let pid = record.pid().unwrap_or(tid);
        self.process(out, session, pid, if pid == tid { name } else { b"" });
        let uuid = self.number();
        self.threads.insert(
            key,
            Thread { uuid, open: Vec::new(), epoch: record.time().saturating_sub(record.monotonic()) },
        );
        describe(out, uuid, |track| {
            track.message(4, |thread| {
                thread.signed(1, pid as i32);
                thread.signed(2, tid as i32);
                thread.text(5, name);
            });
        });
        key
    }

    /// The number of a span's track.
    fn span(&mut self, out: &mut Vec<u8>, record: &Record<'_>, kind: usize, id: u64) -> u64 {
        let session = record.origin().session();
        if let Some(uuid) = self.spans.get(&(session, id)) {
            return *uuid;
        }
        let pid = record.pid().or(record.tid()).unwrap_or(0);
        let parent = self.process(out, session, pid, b"");
        let uuid = self.number();
        self.spans.insert((session, id), uuid);
        let name = self.roles.span(kind).as_bytes();
        describe(out, uuid, |track| {
            track.text(2, name);
            track.unsigned(5, parent);
        });
        uuid
    }

    /// Begins a slice on a thread's track.
    fn enter(&mut self, out: &mut Vec<u8>, record: &Record<'_>, slice: Slice) {
        let key = self.thread(out, record);
        let Some(thread) = self.threads.get_mut(&key) else { return };
        if thread.open.len() >= DEPTH_MAX {
            return;
        }
        thread.open.push(slice);
        let with = matches!(slice, Slice::Call(_));
        begin(out, &self.roles, record, thread.uuid, slice, with);
    }

    /// Ends a slice on a thread's track. Those that began later and are still open end there, too, and begin anew:
    /// slices of a track lie inside of each other.
    fn leave(&mut self, out: &mut Vec<u8>, record: &Record<'_>, slice: Slice) {
        let key = self.thread(out, record);
        let Some(thread) = self.threads.get_mut(&key) else { return };
        let Some(place) = thread.open.iter().rposition(|open| *open == slice) else { return };
        let inside = thread.open.split_off(place);
        for open in inside.iter().rev() {
            let with = matches!(open, Slice::Call(_)) && *open == slice;
            event(out, record, thread.uuid, Kind::End, b"", with);
        }
        for open in inside.into_iter().skip(1) {
            thread.open.push(open);
            begin(out, &self.roles, record, thread.uuid, open, false);
        }
    }

    fn in_span(&mut self, out: &mut Vec<u8>, record: &Record<'_>, role: SpanRole) {
        let Some(id) = SpanClasses::span(record) else { return };
        match role {
            SpanRole::New(kind) => {
                let track = self.span(out, record, kind, id);
                let name = self.roles.span(kind).as_bytes();
                event(out, record, track, Kind::Begin, name, true);
            }
            SpanRole::Close(_) => {
                let session = record.origin().session();
                if let Some(track) = self.spans.remove(&(session, id)) {
                    event(out, record, track, Kind::End, b"", false);
                }
            }
            SpanRole::Enter(kind) => self.enter(out, record, Slice::Span(kind, id)),
            SpanRole::Exit(kind) => self.leave(out, record, Slice::Span(kind, id)),
            SpanRole::More(_) | SpanRole::None | SpanRole::Inside => self.instant(out, record),
        }
    }

    /// A call: it is written when it is known what was in it.
    fn function(&mut self, out: &mut Vec<u8>, record: &Record<'_>, call: Call) {
        let key = self.thread(out, record);
        let (mut fields, name) = (Vec::new(), record.name());
        for field in record.event().iter().flat_map(|event| event.payload()) {
            if !is_duration(name, field.name) {
                Message::new(&mut fields).message(4, |annotation| annotate(annotation, &field));
            }
        }
        self.functions.put(key, call, fields);
        if self.functions.is_full() {
            self.write_functions(out);
        }
    }

    /// Writes the calls so far.
    fn write_functions(&mut self, out: &mut Vec<u8>) {
        for (key, outermost) in self.functions.take() {
            let (track, epoch) = self.threads.get(&key).map_or((0, 0), |thread| (thread.uuid, thread.epoch));
            edges(outermost, |edge| {
                let (Edge::Begin(_, time) | Edge::End(time)) = edge;
                packet(out, Some(time.saturating_sub(epoch)), |packet| {
                    packet.message(packet::TRACK_EVENT, |event| {
                        let kind = if matches!(edge, Edge::Begin(..)) { Kind::Begin } else { Kind::End };
                        event.unsigned(9, kind as u32);
                        event.unsigned(11, track);
                        if let Edge::Begin(called, _) = edge {
                            event.text(23, self.roles.function(called.call.function).as_bytes());
                            event.text(22, b"f");
                            event.fields(&called.fields);
                        }
                    });
                });
            });
        }
    }

    fn instant(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let key = self.thread(out, record);
        let track = self.threads.get(&key).map_or(0, |thread| thread.uuid);
        event(out, record, track, Kind::Instant, record.name().as_bytes(), true);
    }

    /// Writes the event's stack as a sample.
    fn sample(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let Some(stack) = self.stacks.as_mut().and_then(|stacks| stacks.of(record)) else { return };
        let frames = stack.user.iter().rev().chain(stack.kernel.iter().rev());
        let functions: Vec<String> = frames.flat_map(|frame| frame.folded()).collect();
        if functions.is_empty() {
            return;
        }
        let (Interned { functions: known, stacks }, mut new) = (&mut self.interned, Vec::new());
        let frames: Vec<u64> = functions
            .iter()
            .map(|function| match known.get(function) {
                Some(number) => *number,
                None => {
                    let number = known.len() as u64 + 1;
                    known.insert(function.clone(), number);
                    new.push((number, function));
                    number
                }
            })
            .collect();
        let next = stacks.len() as u64 + 1;
        let number = *stacks.entry(frames.clone()).or_insert(next);
        packet(out, Some(record.monotonic()), |packet| {
            // It refers to what was interned.
            packet.unsigned(packet::SEQUENCE_FLAGS, 2u32);
            if number == next {
                packet.message(packet::INTERNED_DATA, |data| intern(data, &new, number, &frames));
            }
            packet.message(packet::PERF_SAMPLE, |sample| {
                sample.unsigned(1, record.cpu().unwrap_or(0));
                sample.unsigned(2, record.pid().or(record.tid()).unwrap_or(0));
                sample.unsigned(3, record.tid().unwrap_or(0));
                sample.unsigned(4, number);
            });
        });
    }
}

impl Format for Perfetto<'_> {
    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        self.begin_at(out, record.monotonic(), record.time());
        match self.roles.of(record) {
            Role::Switch => switch(out, record),
            Role::Call(call) => self.enter(out, record, Slice::Call(call)),
            Role::Return(call) => self.leave(out, record, Slice::Call(call)),
            Role::Span(role) => self.in_span(out, record, role),
            Role::Function(call) => self.function(out, record, call),
            Role::Instant => self.instant(out, record),
        }
        self.sample(out, record);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.write_functions(out);
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        let clock = |time: i64| time.saturating_sub(loss.epoch);
        self.begin_at(out, clock(loss.time), loss.time);
        let track = match self.losses {
            Some(track) => track,
            None => {
                let track = self.number();
                self.losses = Some(track);
                describe(out, track, |track| track.text(2, b"lost events"));
                track
            }
        };
        let lost = format!("{} lost", what(loss.loss));
        packet(out, Some(clock(loss.loss.until)), |packet| {
            packet.message(packet::TRACK_EVENT, |event| {
                event.unsigned(9, Kind::Instant as u32);
                event.unsigned(11, track);
                event.text(23, lost.as_bytes());
                event.message(4, |stream| {
                    stream.text(10, b"stream");
                    stream.text(6, loss.stream.label.as_bytes());
                });
            });
        });
    }
}

/// A packet of the trace.
fn packet(out: &mut Vec<u8>, clock: Option<i64>, write: impl FnOnce(&mut Message<'_>)) {
    Message::new(out).message(packet::PACKET, |packet| {
        if let Some(clock) = clock {
            packet.unsigned(packet::TIMESTAMP, clock.max(0) as u64);
        }
        packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        write(packet);
    });
}

/// Describes a track.
fn describe(out: &mut Vec<u8>, uuid: u64, write: impl FnOnce(&mut Message<'_>)) {
    packet(out, None, |packet| {
        packet.message(packet::TRACK_DESCRIPTOR, |track| {
            track.unsigned(1, uuid);
            write(track);
        });
    });
}

/// Begins a slice on a thread's track; `with` the event's fields.
fn begin(out: &mut Vec<u8>, roles: &Roles, record: &Record<'_>, track: u64, slice: Slice, with: bool) {
    let name = match slice {
        Slice::Call(call) => roles.call(call),
        Slice::Span(kind, _) => roles.span(kind),
    };
    event(out, record, track, Kind::Begin, name.as_bytes(), with);
}

/// An event on a track; `with` its fields.
fn event(out: &mut Vec<u8>, record: &Record<'_>, track: u64, kind: Kind, name: &[u8], with: bool) {
    packet(out, Some(record.monotonic()), |packet| {
        packet.message(packet::TRACK_EVENT, |event| {
            event.unsigned(9, kind as u32);
            event.unsigned(11, track);
            if !name.is_empty() {
                event.text(23, name);
                let provider = record.name().split_once(':').map_or("kernel", |(provider, _)| provider);
                event.text(22, provider.as_bytes());
            }
            let fields = record.event().filter(|_| with);
            for field in fields.iter().flat_map(|fields| fields.payload()) {
                event.message(4, |annotation| annotate(annotation, &field));
            }
        });
    });
}

/// A field as a `DebugAnnotation`.
fn annotate(to: &mut Message<'_>, field: &Field<'_>) {
    if !field.name.is_empty() {
        to.text(10, field.name.trim_start_matches('_').as_bytes());
    }
    match field.class {
        FieldClass::Struct(_) | FieldClass::Variant(_) => {
            field.children().for_each(|child| to.message(11, |entry| annotate(entry, &child)));
        }
        FieldClass::Array(_) | FieldClass::Optional(_) => {
            field.children().for_each(|child| to.message(12, |entry| annotate(entry, &child)));
        }
        _ => match (field.label(), field.value()) {
            (Some(label), _) => to.text(6, label.as_bytes()),
            (_, Some(Value::U64(value))) => to.unsigned(3, value),
            (_, Some(Value::I64(value))) => to.signed(4, value),
            (_, Some(Value::F64(value))) => to.double(5, value),
            (_, Some(Value::Bool(value))) => to.unsigned(2, u64::from(value)),
            (_, Some(Value::Str(text))) => to.text(6, text),
            (_, Some(Value::Bytes(bytes))) => {
                let mut digits = Vec::new();
                crate::digits::bytes(&mut digits, bytes);
                to.text(6, &digits);
            }
            _ => {}
        },
    }
}

/// A switch of the scheduler, as ftrace's.
fn switch(out: &mut Vec<u8>, record: &Record<'_>) {
    let (Some(event), Some(cpu)) = (record.event(), record.cpu()) else { return };
    let payload = event.payload();
    let number = |name: &str| payload.integer(name).and_then(|number| i64::try_from(number).ok());
    let numbers = [(2, "prev_tid"), (3, "prev_prio"), (4, "prev_state"), (6, "next_tid"), (7, "next_prio")];
    packet(out, None, |packet| {
        packet.message(packet::FTRACE_EVENTS, |bundle| {
            bundle.unsigned(1, cpu);
            bundle.message(2, |event| {
                event.unsigned(1, record.monotonic().max(0) as u64);
                event.unsigned(2, number("prev_tid").unwrap_or(0) as u32);
                event.message(4, |switch| {
                    for (field, name) in [(1, "prev_comm"), (5, "next_comm")] {
                        if let Some(Value::Str(text)) = payload.value(name) {
                            switch.text(field, text);
                        }
                    }
                    for (field, name) in numbers {
                        if let Some(number) = number(name) {
                            switch.signed(field, number);
                        }
                    }
                });
            });
        });
    });
}

/// Gives numbers to the functions that are new, and to a stack, outermost frame first.
fn intern(data: &mut Message<'_>, new: &[(u64, &String)], stack: u64, frames: &[u64]) {
    for (number, function) in new {
        data.message(5, |name| {
            name.unsigned(1, *number);
            name.text(2, function.as_bytes());
        });
        data.message(6, |frame| {
            frame.unsigned(1, *number);
            frame.unsigned(2, *number);
        });
    }
    data.message(7, |callstack| {
        callstack.unsigned(1, stack);
        frames.iter().for_each(|frame| callstack.unsigned(2, *frame));
    });
}
