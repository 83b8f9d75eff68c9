//! How rules ask for the last packets of the hardware trace (`pt snapshot 5ms`): slots in memory that traced processes,
//! or the kernel's programs, share with the recorder.
//!
//! # Protocol
//! Parties: any number of writers (threads, signal handlers, the kernel's programs), one reader (the recorder).
//! A writer looks at the slot of its CPU only. It takes the slot from [`FREE`] to [`TAKEN`] by compare-and-exchange,
//! writes the other words, and stores [`READY`] behind them. Where the slot is not free it adds 1 to
//! [`PacketRequests::refused`] and goes on: it never waits. The reader takes the words of a slot that is [`READY`] and
//! stores [`FREE`]. A request with [`PROFILE`] is for samples of threads instead (`profile for 2s`), one with
//! [`FUNCTIONS`] for samples of functions (`fperf "db::*" for 2s`). These go by a CPU that is [`shift_of`] further on,
//! so that one event can ask for several things. A writer that is killed leaves its slot [`TAKEN`]: later requests of
//! that CPU are refused, and so counted. What a process writes is believed to be numbers, and nothing else.

use core::mem::offset_of;
use core::sync::atomic::AtomicU64;

/// A slot that a writer may take.
pub const FREE: u64 = 0;
/// A slot that a writer fills.
pub const TAKEN: u64 = 1;
/// A slot that is to be read.
pub const READY: u64 = 2;

/// Beside a duration: samples are wanted for so long from the event on, not packets from before it.
pub const PROFILE: u64 = 1 << 63;

/// Beside a duration: samples of functions are wanted for so long from the event on, not packets from before it. Of
/// which functions says a number in the bits below ([`functions_wanted`]).
pub const FUNCTIONS: u64 = 1 << 62;

/// Bits of a duration of a request that is no other one's: 78 hours.
const DURATION_BITS: u32 = 48;

/// Patterns of functions that requests can be about.
pub const PATTERNS_MAX: u64 = 1 << (62 - DURATION_BITS);

/// The duration of a request for samples of the functions of the pattern with this number, below [`PATTERNS_MAX`].
pub const fn functions_wanted(pattern: u64, ns: u64) -> u64 {
    FUNCTIONS | (pattern % PATTERNS_MAX) << DURATION_BITS | (ns % (1 << DURATION_BITS))
}

/// What [`functions_wanted`] was made of: pattern and nanoseconds.
pub const fn wanted_functions(duration: u64) -> (u64, u64) {
    (duration >> DURATION_BITS & (PATTERNS_MAX - 1), duration % (1 << DURATION_BITS))
}

/// How many CPUs further on the slot is for requests with this duration: none for packets, of which it matters where
/// they were.
pub const fn shift_of(duration: u64) -> u64 {
    const WIDTH: u64 = 8;
    if duration & PROFILE != 0 {
        WIDTH
    } else if duration & FUNCTIONS != 0 {
        WIDTH * (2 + wanted_functions(duration).0 % 2)
    } else {
        0
    }
}

/// How many slots there are, a power of two: CPUs take the one of their number, modulo this.
pub const SLOTS: usize = 32;

/// One request.
#[repr(C)]
#[derive(Debug)]
pub struct PacketRequest {
    /// [`FREE`], [`TAKEN`] or [`READY`].
    pub state: AtomicU64,
    /// When the event was, in nanoseconds of CLOCK_MONOTONIC.
    pub time: AtomicU64,
    /// Process and thread, as they know themselves: process id << 32 | thread id.
    pub thread: AtomicU64,
    /// The CPU; of requests for samples, [`shift_of`] further on.
    pub cpu: AtomicU64,
    /// The event, by the number that it has in the keys of rules.
    pub event: AtomicU64,
    /// The packets of how long before the event are wanted, in nanoseconds.
    pub duration: AtomicU64,
    _pad: [AtomicU64; 2],
}

/// All slots.
#[repr(C)]
#[derive(Debug)]
pub struct PacketRequests {
    /// Requests for which the slot was not free.
    pub refused: AtomicU64,
    _pad: [AtomicU64; 7],
    /// By CPU.
    pub slots: [PacketRequest; SLOTS],
}

/// Bytes of a slot.
pub const SLOT_BYTES: usize = size_of::<PacketRequest>();
/// Where the slots begin.
pub const SLOTS_AT: usize = offset_of!(PacketRequests, slots);
const _: () = assert!(SLOT_BYTES == 64 && SLOTS_AT == 64 && SLOTS.is_power_of_two());

/// Where the slot of a CPU begins.
pub const fn slot_at(cpu: usize) -> usize {
    SLOTS_AT + (cpu % SLOTS) * SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_times_are_in_one_word() {
        for (pattern, ns) in [(0, 1), (3, 3_600_000_000_000), (PATTERNS_MAX - 1, (1 << DURATION_BITS) - 1)] {
            let wanted = functions_wanted(pattern, ns);
            assert_eq!(
                (wanted_functions(wanted), wanted & FUNCTIONS, wanted & PROFILE),
                ((pattern, ns), FUNCTIONS, 0)
            );
        }
    }

    #[test]
    fn one_event_can_ask_for_several_things() {
        let all = [5_000_000, PROFILE | 5, functions_wanted(0, 5), functions_wanted(1, 5)];
        let slots = all.map(|duration| slot_at(7 + shift_of(duration) as usize));
        assert!((1..slots.len()).all(|at| !slots[..at].contains(&slots[at])), "{slots:?}");
        assert_eq!(slots[0], slot_at(7));
    }
}
