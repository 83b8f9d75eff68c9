//! What `mote report` knows of a recording. The names of the fields are those of its JSON and do not change.

use crate::Histogram;
use serde::Serialize;

/// The sums of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Time of the first event, nanoseconds since 1970-01-01 UTC; absent without events.
    pub start_ns: Option<i64>,
    /// Time of the last event.
    pub end_ns: Option<i64>,
    /// From the first event to the last.
    pub duration_ns: u64,
    /// The command that was recorded, if mote did it.
    pub command: Vec<String>,
    /// Whether the recorder came to the recording's end; absent if another tracer wrote it.
    pub complete: Option<bool>,
    /// Why it is not complete.
    pub incomplete: Option<String>,
    /// Number of CTF traces that were merged.
    pub traces: usize,
    /// Number of data stream files.
    pub streams: usize,
    /// Number of events in all traces.
    pub events: u64,
    /// Events in a second of `duration_ns`.
    pub rate: f64,
    /// Records of the system's state at the start, which are in no other count.
    pub state: u64,
    /// What was lost, why and where.
    pub lost: Lost,
    /// Events by provider, most first.
    pub providers: Vec<ProviderCount>,
    /// Events by kind, most first.
    pub kinds: Vec<EventCount>,
    /// Events by thread, most first.
    pub threads: Vec<ThreadCount>,
    /// Events by CPU, by number; events of no known CPU last.
    pub cpus: Vec<CpuCount>,
    /// Processes, in the order in which they joined.
    pub processes: Vec<ProcessSeen>,
    /// System calls that returned, those first that took most of the time.
    pub syscalls: Vec<SyscallCount>,
    /// The same for each thread, those first that made most.
    pub thread_syscalls: Vec<ThreadCalls>,
    /// Threads on the CPUs, where the scheduler's switches are recorded; those first that ran longest.
    pub scheduling: Vec<ThreadTime>,
    /// Spans by name, those first that were busiest themselves.
    pub spans: Vec<SpanCount>,
    /// Spans that are in no sum, because too many were open at a time.
    pub spans_not_followed: u64,
    /// Functions whose calls were recorded, those first that took most of the time.
    pub functions: Vec<FunctionCount>,
    /// Calls whose own time and total are estimates, because their thread had too many calls to keep apart.
    pub function_estimates: u64,
    /// System calls that had not returned at the end, the longest first.
    pub open_syscalls: Vec<OpenCall>,
    /// How far times of kernel events are from those of processes' events, as the recorder has measured; absent without
    /// both.
    pub clock_offset: Option<ClockOffset>,
    /// What is wrong with the recording, in words.
    pub problems: Vec<String>,
}

/// Lost events by cause and by place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// All; absent where it is not known how many.
    pub events: Option<u64>,
    /// Packets that are missing: overwritten by a flight recorder, as intended, or lost with the file.
    pub packets: u64,
    /// Whether a flight recorder of mote made the recording.
    pub flight_recorder: bool,
    /// Texts of kernel events that could not be read, and are empty; their events are there.
    pub texts: u64,
    /// By cause; `unspecified` where the tracer does not tell.
    pub causes: Vec<LostCause>,
    /// Where they were lost, in the order of time; the first [`GAPS_MAX`].
    pub gaps: Vec<Gap>,
    /// Number of gaps that are not in `gaps`.
    pub more_gaps: u64,
}

impl Default for Lost {
    fn default() -> Lost {
        Lost {
            events: Some(0),
            packets: 0,
            flight_recorder: false,
            texts: 0,
            causes: Vec::new(),
            gaps: Vec::new(),
            more_gaps: 0,
        }
    }
}

/// Most gaps in a report.
pub const GAPS_MAX: usize = 1000;

/// Events lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostCause {
    /// Name of the cause, for instance `ring full`.
    pub cause: String,
    /// Events; absent where it is not known how many.
    pub events: Option<u64>,
    /// What it means and what to do.
    pub advice: String,
}

/// Events lost at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The stream, by its file's name.
    pub stream: String,
    /// They were not lost before this, nanoseconds since 1970-01-01 UTC; absent: since the stream began.
    pub since_ns: Option<i64>,
    /// They were not lost after this, nanoseconds since 1970-01-01 UTC.
    pub until_ns: i64,
    /// Whether these are the times of the last event before and of the first one after.
    pub exact: bool,
    /// Events; absent where it is not known how many.
    pub events: Option<u64>,
    /// Numbers of lost events by name of the cause.
    pub causes: std::collections::BTreeMap<String, u64>,
}

/// How many events a provider has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderCount {
    /// What stands before the colon in names of events, or the family of kernel events; may be empty.
    pub name: String,
    /// Number of its events.
    pub events: u64,
}

/// How many events of a kind there are, and how far apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventCount {
    /// Name, as a rule `provider:event`; events of the kernel have no provider in their names.
    pub name: String,
    /// Its provider; of kernel events the family.
    pub provider: String,
    /// Number of its events.
    pub events: u64,
    /// Events in a second of the report's `duration_ns`.
    pub rate: f64,
    /// Time between successive events of this kind in the same thread; absent if no thread has two.
    pub interval_ns: Option<Interval>,
}

