//! The two sides helping each other: system calls that took longer than they may, states of threads, areas shared with
//! processes.
//!
//! ```text
//! sys_enter ─▶ when, in which tick        ┐ a record for each thread (`places`)
//! sched_switch, sched_waking ─▶ waits      ┘        │
//! sys_exit ─▶ longer than the threshold of thread, process or session? ─▶ slow calls ─▶ recorder
//!                                └▶ histogram ─▶ recorder ─▶ thresholds that move
//! ```
//! [`Latency`] attaches these programs beside those of a [`Kernel`](mote_kernel::session::Kernel), whose thread table
//! says which threads are traced. (Sharma & Dagenais 2016, section 5: thresholds that a process sets, state that the
//! kernel publishes.)
//!
//! # What a fast call costs
//! A clock read costs more than all the rest of a program, so a call below its threshold has as few as possible. The
//! kernel's tick count is a plain load:
//! - The first call of a thread in each tick, and one of [`places::SAMPLE`] others, is timed exactly at its entry and
//!   at its return. These fill the histogram.
//! - Of any other call it is known that it began after a time that is known ([`places::Record::known`]), in the same
//!   tick. When its return is in a tick by which it cannot have reached its threshold, no clock is read at all; else
//!   one is. A call that may so have been too long is recorded, with the uncertainty of its beginning, and the next
//!   calls of the thread are timed exactly ([`places::Record::credit`]).
//! - Threads of a process that has asked (`mote_layout::cooperation::Header::asked`) are always timed exactly: what is
//!   published must be right, and its thresholds may be short.
//!
//! # Limits
//! The tick count stands still while no CPU serves it (a virtual machine that is stopped): calls of that time can be
//! missed. Programs of other ABIs (32 bits) are left out, and counted.
#![forbid(unsafe_code)]

pub mod adaptive;
mod collector;
pub mod event;
mod figures;
mod histogram;
mod latency;
mod offsets;
mod options;
pub mod places;
mod programs;
mod slow;
mod subject;
mod waits;

pub use collector::Collector;
pub use figures::{CallFigures, Latencies, OpenCall};
pub use histogram::Histogram;
pub use latency::{Area, Counters, Latency, Open, Settings};
pub use offsets::Offsets;
pub use options::LatencyOptions;
pub use slow::{Cause, Rival, Slow, Wait, Waker, Whose};
pub use waits::waits_by_request;

/// The name of a system call; one that is not known has its number.
pub fn call_name(number: u32) -> String {
    mote_layout::syscalls::name(number).map_or_else(|| format!("syscall_{number}"), str::to_owned)
}
