//! How rules ask for the last packets of the hardware trace (`pt snapshot 5ms`): slots in memory that traced processes,
//! or the kernel's programs, share with the recorder.
//!
//! # Protocol
//! Parties: any number of writers (threads, signal handlers, the kernel's programs), one reader (the recorder).
//! A writer looks at the slot of its CPU only. It takes the slot from [`FREE`] to [`TAKEN`] by compare-and-exchange,
//! writes the other words, and stores [`READY`] behind them. Where the slot is not free it adds 1 to
//! [`PacketRequests::refused`] and goes on: it never waits. The reader takes the words of a slot that is [`READY`] and
//! stores [`FREE`]. A request with [`PROFILE`] is for samples of threads instead (`profile for 2s`). A writer that is
//! killed leaves its slot [`TAKEN`]: later requests of that CPU are refused, and so counted. What a process writes is
//! believed to be numbers, and nothing else.

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
    /// The CPU.
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
