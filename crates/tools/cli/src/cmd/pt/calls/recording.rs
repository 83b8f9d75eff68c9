//! Calls as a recording: events `f:NAME`, as probes of functions write them, in a CTF trace.

use super::super::output;
use super::super::times::Times;
use super::{follow, name};
use anyhow::{Context, bail};
use mote_capture::{Capture, Code, PerThread, Stream};
use mote_clock::{Sample, Timeline};
use mote_ctf::model::{
    ClockClass, EnvValue, EventClass, FieldClass, Origin, StringClass, StructClass, TraceClass,
};
use mote_ctf::write::{plain, tsdl};
use mote_pt::flow::calls::Call;
use mote_pt::image::Space;
use mote_pt::time::calls::{TimedCallSink, TimedCalls};
use mote_pt::time::{Nanoseconds, Span};
use mote_timeline::{Facts, Trace};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The clock of recordings that is the time stamp counter.
const TSC: &str = "tsc";
const NS_PER_S: u64 = 1_000_000_000;
/// The domain of such recordings, in their environment.
pub(crate) const DOMAIN: &str = "hardware";
/// The kernel's clock.
const MONOTONIC: &str = "monotonic";
/// How far bounds are apart where one is missing.
const UNKNOWN: u64 = u64::MAX;

/// A recording that is written.
pub(super) struct Recording {
    folder: PathBuf,
    clock: Clock,
    functions: Functions,
    /// Calls that have no time, which no trace can hold.
    untimed: u64,
    calls: u64,
    reported: Reported,
}

/// Until when calls of each processor were told already: those that have ended up to then are left out. Captures of one
/// recording may have the same packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reported(HashMap<u32, u64>);

/// The classes of events: a function's name, by number.
#[derive(Default)]
struct Functions {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

/// How times of the capture are those of a clock of traces.
#[derive(Clone, Debug)]
struct Clock {
    class: ClockClass,
    /// Ticks of the time stamp counter to nanoseconds.
    to_ns: Nanoseconds,
    stamps: Stamps,
}

/// What time stamps are.
#[derive(Clone, Debug)]
enum Stamps {
    /// Ticks of the time stamp counter.
    Ticks,
    /// Nanoseconds, as they follow from these.
    Nanoseconds,
    /// Nanoseconds by the kernel's clocks, which were read beside the counter; its ticks in a second beyond the ends.
    Line(Vec<Sample>, u64),
}

impl Recording {
    /// Makes the directory. Times are those of the recording `clock_of`, where that is given, or else of the one that
    /// the capture is `within`.
    ///
    /// # Errors
    /// It cannot be made; the capture has no times, or none of that clock.
    pub(super) fn create(
        folder: &Path,
        capture: &Capture,
        clock_of: Option<&Path>,
        within: Option<&Path>,
    ) -> anyhow::Result<Recording> {
        if !Times::new(capture.processor()).are_known {
            bail!("the capture has no times, and a recording cannot do without: capture with TSC packets");
        }
        let own = Clock::of(capture).context("how fast the time stamp counter is, is not known")?;
        let clock = match (clock_of, within) {
            (Some(dir), _) => own.by(dir)?,
            (None, Some(dir)) => own.clone().by(dir).unwrap_or(own),
            (None, None) => own,
        };
        output::make(folder)?;
        Ok(Recording {
            folder: folder.to_owned(),
            clock,
            functions: Functions::default(),
            untimed: 0,
            calls: 0,
            reported: Reported::default(),
        })
    }

    /// Leaves out what others have told.
    #[must_use]
    pub(super) fn behind(self, reported: Reported) -> Recording {
        Recording { reported, ..self }
    }

    /// Adds the calls of a stream; of a processor's, each thread's.
    ///
    /// # Errors
    /// They cannot be read or written.
    pub(super) fn add(&mut self, capture: &Capture, stream: &Stream, code: &Code) -> anyhow::Result<()> {
        let path = self.folder.join(format!("calls_{}", stream.of.to_string().replace(' ', "_")));
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create_new(&path).with_context(cannot)?;
        let events = RefCell::new(Events {
            stamps: self.clock.line(),
            clock: &self.clock,
            functions: &mut self.functions,
            code,
            numbers: HashMap::new(),
            events: plain::Stream::new(stream.cpu().unwrap_or(0)),
            file,
            untimed: 0,
            calls: 0,
            failed: None,
            reported: stream.cpu().and_then(|cpu| self.reported.0.get(&cpu).copied()),
            last: None,
        });
        let calls = |tid| TimedCalls::new(Thread::new(&events, tid, capture));
        let mut sink = PerThread::new(stream.tid(), calls);
        follow(capture, stream, code, &mut sink)?;
        drop(sink);
        let mut events = events.into_inner();
        if let Some((cpu, last)) = stream.cpu().zip(events.last) {
            let reported = self.reported.0.entry(cpu).or_default();
            *reported = last.max(*reported);
        }
        (self.untimed, self.calls) = (self.untimed + events.untimed, self.calls + events.calls);
        let written = events.failed.take().map_or(Ok(()), Err);
        written.and_then(|()| events.file.write_all(&events.events.finish())).with_context(cannot)
    }

