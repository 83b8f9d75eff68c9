//! A profile for the Firefox Profiler (<https://profiler.firefox.com>).
//!
//! Each thread is one there. System calls, calls of functions and spans are markers with a duration, a span where it
//! was made; other events are markers at one moment; times on a CPU are markers of the category "CPU"; stacks are
//! samples. A marker has the event's fields as text, which can be searched.
//!
//! # Cost
//! Memory: the profile is whole before it is written; some 150 bytes for each event.

use super::roles::{Role, Roles};
use crate::json::thread;
use crate::text::what;
use crate::{Format, Stacks, Text, TimeStyle};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use mote_analysis::{Call, SpanClasses, SpanRole};
use mote_ctf::{Fields, Value};
use mote_timeline::{LossRecord, Record, Trace};
use std::collections::HashMap;

/// A marker: an event, or what lies between two.
#[derive(Clone, Copy, Debug)]
struct Marker {
    name: StringHandle,
    category: CategoryHandle,
    fields: StringHandle,
}

impl StaticSchemaMarker for Marker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Event";
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.fields}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "fields",
        label: "Fields",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.fields
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        0.0
    }
}

/// Something that has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    thread: ThreadHandle,
    since: Timestamp,
    marker: Marker,
}

/// Categories of markers and frames.
#[derive(Clone, Copy, Debug)]
struct Categories {
    events: CategoryHandle,
    calls: CategoryHandle,
    spans: CategoryHandle,
    functions: CategoryHandle,
    cpu: CategoryHandle,
    kernel: CategoryHandle,
    user: CategoryHandle,
    losses: CategoryHandle,
}

/// What begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A thread's system call.
    Call(u32),
    /// A span by its id.
    Span(u64),
    /// What runs on a CPU of a trace.
    Cpu(u32),
}

/// Makes a profile for the Firefox Profiler.
pub struct Firefox<'s> {
    roles: Roles,
    text: Text<'s>,
    stacks: Option<&'s mut Stacks>,
    profile: Profile,
    categories: Categories,
    /// What the profile's times count from: the first event.
    start: i64,
    processes: HashMap<(usize, u32), ProcessHandle>,
    threads: HashMap<(usize, u32), ThreadHandle>,
    /// By session or trace.
    open: HashMap<(usize, Key), Open>,
}

