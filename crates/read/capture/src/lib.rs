//! Captures of Intel PT: packets of threads or processors, and what is to be known beside them.
//!
//! ```text
//! TID.pt, cpuN.pt ─ Bytes ─ parts ─▶ packets ─▶ flow ─▶ instructions, calls
//! sideband.jsonl ─ Note ─▶ Code: bytes by address, names ─┘
//! truth.jsonl ─ Truth ─▶ what a reader is measured by, where the capture was made without a processor
//! perf.data ─ perf ─▶ the same streams and notes, of a recording by perf
//! ```
//! [`follow`] gives a sink everything in its order; [`summarize`] lets several threads read parts, and joins what they
//! have found; [`follow_calls`] lets them read for one sink that gets calls and times in their order. Memory is bounded
//! either way, whatever the size of the capture. Both the readers and the writers of `sideband.jsonl` and `truth.jsonl`
//! use the types here.
#![forbid(unsafe_code)]

mod calls;
mod capture;
mod check;
mod code;
mod compiled;
mod counts;
pub mod elf;
mod error;
mod files;
mod filter;
mod follow;
mod guests;
pub mod hex;
pub mod kernel;
mod moment;
mod note;
mod pace;
mod per_thread;
pub mod perf;
mod processor;
mod raw;
mod relay;
mod stats;
mod stream;
#[cfg(test)]
mod test_notes;
mod timed;
mod timed_calls;
mod truth;
mod versions;

pub use calls::{CallTable, Function, Functions};
pub use capture::{Capture, IN_RECORDING, SIDEBAND, Stream, name_of, of_name};
pub use check::{Found, check};
pub use code::{Code, Place, Uncertain};
pub use counts::Counts;
pub use error::Error;
pub use follow::{Summary, follow, follow_timed, summarize, threads};
pub use note::{Clock, Head, Image, KERNEL, Note, Processor, What};
pub use per_thread::PerThread;
pub use raw::Given;
pub use relay::follow_calls;
pub use stats::{Kind, Stats};
pub use stream::{Bytes, Of, Part, Parts};
pub use timed_calls::{Busy, FunctionTime, TimedCallTable};
pub use truth::{Against, TRUTH, Truth};
