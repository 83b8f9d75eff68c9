//! The memory that the kernel's programs and one traced process share: an array map of eBPF with one element, mapped by
//! both.
//!
//! ```text
//! 0            Header   thresholds of the whole process
//! SLOT_BYTES   Slot     of one thread: its thresholds, and its state as the kernel sees it
//! 2*SLOT_BYTES Slot     ...
//! ```
//! # Which slot a thread has
//! The one that holds its id, which is what gettid(2) answers in the thread (its number in its own pid namespace):
//! looked for at `id % slots` and the [`PROBES`]` - 1` slots behind it, cyclically. Either side claims an empty one (id
//! 0) by compare-and-swap. The kernel gives a slot back when its thread ends: it stores 0 as the id, with all other
//! bytes zero by then. Where the kernel does not the process itself takes over the slots of threads that are no more.
//!
//! # Who writes what
//! Thresholds and words: threads of the process; a thread its own slot without synchronisation, anything else by atomic
//! operations. The state: the kernel's programs, of which only the one on the thread's CPU writes at a time. Each value
//! is a word that is read and written whole; values of different words may be of different moments. A process that
//! writes nonsense here falsifies its own record only: the kernel's programs take each word as a number and bound it.
//! The process takes the state as numbers, too, and nothing here as an address. (Sharma & Dagenais 2016, section 5.3.1:
//! per-thread and per-CPU slots need no synchronisation.)

use crate::packet_requests::PacketRequests;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of an area.
pub const MAGIC: u64 = u64::from_le_bytes(*b"motecoop");
/// Changes whenever the layout does.
pub const VERSION: u32 = 2;
/// Bytes of the header and of a slot.
pub const SLOT_BYTES: usize = 4096;
/// Slots at which a thread may be.
pub const PROBES: u32 = 8;
/// Slots of an area by default.
pub const SLOTS: u32 = 256;
/// System calls with a threshold are below this number.
pub const SYSCALLS: usize = 512;
/// Unit of thresholds, in nanoseconds: a word reaches to 274 s.
pub const THRESHOLD_UNIT_NS: u64 = 64;
/// The threshold that nothing reaches.
pub const NEVER: u32 = u32::MAX;
/// In place of nanoseconds: no threshold of its own, what is behind it rules.
pub const UNSET_NS: u64 = u64::MAX - 1;
/// Words of a slot that the program may use as it likes; filters on both sides can name them.
pub const WORDS: usize = 192;
/// Set in [`Header::flags`] while the kernel's programs publish the state of threads.
pub const PUBLISHED: u32 = 1;
/// Set in [`Header::flags`] while the kernel's programs look at thresholds.
pub const THRESHOLDS: u32 = 2;
/// Set in [`Header::flags`] while there are kernel events, which windows are for.
pub const WINDOWS: u32 = 4;

/// The first page of an area.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`], by which the recorder knows that the memory is what it expects.
    pub magic: AtomicU64,
    /// [`VERSION`] of the layout; others are refused.
    pub version: AtomicU32,
    /// Number of [`Slot`]s behind the header.
    pub slots: AtomicU32,
    /// Process id, as the process sees it.
    pub process: AtomicU32,
    /// [`PUBLISHED`], [`THRESHOLDS`]: what the kernel's side does. The recorder's.
    pub flags: AtomicU32,
    /// Until when (CLOCK_MONOTONIC, ns) kernel events of all threads of the process are wanted.
    pub window_until: AtomicU64,
    /// Threads that found no slot; the process counts them.
    pub without_slot: AtomicU64,
    /// Threads for which the kernel's programs found none.
    pub unpublished: AtomicU64,
    /// Not 0 from when a thread of the process first sets a threshold or asks for its state: until then the kernel's
    /// programs need not time each system call of it exactly, nor publish what it took. The process's.
    pub asked: AtomicU32,
    _pad2: AtomicU32,
    _pad: [AtomicU64; 9],
    /// For each system call: from which duration on it is recorded, in [`THRESHOLD_UNIT_NS`]; 0 leaves it to the
    /// session.
    pub thresholds: [AtomicU32; SYSCALLS],
}