impl<'s> Firefox<'s> {
    /// Makes a profile of events of `trace`, with the stacks that `stacks` reads, if any; times count from `start`,
    /// in nanoseconds since 1970.
    #[must_use]
    pub fn new(trace: &'s Trace, stacks: Option<&'s mut Stacks>, start: i64) -> Firefox<'s> {
        let reference = ReferenceTimestamp::from_millis_since_unix_epoch(start as f64 / 1e6);
        let mut profile = Profile::new("mote", reference, SamplingInterval::from_millis(1));
        profile.set_os_name("Linux");
        // Names are known already: the viewer need not ask for symbols.
        profile.set_symbolicated(true);
        let mut add = |name, colour| profile.add_category(name, colour);
        let categories = Categories {
            events: add("Events", CategoryColor::Blue),
            calls: add("System calls", CategoryColor::Orange),
            spans: add("Spans", CategoryColor::Green),
            functions: add("Functions", CategoryColor::Purple),
            cpu: add("CPU", CategoryColor::LightBlue),
            kernel: add("Kernel", CategoryColor::Orange),
            user: add("User", CategoryColor::Yellow),
            losses: add("Losses", CategoryColor::Red),
        };
        Firefox {
            roles: Roles::new(trace),
            text: Text::new(trace, TimeStyle::Relative(start), false).without_spans(),
            stacks,
            profile,
            categories,
            start,
            processes: HashMap::new(),
            threads: HashMap::new(),
            open: HashMap::new(),
        }
    }

    fn at(&self, time: i64) -> Timestamp {
        Timestamp::from_nanos_since_reference(u64::try_from(time.saturating_sub(self.start)).unwrap_or(0))
    }

    /// The thread's place in the profile.
    fn thread(
        &mut self,
        session: usize,
        tid: u32,
        pid: Option<u32>,
        name: &[u8],
        now: Timestamp,
    ) -> ThreadHandle {
        if let Some(thread) = self.threads.get(&(session, tid)) {
            return *thread;
        }
        let pid = pid.unwrap_or(tid);
        let name = String::from_utf8_lossy(name);
        let name = if name.is_empty() { format!("thread {tid}") } else { name.into_owned() };
        let profile = &mut self.profile;
        let process =
            *self.processes.entry((session, pid)).or_insert_with(|| profile.add_process(&name, pid, now));
        if pid == tid {
            profile.set_process_name(process, &name);
        }
        let thread = profile.add_thread(process, tid, now, pid == tid);
        profile.set_thread_name(thread, &name);
        profile.set_thread_show_markers_in_timeline(thread, true);
        self.threads.insert((session, tid), thread);
        thread
    }

    /// The thread of an event; that of events without one is thread 0.
    fn thread_of(&mut self, record: &Record<'_>) -> ThreadHandle {
        let now = self.at(record.time());
        let name = thread(record).unwrap_or_default();
        self.thread(record.origin().session(), record.tid().unwrap_or(0), record.pid(), name, now)
    }

    fn marker(&mut self, name: &str, category: CategoryHandle, fields: &str) -> Marker {
        let (name, fields) = (self.profile.intern_string(name), self.profile.intern_string(fields));
        Marker { name, category, fields }
    }

    /// The event's fields as text.
    fn fields(&mut self, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        self.text.payload(&mut out, record);
        String::from_utf8_lossy(&out).trim().to_owned()
    }

    fn begin(&mut self, record: &Record<'_>, key: (usize, Key), name: &str, category: CategoryHandle) {
        let fields = self.fields(record);
        let marker = self.marker(name, category, &fields);
        let open = Open { thread: self.thread_of(record), since: self.at(record.time()), marker };
        self.open.insert(key, open);
    }

    /// Ends what has begun; what began before the recording is left out.
    fn end(&mut self, record: &Record<'_>, key: (usize, Key)) {
        let Some(open) = self.open.remove(&key) else { return };
        let timing = MarkerTiming::Interval(open.since, self.at(record.time()));
        self.profile.add_marker(open.thread, timing, open.marker);
    }

    fn in_span(&mut self, record: &Record<'_>, role: SpanRole) {
        let Some(id) = SpanClasses::span(record) else { return };
        let key = (record.origin().session(), Key::Span(id));
        match role {
            SpanRole::New(kind) => {
                let name = self.roles.span(kind).to_owned();
                self.begin(record, key, &name, self.categories.spans);
            }
            SpanRole::Close(_) => self.end(record, key),
            SpanRole::More(_) => self.instant(record),
            // Whose thread a span is on is seen in Perfetto; markers of one thread may overlap anyway.
            SpanRole::Enter(_) | SpanRole::Exit(_) | SpanRole::None | SpanRole::Inside => {}
        }
    }

    fn function(&mut self, record: &Record<'_>, call: &Call) {
        let fields = self.fields(record);
        let name = self.roles.function(call.function).to_owned();
        let marker = self.marker(&name, self.categories.functions, &fields);
        let thread = self.thread_of(record);
        let timing = MarkerTiming::Interval(self.at(call.begin), self.at(call.end));
        self.profile.add_marker(thread, timing, marker);
    }

    fn instant(&mut self, record: &Record<'_>) {
        let fields = self.fields(record);
        let marker = self.marker(record.name(), self.categories.events, &fields);
        let thread = self.thread_of(record);
        self.profile.add_marker(thread, MarkerTiming::Instant(self.at(record.time())), marker);
    }

    fn switch(&mut self, record: &Record<'_>) {
        let (Some(event), Some(cpu)) = (record.event(), record.cpu()) else { return };
        let key = (record.origin_index(), Key::Cpu(cpu));
        self.end(record, key);
        let payload = event.payload();
        let Some((tid, name)) = next(&payload).filter(|(tid, _)| *tid != 0) else { return };
        let now = self.at(record.time());
        let thread = self.thread(record.origin().session(), tid, None, name, now);
        let marker = self.marker(&format!("on CPU {cpu}"), self.categories.cpu, "");
        self.open.insert(key, Open { thread, since: now, marker });
    }

    fn sample(&mut self, record: &Record<'_>) {
        let Some(stack) = self.stacks.as_mut().and_then(|stacks| stacks.of(record)) else { return };
        let thread = self.thread_of(record);
        let (user, kernel) = (self.categories.user, self.categories.kernel);
        let user = stack.user.iter().rev().map(|frame| (frame, user));
        let frames = user.chain(stack.kernel.iter().rev().map(|frame| (frame, kernel)));
        let mut frame = |name: &str, category: CategoryHandle| FrameInfo {
            frame: Frame::Label(self.profile.intern_string(name)),
            category_pair: category.into(),
            flags: FrameFlags::empty(),
        };
        let frames: Vec<FrameInfo> = frames
            .flat_map(|(location, category)| location.folded().into_iter().map(move |name| (name, category)))
            .map(|(name, category)| frame(&name, category))
            .collect();
        let stack = self.profile.intern_stack_frames(thread, frames.into_iter());
        let now = self.at(record.time());
        self.profile.add_sample(thread, now, stack, CpuDelta::ZERO, 1);
    }
}

/// The thread that a CPU goes to.
fn next<'a>(payload: &Fields<'a>) -> Option<(u32, &'a [u8])> {
    let tid = payload.integer("next_tid").and_then(|tid| u32::try_from(tid).ok())?;
    match payload.value("next_comm") {
        Some(Value::Str(name)) => Some((tid, name)),
        _ => Some((tid, b"")),
    }
}

impl Format for Firefox<'_> {
    fn event(&mut self, _out: &mut Vec<u8>, record: &Record<'_>) {
        let call = |record: &Record<'_>| (record.origin_index(), Key::Call(record.tid().unwrap_or(0)));
        match self.roles.of(record) {
            Role::Switch => self.switch(record),
            Role::Call(number) => {
                let name = self.roles.call(number).to_owned();
                self.begin(record, call(record), &name, self.categories.calls);
            }
            Role::Return(_) => self.end(record, call(record)),
            Role::Span(role) => self.in_span(record, role),
            Role::Function(call) => self.function(record, &call),
            Role::Instant => self.instant(record),
        }
        self.sample(record);
    }

    fn loss(&mut self, _out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        let until = self.at(loss.loss.until);
        let thread = self.thread(usize::MAX, 0, None, b"lost events", until);
        let lost = format!("{} lost", what(loss.loss));
        let marker = self.marker(&lost, self.categories.losses, &loss.stream.label);
        let timing = match loss.loss.since {
            Some(since) => MarkerTiming::Interval(self.at(since), until),
            None => MarkerTiming::Instant(until),
        };
        self.profile.add_marker(thread, timing, marker);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let open: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        for open in open {
            self.profile.add_marker(open.thread, MarkerTiming::IntervalStart(open.since), open.marker);
        }
        // Writing to a vector does not fail, and the keys of the profile's maps are texts.
        let _ = serde_json::to_writer(&mut *out, &self.profile);
        out.push(b'\n');
    }
}
