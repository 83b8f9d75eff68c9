//! What a recording is asked to record.

use crate::Error;
use crate::map::{Buffers, Map};
use mote_generate::Chosen;
use std::path::PathBuf;
use std::sync::Arc;

/// Whose events are recorded. An event belongs to the thread that runs on the CPU when it happens; events of `sched`
/// also to the thread that they are about (the one that is woken, switched to, moved or forked).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Those of all threads.
    All,
    /// Those of all threads, without what this process does itself: its system calls, page faults and probes. Needs to
    /// be asked for by the process's first thread; else as [`Targets::All`].
    Others,
    /// Those of processes that are forked while [`super::Kernel::launching`] is held, and of their threads and
    /// descendants; and of what is [followed](super::Kernel::follow) later.
    Launch,
    /// Those of these processes, with all threads, and of what they fork from now on.
    Pids(Vec<u32>),
    /// As [`Targets::Launch`]. Code is probed in these processes, and in what they fork as
    /// [`super::Kernel::probe_process`] says, when others map it too.
    ProbedIn(Vec<u32>),
    /// Those of threads in this directory of the cgroup2 file system, and in those below.
    Cgroup(PathBuf),
}

/// What to record.
#[derive(Clone, Debug)]
pub struct Request {
    /// The events that are recorded.
    pub events: Vec<Chosen>,
    /// Which threads' events are recorded.
    pub targets: Targets,
    /// Sizes of the rings that they are recorded in.
    pub buffers: Buffers,
    /// Maps of the filters, as their instructions number them.
    pub maps: Vec<Arc<Map>>,
    /// How many threads can be followed at a time; rounded up to a power of two, 64 bytes each. [`THREADS`] is a good
    /// number.
    pub threads: u32,
}

/// Threads that can be followed by default.
pub const THREADS: u32 = 16384;

/// An event that is not recorded, because the kernel refused its program.
#[derive(Debug)]
pub struct Refused {
    /// The event's number in records' headers.
    pub id: u16,
    /// Why the kernel refused it.
    pub why: Error,
}