/// What both sides know of a thread.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Slot {
    /// Thread id; 0 while no thread has the slot.
    pub thread: AtomicU32,
    _pad: AtomicU32,
    /// Until when (CLOCK_MONOTONIC, ns) kernel events of this thread are wanted.
    pub window_until: AtomicU64,
    _pad2: [AtomicU64; 6],
    /// The thread as the kernel sees it.
    pub state: State,
    /// As in [`Header`]; 0 leaves it to the process's.
    pub thresholds: [AtomicU32; SYSCALLS],
    /// Words that the program sets and rules read (`mote::shared`); mote gives them no meaning.
    pub words: [AtomicU64; WORDS],
}

/// The state of a thread, which the kernel's programs publish (the paper's `proc_state`).
#[repr(C)]
#[derive(Debug)]
pub struct State {
    /// How often it was taken off a CPU.
    pub switches: AtomicU64,
    /// Of these, how often it was preempted: it would have gone on running.
    pub preemptions: AtomicU64,
    /// Nanoseconds off the CPU in all: waiting and wanting to run.
    pub offcpu_ns: AtomicU64,
    /// Nanoseconds off the CPU the last time.
    pub last_offcpu_ns: AtomicU64,
    /// The kernel's task state of the last time: 0 preempted, 1 interruptible, 2 uninterruptible (`__state` of
    /// task_struct).
    pub last_wait: AtomicU64,
    /// System call in which it waited the last time, -1 for none.
    pub last_wait_syscall: AtomicU64,
    /// Nanoseconds runnable without a CPU, in all.
    pub runqueue_ns: AtomicU64,
    /// Nanoseconds runnable without a CPU the last time.
    pub last_runqueue_ns: AtomicU64,
    /// Number of its page faults.
    pub faults: AtomicU64,
    /// How often its cgroup's bandwidth held it back, and for how long in all, as far as the kernel tells.
    pub throttled: AtomicU64,
    /// Nanoseconds for which its cgroup's bandwidth held it back.
    pub throttled_ns: AtomicU64,
    /// Number of the last system call that returned.
    pub last_syscall: AtomicU64,
    /// Nanoseconds from its entry to its return.
    pub last_syscall_ns: AtomicU64,
    /// Number of system calls that returned.
    pub syscalls: AtomicU64,
    /// CPU on which it last began to run.
    pub cpu: AtomicU64,
    /// When it last began to run (CLOCK_MONOTONIC, ns).
    pub running_since: AtomicU64,
}

impl State {
    /// All values in the order of their places.
    pub fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        let State { switches, preemptions, offcpu_ns, last_offcpu_ns, last_wait, last_wait_syscall, .. } =
            self;
        let State { runqueue_ns, last_runqueue_ns, faults, throttled, throttled_ns, .. } = self;
        let State { last_syscall, last_syscall_ns, syscalls, cpu, running_since, .. } = self;
        let first = [switches, preemptions, offcpu_ns, last_offcpu_ns, last_wait, last_wait_syscall];
        let second = [runqueue_ns, last_runqueue_ns, faults, throttled, throttled_ns];
        let third = [last_syscall, last_syscall_ns, syscalls, cpu, running_since];
        first.into_iter().chain(second).chain(third)
    }
}

/// Bytes that [`State`] takes in a slot.
pub const STATE_BYTES: usize = size_of::<State>();
const _: () =
    assert!(size_of::<Header>() == SLOT_BYTES && size_of::<Slot>() == SLOT_BYTES && STATE_BYTES == 128);

/// Where a slot has its state: what the second argument of a filter points to.
pub const STATE_AT: usize = core::mem::offset_of!(Slot, state);
/// Where a slot has its words.
pub const WORDS_AT: usize = core::mem::offset_of!(Slot, words);
/// Bytes that a filter may read from [`STATE_AT`] on: state, thresholds, words.
pub const READABLE_BYTES: usize = WORDS_AT + WORDS * 8 - STATE_AT;
const _: () = assert!(STATE_AT + READABLE_BYTES <= SLOT_BYTES);

