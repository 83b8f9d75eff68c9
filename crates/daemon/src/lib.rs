//! The recorder: starts a command, lets it and its children into a session, and writes what they record.
//!
//! The only event loop of mote, and the only crate that writes recordings. Two threads: one serves sockets, signals and
//! the command ([`record()`]); one empties the rings ([`consumer`]) and never waits for the other.
//!
//! | module | job |
//! |---|---|
//! | `options` | what to record, and where to |
//! | `record` | one recording from start to end: the table of contents |
//! | `setup` | what is made before it begins |
//! | `recorder` | the event loop |
//! | `ending`, `finish` | when it is over, and what is written then |
//! | `memory` | how much there is for buffers |
//! | `samples` | the trace clock beside the kernel's clocks |
//! | `trace` | one trace of the recording: that of the processes, that of the kernel |
//! | `directory` | its directory: metadata, journal, streams |
//! | `door` | where processes say hello |
//! | `peer` | the conversation with one process |
//! | `events` | which events there are, and their ids |
//! | `rules` | the recorder and its rules: what becomes of events, what a person changes |
//! | `standing` | the rules of one side as they were given, and taken back |
//! | `filters`, `objects` | the rules: fates, programs, maps, the bundle that processes get |
//! | `kernel` | the kernel's side: its events, its trace |
//! | `area` | the memory that filters share with the session |
//! | `aggregates` | counts and histograms of filters: shown and written |
//! | `control` | what a person can ask of a recording that runs |
//! | `describe` | from descriptions to a CTF trace class |
//! | `flow` | what loop and consumer share about a trace |
//! | `consumer`, `tap`, `stream`, `speculated`, `walk`, `packets` | from rings to packets in files |
//! | `snapshot` | what a flight recorder holds, written down while it goes on |
//! | `command` | the recorded command and its signals |
//! | `attached` | running processes that are recorded |
//! | `join`, `seize` | how running processes are asked to come, by other recordings or by stopping a thread of theirs |
//! | `process` | what the kernel says of a process |
#![forbid(unsafe_code)]

mod aggregates;
mod area;
mod attached;
pub mod command;
mod commons;
mod consumer;
pub mod control;
mod cooperate;
pub mod describe;
mod directory;
mod door;
mod ending;
mod error;
mod events;
mod filters;
mod finish;
mod flow;
mod gaps;
mod join;
mod kernel;
pub mod memory;
mod objects;
pub mod options;
mod packets;
mod peer;
mod process;
mod record;
mod recorder;
mod rules;
mod samples;
mod seen;
mod seize;
mod setup;
mod snapshot;
mod speculated;
mod standing;
mod stream;
mod tap;
mod trace;
pub mod walk;

pub use error::Error;
pub use kernel::{CallFigures, KernelRecorded, Latencies};
pub use options::{Buffers, Ctf, KernelOptions, LatencyOptions, Options};
pub use record::{Progress, Recorded, Watch, record};
