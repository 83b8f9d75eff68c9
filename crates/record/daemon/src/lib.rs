//! The recorder: starts a command, lets it and its children into a session, and writes what they record.
//!
//! The only event loop of mote, and the only crate that writes recordings. What a recording *is* stands in
//! `mote_session`, a state machine without a file or a socket; this crate is its servant. Two threads: one serves
//! sockets, signals and the command ([`Recording`]); one empties the rings (`consumer`) and never waits for the other.
//!
//! | module | job |
//! |---|---|
//! | `recording`, `setup`, `options` | one recording from start to end; what is made before it begins; what to record |
//! | `recorder` | what happens goes into the session, what the session wants is done |
//! | `registration` | how processes come: listeners, credentials, connections |
//! | `control` | what a person can ask of a recording that runs, over a versioned protocol |
//! | `consumer` | the thread that empties the rings: trace, channel, ring, data stream |
//! | `output` | directories, files, sinks: the only place that writes files; whose the recording is |
//! | `kernel` | the kernel's side: its events, its trace |
//! | `profile` | samples of threads: their trace, and the thread that writes it |
//! | `hardware` | the hardware trace: a capture in the recording, and the thread that writes it |
//! | `functions` | probes in functions of programs: which, and how they come into the process |
//! | `call_counts` | calls that are counted in processes: the memory for it, and what is in it |
//! | `area`, `cooperation` | memory that processes share with the recorder, and with the kernel's programs |
//! | `trace` | one CTF trace of the recording, as the loop sees it: metadata and journal |
//! | `command` | the recorded command and its signals |
//! | `watch` | what a recording tells while it runs, and what it came to |
#![forbid(unsafe_code)]

mod area;
mod call_counts;
pub mod command;
mod consumer;
pub mod control;
mod cooperation;
mod error;
mod functions;
mod hardware;
mod kernel;
mod objects;
pub mod options;
mod output;
mod process;
mod profile;
mod recorder;
mod recording;
mod registration;
mod samples;
mod setup;
mod trace;
mod umask;
mod watch;

pub use consumer::walk;
pub use error::Error;
pub use functions::HOLD;
pub use kernel::KernelRecorded;
pub use mote_filter::Rule;
pub use mote_slow::{CallFigures, Latencies, OpenCall};
pub use mote_trampolines::{Counted, Sampling, USUAL_BUDGET, counters, usual_counters};
pub use options::{Buffers, Ctf, HardwareOptions, KernelOptions, LatencyOptions, Options, ProfileOptions};
pub use output::metadata;
pub use recording::{Recording, record, wait};
pub use watch::{Progress, Recorded, Watch};