/// A distribution of times in nanoseconds; the quantiles are at most 1.6 % off, the others exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// How many times it is made of.
    pub samples: u64,
    /// The shortest time, in nanoseconds.
    pub min: u64,
    /// The mean of all times, in nanoseconds.
    pub mean: u64,
    /// Half are not longer.
    pub p50: u64,
    /// Nine of ten are not longer.
    pub p90: u64,
    /// 99 of 100 are not longer.
    pub p99: u64,
    /// The longest time, in nanoseconds.
    pub max: u64,
}

impl Interval {
    /// The figures of a histogram; `None` if it is empty.
    pub(crate) fn of(histogram: &Histogram) -> Option<Interval> {
        Some(Interval {
            samples: histogram.count(),
            min: histogram.min()?,
            mean: histogram.mean()?,
            p50: histogram.quantile(500)?,
            p90: histogram.quantile(900)?,
            p99: histogram.quantile(990)?,
            max: histogram.max()?,
        })
    }
}

/// How many events a thread has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadCount {
    /// Its name, if known; of several the last that its events carry.
    pub name: Option<String>,
    /// Thread id; absent for events that do not tell.
    pub tid: Option<u32>,
    /// Process id, if an event or the journal tells it.
    pub pid: Option<u32>,
    /// Number of its events.
    pub events: u64,
}

/// How far two clocks are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// Kernel's time less that of processes, in nanoseconds.
    pub offset_ns: i64,
    /// How far off that may be.
    pub error_ns: u64,
}

/// System calls of a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyscallCount {
    /// Name of the call, for instance `openat`.
    pub name: String,
    /// Number of calls that returned.
    pub calls: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// Which, the most frequent one first.
    pub errors: Vec<Errors>,
    /// What those took of which it is known; threads that waited at the same time count each. Absent when it is known
    /// of none.
    pub total_ns: Option<u64>,
    /// How long they took; absent when neither durations nor entries are recorded.
    pub duration_ns: Option<Interval>,
}

/// The system calls of a thread that returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadCalls {
    /// The thread's name, if known.
    pub name: Option<String>,
    /// Thread id.
    pub tid: u32,
    /// Process id, if known.
    pub pid: Option<u32>,
    /// Number of calls that returned.
    pub calls: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// What those took of which it is known, waiting included; absent when it is known of none.
    pub total_ns: Option<u64>,
    /// By name, those first that took most of the time.
    pub syscalls: Vec<ThreadCall>,
}

/// A thread's system calls of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadCall {
    /// Name of the call, for instance `openat`.
    pub name: String,
    /// Number of calls that returned.
    pub calls: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// What those took of which it is known; absent when it is known of none.
    pub total_ns: Option<u64>,
    /// Of how many it is known: those of which durations or entries are recorded.
    pub timed: u64,
    /// The longest of these.
    pub max_ns: Option<u64>,
}

/// How often system calls of a name returned an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// Its name, as of errno(3).
    pub error: String,
    /// Number of calls that returned this error.
    pub count: u64,
}

/// A thread on the CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadTime {
    /// The thread's name; of several the last.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// How long it ran, as far as both ends are recorded.
    pub running_ns: u64,
    /// How often it was taken off a CPU.
    pub switches: u64,
    /// How often it would have gone on.
    pub preemptions: u64,
    /// From when it could run (woken, or taken off while it would have gone on) until it did.
    pub queued_ns: Option<Interval>,
}

/// Spans of a name. Times are those of spans that began and ended in the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanCount {
    /// Provider and name, as `app:request`.
    pub name: String,
    /// How many began and ended.
    pub count: u64,
    /// From when they were made until they were closed; absent if none was.
    pub duration_ns: Option<Interval>,
    /// How long a thread was in them.
    pub busy_ns: Option<Interval>,
    /// Sum of the durations of all, in nanoseconds.
    pub total_ns: u64,
    /// How long a thread was in them, all together.
    pub total_busy_ns: u64,
    /// How long no thread was in them, all together.
    pub total_idle_ns: u64,
    /// How long threads were in them and in no span inside; two threads at a time count twice.
    pub total_self_ns: u64,
    /// How many were open at the end.
    pub open: u64,
    /// How many began before the recording, or the event that says so was lost or not recorded.
    pub began_before: u64,
}

/// Calls of a function that returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionCount {
    /// Its name, for instance `db::open`.
    pub name: String,
    /// How many returned.
    pub calls: u64,
    /// What they took, without those inside of another call of the same function, in nanoseconds; threads that were in
    /// it at the same time count each.
    pub total_ns: u64,
    /// What they took without the calls inside of them.
    pub total_self_ns: u64,
    /// How long they took.
    pub duration_ns: Interval,
}

/// A system call that had not returned when the recording ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenCall {
    /// Name of the call, for instance `openat`.
    pub name: String,
    /// Thread id of the caller.
    pub tid: u32,
    /// When it began, in nanoseconds since 1970.
    pub since_ns: i64,
    /// How long that was before the last event.
    pub open_ns: u64,
}

/// How many events a CPU has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuCount {
    /// Its number; absent for events that do not tell.
    pub cpu: Option<u32>,
    /// Number of its events.
    pub events: u64,
}

/// A process of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessSeen {
    /// Process id, in the recorder's PID namespace.
    pub pid: i64,
    /// Process id of its parent, if known.
    pub parent: Option<i64>,
    /// Name of its first thread, if known.
    pub name: Option<String>,
    /// Path of its executable, if known.
    pub exe: Option<String>,
}
