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
//! | `output`, `folder` | the way to that directory, and all that is made in it: the only place that writes files |
//! | `owner` | whose the recording is |
//! | `facts` | metadata and journal, as the loop writes them |
//! | `door`, `entrance` | where processes say hello: all ways in, and one of them |
//! | `hall` | where they wait until it is their turn |
//! | `sockets` | the private directory of sockets |
//! | `trust`, `shares` | who may do what, and how much |
//! | `peer`, `conversation` | the conversation with one process; with all of them |
//! | `principal`, `groups` | whose a process is, and with whom it shares rings |
//! | `events` | which events there are, and their ids |
//! | `rules` | the recorder and its rules: what becomes of events, what a person changes |
//! | `standing` | the rules of one side as they were given, and taken back |
//! | `filters`, `objects` | the rules: fates, programs, maps, the bundle that processes get |
//! | `kernel` | the kernel's side: its events, its trace |
//! | `area` | the memory that filters share with the session |
//! | `aggregates` | counts and histograms of filters: shown and written |
//! | `control`, `desk` | what a person can ask of a recording that runs; where that comes in |
//! | `later` | requests that are answered when the consumer has done something for them |
//! | `describe` | from descriptions to a CTF trace class |
//! | `flow` | what loop and consumer share about a trace |
//! | `consumer`, `tap`, `stream`, `lanes`, `speculated`, `walk`, `packets` | from rings to packets in files |
//! | `snapshot` | what a flight recorder holds, written down while it goes on |
//! | `command` | the recorded command and its signals |
//! | `attached`, `awaited` | running processes that are recorded; those that others have promised |
//! | `join` | how running processes are asked to come: by other recordings, or by themselves |
//! | `problems` | what went wrong, told within bounds |
//! | `process` | what the kernel says of a process |
#![forbid(unsafe_code)]

mod area;
mod areas;
mod asked;
mod attached;
mod awaited;
pub mod command;
mod commons;
mod consumer;
pub mod control;
mod cooperate;
pub mod describe;
mod desk;
mod directory;
mod door;
mod entrance;
mod error;
mod flow;
mod folder;
mod gaps;
mod hall;
mod join;
mod kernel;
mod lanes;
mod link;
mod locked;
mod objects;
pub mod options;
mod output;
mod owner;
mod packets;
mod principal;
mod process;
mod recorder;
mod recording;
mod rings;
mod samples;
mod seen;
mod setup;
mod sink;
mod snapshot;
mod sockets;
mod spare;
mod speculated;
mod stream;
mod tap;
mod trace;
mod turns;
mod umask;
pub mod walk;
mod watch;

pub use error::Error;
pub use kernel::KernelRecorded;
pub use mote_slow::{CallFigures, Latencies, OpenCall};
pub use options::{Buffers, Ctf, KernelOptions, LatencyOptions, Options};
pub use recording::{Recording, record};
pub use watch::{Progress, Recorded, Watch};
