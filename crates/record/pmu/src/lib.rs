//! Recordings of Intel PT by perf_event_open(2): packets of a processor, and what is to be known beside them.
//!
//! ```text
//! /sys/…/intel_pt ─ Device ─ Settings ─▶ attributes ─ Machine ─▶ events ─ memory ─┐
//!   Output (Folder: a capture) ◀─ packets in pieces, records by time ─ Recorder ◀─┘
//! ```
//! | module | job |
//! |---|---|
//! | `device` | what the processor and its kernel can do |
//! | `settings` | what is wished, as the kernel is told it |
//! | `machine` | the calls of the kernel |
//! | `recorder` | events, their memory, rounds of reading it, losses |
//! | `trace` | the memory of packets |
//! | `folder`, `sideband`, `session` | a recording as a capture |
//! | `cut`, `before` | the last packets before an event, as a capture of their own |
//! | `elsewhere` | code that is of no file: what programs write themselves |
//! | `generated` | the same, as it was when it became executable |
//! | `open`, `tracked` | code in memory that stays writable: where that is, and which pages are written to |
//! | `command` | a command that waits until its events are open |
//! | `simulated` | a machine with Intel PT that is none |
#![forbid(unsafe_code)]

mod before;
mod command;
mod cut;
pub mod device;
mod elsewhere;
pub mod folder;
mod generated;
mod machine;
mod open;
mod recorder;
mod session;
mod settings;
mod sideband;
pub mod simulated;
mod trace;
mod tracked;

pub use before::{Before, Snapshot, Written};
pub use command::{Command, is_program};
pub use device::{Device, NoDevice};
pub use folder::{Files, Folder};
pub use machine::{AnyMachine, Linux, Machine};
pub use mote_perfdata::filter::{Filter, Find, Place};
pub use mote_sys::perf_count::TimeScale;
pub use mote_sys::perf_ring::Kept;
pub use recorder::{Error, Options, Output, Recorder, Summary, Targets};
pub use session::{Recorded, Session, model, record};
pub use settings::{Impossible, Period, Settings};
pub use trace::TraceReader;
