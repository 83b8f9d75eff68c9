//! Why an event was lost: the causes, their names, and what to do about each. What counts or shows lost events has them
//! from here.
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]
#![forbid(unsafe_code)]

/// The causes by which lost events are counted, everywhere: in rings, packet headers, summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// Discard mode, and the consumer was behind.
    RingFull = 0,
    /// The event is larger than 64 KiB or than a sub-buffer.
    TooBig = 1,
    /// Atomic writer: the sub-buffer still held an event that another thread had not finished.
    Busy = 2,
    /// Atomic writer: written whole, but next to an event whose writer was killed halfway.
    Torn = 3,
    /// The event's filter had a fault, and such events are to be dropped.
    FilterFault = 4,
    /// To be kept aside, but as many threads as can speculate did so already.
    NoSpeculation = 5,
    /// To be kept aside, but its thread's speculation was full.
    SpeculationFull = 6,
    /// The thread may read no clock: neither the time-stamp counter nor the kernel's (`PR_TSC_SIGSEGV`, a sandbox).
    NoClock = 7,
}

impl Cause {
    /// All causes, in the order of their numbers. A ring's lines are full with these eight: the ninth takes another
    /// line (`ring/src/control.rs`).
    pub const ALL: [Cause; 8] = [
        Cause::RingFull,
        Cause::TooBig,
        Cause::Busy,
        Cause::Torn,
        Cause::FilterFault,
        Cause::NoSpeculation,
        Cause::SpeculationFull,
        Cause::NoClock,
    ];

    /// Name in packet headers, summaries and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::RingFull => "ring_full",
            Cause::TooBig => "too_big",
            Cause::Busy => "busy",
            Cause::Torn => "torn",
            Cause::FilterFault => "filter_fault",
            Cause::NoSpeculation => "no_speculation",
            Cause::SpeculationFull => "speculation_full",
            Cause::NoClock => "no_clock",
        }
    }

    /// What it means and what to do about it, for a person.
    pub const fn advice(self) -> &'static str {
        match self {
            Cause::RingFull => {
                "the recorder could not keep up: give larger --buffers, or choose fewer events with -e"
            }
            Cause::TooBig => {
                "an event was larger than 64 KiB or than a sub-buffer: give larger --buffers or record less of it"
            }
            Cause::Busy => {
                "a thread stopped in the middle of an event; this cannot happen with restartable sequences (rseq, see `mote doctor`)"
            }
            Cause::Torn => {
                "a process was killed in the middle of an event; this cannot happen with restartable sequences (rseq, see `mote doctor`)"
            }
            Cause::FilterFault => {
                "a filter read memory that is not there: the program gave a bad pointer to an event"
            }
            Cause::NoSpeculation => {
                "more threads speculated at a time than there is room for: commit or discard earlier"
            }
            Cause::SpeculationFull => {
                "a thread kept more aside than there is room for: commit or discard earlier, or choose fewer events with -e"
            }
            Cause::NoClock => {
                "a program forbids itself the clock (prctl PR_SET_TSC, seccomp): try --clock monotonic, which needs only clock_gettime"
            }
        }
    }
}

/// Numbers of lost events by cause, in the order of [`Cause::ALL`].
pub type Lost = [u64; Cause::ALL.len()];
