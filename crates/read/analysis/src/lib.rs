//! Functions over the events of a recording.
//!
//! [`Counter`] takes every entry of a timeline, in order, and ends as a [`Report`]: plain data, serialisable, its
//! field names a promise to those who read it as JSON. [`Histogram`] is the distribution it is made of.
//!
//! # Cost
//! Two hash lookups and a histogram increment per event; memory per event class (15 KiB) and per thread.
#![forbid(unsafe_code)]

mod calls;
mod counter;
mod histogram;
pub mod latency;
mod open;
mod report;
mod sched;

pub use counter::Counter;
pub use histogram::Histogram;
pub use report::{
    ClockOffset, CpuCount, Errors, EventCount, GAPS_MAX, Gap, Interval, Lost, LostCause, OpenCall,
    ProcessSeen, ProviderCount, Report, SyscallCount, ThreadCall, ThreadCalls, ThreadCount, ThreadTime,
};