    /// Writes the metadata. Returns how many calls there are, how many have no time and are left out, and until when
    /// they are told.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn finish(self) -> anyhow::Result<(u64, u64, Reported)> {
        let path = self.folder.join("metadata");
        let class = trace_class(self.clock.class, self.functions.names);
        fs::write(&path, tsdl(&class)?).with_context(|| format!("cannot write {}", path.display()))?;
        Ok((self.calls, self.untimed, self.reported))
    }
}

impl Clock {
    /// The capture's own.
    fn of(capture: &Capture) -> Option<Clock> {
        let to_ns = capture.processor().nanoseconds()?;
        let samples = capture.samples();
        let hz = capture.processor().hz().unwrap_or(NS_PER_S);
        if let Some(clock) = Clock::by_samples(to_ns, samples, hz) {
            return Some(clock);
        }
        let mut class = ClockClass { origin: Origin::Unknown, ..ClockClass::default() };
        let stamps = match to_ns {
            Nanoseconds::Hertz { numerator, denominator } => {
                class.name = TSC.to_owned();
                class.frequency = numerator.checked_div(denominator.into()).filter(|hz| *hz > 0)?;
                Stamps::Ticks
            }
            Nanoseconds::Perf { .. } => {
                class.name = MONOTONIC.to_owned();
                Stamps::Nanoseconds
            }
        };
        Some(Clock { class, to_ns, stamps })
    }

    /// CLOCK_MONOTONIC, as it follows from samples of the clocks.
    fn by_samples(to_ns: Nanoseconds, samples: Vec<Sample>, hz: u64) -> Option<Clock> {
        let epoch = Timeline::new(&samples, hz).ok()?.epoch_offset_ns();
        let class = ClockClass {
            name: MONOTONIC.to_owned(),
            frequency: NS_PER_S,
            offset_seconds: epoch.div_euclid(NS_PER_S.into()).try_into().ok()?,
            offset_cycles: epoch.rem_euclid(NS_PER_S.into()) as u64,
            ..ClockClass::default()
        };
        Some(Clock { class, to_ns, stamps: Stamps::Line(samples, hz) })
    }

    /// The same times by the clock of a recording of the same machine: as its own events of that counter have them.
    fn by(self, dir: &Path) -> anyhow::Result<Clock> {
        let trace = Trace::open(dir)?;
        let mut clocks =
            trace.origins().iter().filter_map(|origin| Some((origin, origin.schema.trace().clocks.first()?)));
        if let Some((origin, class)) = clocks.clone().find(|(_, class)| class.name == TSC) {
            let to_ns = Nanoseconds::Hertz { numerator: class.frequency, denominator: 1 };
            // Of packets that nobody's processor has written the counter is made up, and any line would do.
            let is_real = !matches!(self.stamps, Stamps::Ticks);
            let samples = origin.facts.as_ref().filter(|_| is_real).map(Facts::samples);
            let line = samples.and_then(|(samples, hz)| Clock::by_samples(to_ns, samples.to_vec(), hz));
            return Ok(line.unwrap_or_else(|| Clock { class: class.clone(), to_ns, stamps: Stamps::Ticks }));
        }
        let (_, class) = clocks.next().with_context(|| format!("{} has no clock", dir.display()))?;
        if class.name == MONOTONIC && !matches!(self.stamps, Stamps::Ticks) {
            return Ok(Clock { class: class.clone(), ..self });
        }
        bail!(
            "{} has the clock `{}`, and the capture only the time stamp counter: record with --clock tsc",
            dir.display(),
            class.name
        )
    }

    /// The line through the samples of the clocks.
    fn line(&self) -> Option<Timeline<'_>> {
        match &self.stamps {
            Stamps::Line(samples, hz) => Timeline::new(samples, *hz).ok(),
            Stamps::Ticks | Stamps::Nanoseconds => None,
        }
    }
}

