//! Which way functions were called, and how much was executed on each path: within system calls, or everywhere.
//!
//! ```text
//! blocks ─ Walker: a stack for each thread ─▶ PathSink ─┬─ Whole: all paths ──────────┬─▶ Tree ─ diff ─▶ Difference
//!                                                      ├─ Syscalls: those of each call ┤             └─ Impact
//!                                                      └─ ByThread: those of each thread ┘
//! ```
//! The paths, with the instructions of each, are the "visualization path format" of Sharma, "Low-Impact System
//! Performance Analysis Using Hardware Assisted Tracing Techniques", 2017, section 5.4.4, and a [`Difference`] is what
//! figure 5.5 there shows to the eye. Here paths in system calls have times, too, with bounds, and system calls are
//! told apart by their names, which are those of the kernel's functions: `openat` of `__x64_sys_openat`. What a tracer
//! adds ([`Impact`]) is after section 5.4.5.

mod by_thread;
mod diff;
mod functions;
mod impact;
mod stacks;
mod syscalls;
mod tree;
mod walker;
mod whole;

pub use by_thread::ByThread;
pub use diff::{Difference, Side, diff};
pub use functions::{FunctionId, Functions, Named};
pub use impact::Impact;
pub use stacks::Stacks;
pub use syscalls::{Syscall, Syscalls};
pub use tree::{Node, ROOT, Tree};
pub use walker::{How, PathSink, Walker};
pub use whole::Whole;