/// Bytes of an area with so many slots.
pub const fn area_bytes(slots: u32) -> usize {
    (1 + slots as usize) * SLOT_BYTES
}

/// Where in an area the slot of this index begins.
pub const fn slot_at(index: u32) -> usize {
    (1 + index as usize) * SLOT_BYTES
}

/// A duration as a threshold's word: rounded up, so that what is shorter is not recorded; 0 for [`UNSET_NS`] only.
#[inline]
pub const fn threshold_word(ns: u64) -> u32 {
    if ns == UNSET_NS {
        return 0;
    }
    let units = ns.div_ceil(THRESHOLD_UNIT_NS);
    if units == 0 {
        1
    } else if units >= NEVER as u64 {
        NEVER
    } else {
        units as u32
    }
}

/// The duration that a threshold's word means; `None` for 0. [`NEVER`] is `u64::MAX`.
pub const fn threshold_ns(word: u32) -> Option<u64> {
    match word {
        0 => None,
        NEVER => Some(u64::MAX),
        units => Some(units as u64 * THRESHOLD_UNIT_NS),
    }
}

/// The first page of the memory that all processes of a session share with one another, with their filters, and with
/// the kernel's programs: another array map with one element. Words with names follow: `SharedMap`s. Which process or
/// thread has which words the recorder knows.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct SharedHeader {
    /// [`SHARED_MAGIC`], by which the recorder knows that the memory is what it expects.
    pub magic: AtomicU64,
    /// [`VERSION`] of the layout; others are refused.
    pub version: AtomicU32,
    _pad: AtomicU32,
    /// Until when (CLOCK_MONOTONIC, ns) kernel events of all threads of the system are wanted.
    pub window_until: AtomicU64,
    /// The thread that the session is about (as the recorder sees it): that of the command, or of `-p`.
    pub target: AtomicU64,
    /// How many snapshots rules on kernel events have asked for.
    pub snapshots: AtomicU64,
    /// Which thread asked for the last one: process id << 32 | thread id.
    pub snapshot_thread: AtomicU64,
    _pad2: AtomicU64,
    /// Where rules on kernel events ask for packets of the hardware trace.
    pub packets: PacketRequests,
    _pad3: [AtomicU64; 505 - size_of::<PacketRequests>() / 8],
}
const _: () = assert!(size_of::<SharedHeader>() == SLOT_BYTES);

/// First word of the shared memory.
pub const SHARED_MAGIC: u64 = u64::from_le_bytes(*b"moteshar");
/// Where the map of userspace's filters begins whose one value is all words.
pub const SHARED_MAP_AT: usize = SLOT_BYTES;
/// Where the words begin: behind the 256 bytes that the map has for itself.
pub const SHARED_WORDS_AT: usize = SHARED_MAP_AT + 256;
/// How many words there are.
pub const SHARED_WORDS: u32 = 1 << 17;
/// Bytes of the whole memory.
pub const SHARED_BYTES: usize =
    (SHARED_WORDS_AT + SHARED_WORDS as usize * 8 + 8).next_multiple_of(SLOT_BYTES);
/// Words that a name gets at least, so that rules can name what the program has not opened yet.
pub const SHARED_NAME_WORDS: u32 = 512;
/// The same of words that each thread has of its own.
pub const THREAD_NAME_WORDS: u32 = 8;
/// The last words are flags of rules (`set`, `clear`, `$flag.NAME`) and not given to names.
pub const FLAG_WORDS: u32 = 64;
/// Longest name of shared words, in bytes.
pub const SHARED_NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_round_up_and_saturate() {
        for (ns, word) in [(0, 1), (1, 1), (64, 1), (65, 2), (200_000, 3125), (u64::MAX, NEVER)] {
            assert_eq!(threshold_word(ns), word, "{ns}");
        }
        assert_eq!((threshold_word(UNSET_NS), threshold_ns(0)), (0, None));
        assert_eq!(threshold_ns(3125), Some(200_000));
        assert_eq!(threshold_ns(NEVER), Some(u64::MAX));
    }
}