impl Functions {
    fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

/// Calls of a stream as events.
struct Events<'r> {
    clock: &'r Clock,
    stamps: Option<Timeline<'r>>,
    functions: &'r mut Functions,
    code: &'r Code,
    /// Of the functions of this stream.
    numbers: HashMap<(Space, u64), u32>,
    events: plain::Stream,
    file: File,
    untimed: u64,
    calls: u64,
    failed: Option<io::Error>,
    /// Up to this time others have told them.
    reported: Option<u64>,
    /// When the last one ended.
    last: Option<u64>,
}

impl Events<'_> {
    /// Adds a call of a function, in a thread.
    fn call(&mut self, function: (Space, u64), context: &[u8], instructions: u64, [begin, end]: [Span; 2]) {
        let Some((from, to)) = begin.low.zip(end.low).filter(|_| self.failed.is_none()) else {
            self.untimed += 1;
            return;
        };
        if self.reported.is_some_and(|reported| to <= reported) {
            return;
        }
        self.last = self.last.max(Some(to));
        let (functions, code) = (&mut *self.functions, self.code);
        let number = self.numbers.entry(function).or_insert_with(|| functions.number(name(code, function)));
        let number = *number;
        let duration = self.ns(to).saturating_sub(self.ns(from));
        // A width, not a moment: perf's clock does not begin at 0.
        let width = begin.width().zip(end.width()).map(|(begin, end)| begin.max(end));
        let error = self.clock.to_ns.duration(Span { low: None, high: width }).high.unwrap_or(UNKNOWN);
        let fields = [duration, error, instructions].map(u64::to_le_bytes);
        let stamp = if matches!(self.clock.stamps, Stamps::Ticks) { to } else { self.ns(to) };
        self.events.event(number, stamp, &[context, fields.as_flattened()]);
        self.calls += 1;
        let packets = self.events.take();
        if !packets.is_empty() {
            self.failed = self.file.write_all(&packets).err();
        }
    }

    fn ns(&self, ticks: u64) -> u64 {
        self.stamps.as_ref().map_or_else(|| self.clock.to_ns.of(ticks), |line| line.monotonic_ns(ticks))
    }
}

/// Calls of a thread.
struct Thread<'e, 'r> {
    events: &'e RefCell<Events<'r>>,
    /// What is the same of all of them: process, thread, name.
    context: Vec<u8>,
    space: Space,
    open: Vec<((Space, u64), Span)>,
}

impl<'e, 'r> Thread<'e, 'r> {
    fn new(events: &'e RefCell<Events<'r>>, tid: i32, capture: &Capture) -> Thread<'e, 'r> {
        let (pid, name) = capture.thread(tid);
        let mut context = Vec::new();
        context.extend(pid.to_le_bytes());
        context.extend(tid.to_le_bytes());
        context.extend(name.bytes().filter(|byte| *byte != 0).chain([0]));
        Thread { events, context, space: Space::default(), open: Vec::new() }
    }
}

impl TimedCallSink for Thread<'_, '_> {
    fn call(&mut self, call: Call, when: Span) {
        match call {
            Call::Begin { function, depth, .. } => {
                // Calls that are so far out that they were forgotten do not end.
                self.open.drain(..self.open.len().saturating_sub(depth));
                self.open.push(((self.space, function), when));
            }
            Call::End { instructions, .. } => {
                let Some((function, begin)) = self.open.pop() else { return };
                self.events.borrow_mut().call(function, &self.context, instructions, [begin, when]);
            }
        }
    }

    fn space(&mut self, space: Space) {
        self.space = space;
    }

    fn is_function(&self, address: u64) -> bool {
        self.events.borrow().code.is_function(self.space, address)
    }
}

fn trace_class(clock: ClockClass, functions: Vec<String>) -> TraceClass {
    let event = |(id, name): (u64, String)| EventClass {
        id,
        name: format!("f:{name}"),
        payload: Some(StructClass::new([
            ("duration", FieldClass::uint(64)),
            ("error", FieldClass::uint(64)),
            ("instructions", FieldClass::uint(64)),
        ])),
        ..EventClass::default()
    };
    let common = StructClass::new([
        ("vpid", FieldClass::int(32)),
        ("vtid", FieldClass::int(32)),
        ("procname", FieldClass::String(StringClass::default())),
    ]);
    let text = |name: &str, value: &str| (name.to_owned(), EnvValue::Str(value.to_owned()));
    let environment = vec![text("domain", DOMAIN), text("tracer_name", "mote")];
    plain::trace_class(environment, clock, Some(common), (0..).zip(functions).map(event).collect())
}
