//! The kernel's side of a recording: a trace of its own, in the directory `kernel` of the recording's.
//!
//! | module | job |
//! |---|---|
//! | `change` | other events, other rules while it runs |
//! | `choose` | which events, and what is decided about each |
//! | `make` | their programs, the directory |
//! | `dumped` | the state of the system at the start, as a stream |
//! | `listening`, `mapped` | what processes map, and the names of threads, as the kernel tells them |
//! | `slow_stream`, `slow_calls` | slow system calls, as a stream |
//! | `names` | the names of threads that events are of |
//! | `processes`, `symbols` | their processes, and what names of addresses need |
//! | `offset` | how far both traces' clocks are apart, measured |
//! | `end`, `recorded` | which events there were none of, what the trace came to |

mod change;
mod choose;
mod dumped;
mod end;
mod listening;
pub(crate) mod make;
pub(crate) mod mapped;
pub(crate) mod names;
mod offset;
mod processes;
mod recorded;
mod slow_calls;
mod slow_stream;
pub(crate) mod symbols;

pub(crate) use change::Change;
pub(crate) use make::{DIRECTORY, Made, make};
pub use recorded::KernelRecorded;

use crate::consumer::totals::{Context, Totals};
use crate::options::KernelOptions;
use crate::output::records::now;
use crate::samples::Samples;
use crate::trace::Trace;
use choose::Wanting;
use listening::Listening;
use mote_clock::Source;
use mote_kernel::births::Born;
use mote_kernel::session::{Ids, Kernel as Tracer};
use mote_session::events::Events;
use mote_words::counted;
use names::Names;
use processes::Processes;
pub(crate) use slow_calls::Looked;
use slow_stream::SlowCalls;

/// What is recorded of the kernel.
pub(crate) struct Kernel {
    pub(crate) trace: Trace,
    pub(crate) tracer: Tracer,
    /// The events of the trace, and their ids.
    pub(crate) events: Events,
    wanted: KernelOptions,
    /// Ids of the events that the state dump has, in the order of `mote_kernel::dump::events`.
    dump: Vec<u32>,
    /// What is asked of events, and what has become of it.
    pub(crate) wanting: Wanting,
    /// What the state dump has come to.
    dumped: Totals,
    slow_calls: Option<SlowCalls>,
    names: Names,
    processes: Processes,
    /// What processes map.
    mappings: Option<Listening>,
    /// Threads that have other ids for themselves than here, and how many more of which this is not known.
    born: Vec<Born>,
    born_lost: u64,
    /// `/proc` has other ids than the kernel's records: names and mappings cannot be told whose they are.
    is_blind: bool,
}

/// What is said when the kernel does not tell which ids threads have in the recorder's pid namespace.
const UNKNOWN_IDS: &str = "mote runs in a pid namespace (a container), and this kernel does not translate thread \
                           ids (that takes BTF and Linux 5.11): kernel events, $tid and $pid show the ids of the \
                           host, and threads and user stacks have no names; run mote on the host to get them";
/// What is said when `/proc` is that of another pid namespace.
const FOREIGN_PROC: &str = "/proc belongs to another pid namespace than mote: threads of kernel events and user \
                            stacks have no names; mount the right one (`unshare --mount-proc`, or `mount -t proc \
                            proc /proc`)";
/// What is said of everybody's events in a namespace.
const OTHERS_IDS: &str = "mote runs in a pid namespace (a container): kernel events show threads outside of it by \
                          their id on the host, as a negative number";

impl Kernel {
    /// A side that was made.
    pub(crate) fn new(wanted: KernelOptions, made: Made) -> Kernel {
        let Made { tracer, trace, events, dump, slow, wanting } = made;
        let stream = tracer.channel().geometry().rings() + 1;
        let slow_calls = wanted.latency.as_ref().zip(slow);
        let slow_calls = slow_calls.map(|(wanted, ids)| SlowCalls::new(wanted, ids, stream, tracer.state()));
        Kernel {
            trace,
            tracer,
            events,
            wanted,
            dump,
            wanting,
            dumped: Totals::default(),
            slow_calls,
            names: Names::default(),
            processes: Processes::default(),
            mappings: None,
            born: Vec::new(),
            born_lost: 0,
            is_blind: false,
        }
    }

    /// How it is, for a person: a line, and one for each rule.
    pub(crate) fn status(&self) -> String {
        let (now, lines) = (self.trace.state.figures(), self.lines());
        format!(
            "\nkernel: {now}, {} on{lines}",
            counted(self.wanting.on.len(), "kind of event", "kinds of events")
        )
    }

    /// Threads that are followed and live.
    pub(crate) fn left(&self) -> usize {
        if self.wanted.all { 0 } else { self.tracer.live() }
    }

    /// Where its streams go, and on which clock.
    fn with_context<T>(&self, work: impl FnOnce(&Context) -> T) -> T {
        work(&Context {
            sink: self.trace.directory.sink(),
            uuid: self.trace.uuid(),
            clock: Source::Monotonic,
        })
    }
}

/// What a person should know of the kernel's side.
#[derive(Debug, Default)]
pub(crate) struct Remarks {
    /// What is as it should be.
    pub(crate) said: Vec<String>,
    /// What is missing.
    pub(crate) problems: Vec<String>,
    /// The journal could not be written.
    pub(crate) is_unnoted: bool,
    /// The trace has events that are not in its metadata yet.
    pub(crate) has_new_events: bool,
}

impl Kernel {
    /// Switches the kernel's programs on. From here on nothing is missed of those that are followed: processes that run
    /// already, and what is started from now on.
    pub(crate) fn begin(&mut self, attached: &[i32], source: Source, samples: &Samples) -> Remarks {
        let mut remarks = Remarks::default();
        let pids: Vec<u32> = attached.iter().map(|pid| pid.unsigned_abs()).collect();
        let ids = self.tracer.ids();
        let blind = match ids {
            Ids::Unknown => Some(UNKNOWN_IDS),
            _ if !crate::process::proc_is_ours() => Some(FOREIGN_PROC),
            _ => None,
        };
        self.is_blind = blind.is_some();
        match blind {
            Some(why) => remarks.said.push(why.to_owned()),
            None => remarks.problems.extend(self.listen(&pids)),
        }
        if ids == Ids::Namespace && self.wanted.all {
            remarks.said.push(OTHERS_IDS.to_owned());
        }
        for pid in pids {
            if let Err(why) = self.tracer.follow(pid) {
                remarks.problems.push(format!("kernel events of process {pid} are not recorded: {why}"));
            }
        }
        remarks.problems.extend(self.keep_symbols());
        self.note_offset(source, samples);
        self.tracer.enable();
        remarks.problems.extend(self.dump(attached));
        remarks
    }

    /// `/proc` has other ids than the kernel's records: names and mappings cannot be told whose they are.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Notes names of threads that kernel events are of. Returns whether the journal has them.
    pub(crate) fn name_threads(&mut self, ids: &[u32]) -> bool {
        if self.is_blind {
            return true;
        }
        let at = now();
        let named = ids.iter().filter_map(|tid| self.names.look(*tid, at));
        named.fold(true, |noted, fact| noted & self.trace.directory.note(&fact)) & self.note_processes(ids)
    }
}
