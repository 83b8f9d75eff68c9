//! Functions over the events of a recording, or of any other source.
//!
//! An [`Analysis`] is a value that is fed events and losses and ends as a result; [`run`] feeds one, or many in one
//! pass. [`Summary`] is all that `mote report` shows, and ends as a [`Report`]: plain data, serialisable, its field
//! names a promise to those who read it as JSON. [`Histogram`] is the distribution it is made of.
#![forbid(unsafe_code)]

mod analysis;
mod calls;
mod costs;
mod counts;
mod histogram;
pub mod latency;
mod losses;
mod report;
mod scheduling;
mod spans;
mod summary;
mod syscalls;

pub use analysis::{Analysis, run};
pub use calls::{
    Call, CallClasses, CallSums, Callers, Calls, Choice, Inside, Merge, PENDING_MAX, Pending, Returns,
    is_duration, thread_of,
};
pub use costs::{Caller, Cost, CostSums, Costs, FunctionCost};
pub use counts::Counts;
pub use histogram::Histogram;
pub use losses::Losses;
pub use report::{
    ClockOffset, CpuCount, Errors, EventCount, FunctionCount, GAPS_MAX, Gap, Interval, Lost, LostCause,
    OpenCall, ProcessSeen, ProviderCount, Report, SpanCount, SyscallCount, ThreadCall, ThreadCalls,
    ThreadCount, ThreadTime,
};
pub use scheduling::Scheduling;
pub use spans::{OPEN_MAX, SpanClasses, SpanRole, SpanSums, Spans};
pub use summary::Summary;
pub use syscalls::{SyscallClasses, SyscallRole, Syscalls};
