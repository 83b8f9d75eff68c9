//! What lies where in the maps that the programs of cooperation and the recorder share.

use mote_bpf::helper::bucket;
use mote_layout::cooperation::SYSCALLS;

/// System calls have numbers below this.
pub const CALLS: u32 = SYSCALLS as u32;

// The control map: one element.

/// Threads without a slot in the area of their process, events.
pub const UNPUBLISHED: u32 = 0;
/// System calls of other ABIs.
pub const FOREIGN: u32 = 8;
/// Waits from this length on have their stack recorded, in nanoseconds.
pub const STACK_FROM: u32 = 16;
/// For each system call, 8 bits: which argument (from 1 on) is a path, with [`IS_ADDRESS`] the address of a socket, with [`IS_FILE`] a descriptor; 0
/// for none.
pub const NAMES: u32 = 1024;
/// In a byte at [`NAMES`].
pub const IS_ADDRESS: u8 = 0x10;
/// In a byte at [`NAMES`]: the argument is a descriptor.
pub const IS_FILE: u8 = 0x20;
/// Most bytes of a path that is kept.
pub const NAME_MAX: u32 = 256;
/// Most bytes of a socket's address that are looked at: `sizeof(struct sockaddr_un)`, up to a multiple of 8.
pub const ADDRESS_MAX: u32 = 112;
/// For each system call: from how many nanoseconds on it is recorded, 64 bits; `u64::MAX` for never.
pub const THRESHOLDS: u32 = 4096;
/// For each system call: after as many ticks since its entry it cannot have reached its threshold; 64 bits, signed; negative when that cannot be said.
pub const TICKS: u32 = THRESHOLDS + CALLS * 8;
/// For each CPU and system call: how many returned, 64 bits.
pub const COUNTS: u32 = TICKS + CALLS * 8;
/// Bytes of the counts of a CPU.
pub const COUNTS_BYTES: u32 = CALLS * 8;

const _: () = assert!(NAMES + CALLS <= THRESHOLDS);

/// Bytes of the control map.
pub const fn control_bytes(cpus: u32) -> u32 {
    COUNTS + cpus * COUNTS_BYTES
}

// The histogram map: for each system call `BUCKETS` counts of 32 bits, which the recorder reads as differences.

/// Durations from 2 to the power of this on are counted as the longest.
pub const DURATION_BITS: u32 = 38;
/// Buckets of a system call, of `mote_bpf::helper::bucket`.
pub const BUCKETS: u32 = bucket((1 << DURATION_BITS) - 1) + 1;
/// Of calls that are not the first in a tick, one of so many is timed.
pub const SAMPLE: u32 = 32;

// The record of a thread, in the records map: at the place that the thread has in the thread table.

/// Bytes of a record.
pub const RECORD_BYTES: u32 = 1024;
/// log2 of it.
pub const RECORD_BITS: u32 = 10;
/// Thread id, 32 bits: another thread had the place when it is not the same.
pub const TID: i16 = 0;
/// Number of the running system call plus 1, 32 bits; 0 for none.
pub const NUMBER: i16 = 4;
/// When it began, exactly; 0 when that was not looked at.
pub const ENTRY: i16 = 8;
/// A time at which it had not begun, or when it began.
pub const KNOWN: i16 = 16;
/// The tick in which it began, 32 bits.
pub const TICK: i16 = 24;
/// Counts calls, 32 bits.
pub const COUNTER: i16 = 28;
/// So many calls are still timed exactly, 32 bits.
pub const CREDIT: i16 = 32;
/// How many calls the running one stands for in the histogram, 32 bits.
pub const WEIGHT: i16 = 36;
/// Page faults before [`KNOWN`].
pub const FAULTS: i16 = 40;
/// How often the thread was taken off its CPU in it, 32 bits.
pub const SWITCHES: i16 = 48;
/// Slot in the area of the process plus 1, 32 bits; 0 when not looked for, [`NO_SLOT`] when there is none.
pub const SLOT: i16 = 52;
/// When it was first taken off its CPU in the system call.
pub const FIRST_OUT: i16 = 64;
/// Nanoseconds off the CPU in the system call; the next two are part of it.
pub const OFFCPU: i16 = 72;
/// Nanoseconds runnable without a CPU.
pub const RUNQUEUE: i16 = 80;
/// Nanoseconds held back by the bandwidth of its cgroup.
pub const THROTTLED: i16 = 88;
/// When it was last taken off its CPU; 0 while it runs.
pub const OUT: i16 = 96;
/// When it was woken since; 0 when not.
pub const WAKE: i16 = 104;
/// Task state with which it was taken off, 32 bits; 0 when it would have gone on.
pub const STATE: i16 = 112;
/// [`IS_THROTTLED`], 32 bits.
pub const FLAGS: i16 = 116;
/// The thread that ran on the CPU from which it was woken: thread and process id, name; and how long that had been held back by its cgroup meanwhile.
pub const WAKER: i16 = 120;
/// The longest wait in the system call.
pub const LONGEST: i16 = 152;
/// Its state, 32 bits, and flags, 32 bits.
pub const LONGEST_STATE: i16 = 160;
/// Its waker, as at [`WAKER`].
pub const LONGEST_WAKER: i16 = 168;
/// How long the last throttling took, and when it ended.
pub const LAST_THROTTLED: i16 = 200;
/// Bytes of the longest wait's stack, 32 bits.
pub const STACK_BYTES: i16 = 216;
/// The longest time without a CPU in the system call: how long, who ran there before it (thread id, and at 16 its name).
pub const RIVAL: i16 = 224;
/// Bytes there.
pub const RIVAL_BYTES: i16 = 32;
/// The stack.
pub const STACK: i16 = 256;
/// Most bytes of a stack.
pub const STACK_MAX: u32 = 48 * 8;

/// Bytes at [`WAKER`].
pub const WAKER_BYTES: i16 = 32;
/// Name of the waker when it was an interrupt.
pub const INTERRUPT: [[u8; 8]; 2] = [*b"interrup", *b"t\0\0\0\0\0\0\0"];
/// In [`FLAGS`]: the cgroup's bandwidth took it off the CPU.
pub const IS_THROTTLED: i32 = 1;
/// In [`SLOT`].
pub const NO_SLOT: i32 = -1;
/// After a call that may have been too long, so many are timed exactly.
pub const CREDITS: i32 = 255;

// The slow map: a ring of records for slow calls, one element.

/// Slots claimed so far.
pub const HEAD: u32 = 0;
/// Slots that the recorder has done with.
pub const CONSUMED: u32 = 64;
/// Slow calls without a slot.
pub const LOST: u32 = 128;
/// The slots.
pub const SLOTS_AT: u32 = 4096;
/// How many.
pub const SLOTS: u32 = 2048;
/// Slots that are kept free: as many CPUs may claim one after the same look.
pub const SPARE: u32 = 256;
/// Bytes of a slot.
pub const SLOT_BYTES: u32 = 2048;
/// log2 of it.
pub const SLOT_BITS: u32 = 11;

/// Bytes of the slow map.
pub const SLOW_BYTES: u32 = SLOTS_AT + SLOTS * SLOT_BYTES;

/// Offsets in a slot.
pub mod slot {
    /// Number of the claim plus 1, stored last.
    pub const SEQUENCE: i16 = 0;
    /// When it returned.
    pub const TIME: i16 = 8;
    /// Thread id, 32 bits, and process id, 32 bits.
    pub const TID: i16 = 16;
    /// See `TID`.
    pub const PID: i16 = 20;
    /// Number, 32 bits.
    pub const NUMBER: i16 = 24;
    /// Whose threshold it was, 32 bits: 0 the session's, 1 the process's, 2 the thread's.
    pub const WHOSE: i16 = 28;
    /// What it returned.
    pub const RESULT: i16 = 32;
    /// Nanoseconds since it began, or since the last time before it that is known.
    pub const DURATION: i16 = 40;
    /// It began by so many nanoseconds later at most.
    pub const UNCERTAIN: i16 = 48;
    /// The threshold.
    pub const THRESHOLD: i16 = 56;
    /// As in the record of the thread.
    pub const OFFCPU: i16 = 64;
    /// As in the record.
    pub const RUNQUEUE: i16 = 72;
    /// As in the record.
    pub const THROTTLED: i16 = 80;
    /// Page faults in it.
    pub const FAULTS: i16 = 88;
    /// As in the record, 32 bits.
    pub const SWITCHES: i16 = 96;
    /// Bytes of the kernel's stack, 32 bits.
    pub const KERNEL_BYTES: i16 = 100;
    /// Bytes of the process's stack, 32 bits, negative for none.
    pub const USER_BYTES: i16 = 104;
    /// As in the record: longest wait, its state and flags, its waker.
    pub const LONGEST: i16 = 112;
    /// Name of the thread.
    pub const COMM: i16 = 160;
    /// Its six arguments.
    pub const ARGUMENTS: i16 = 176;
    /// As in the record: who had the CPU before it.
    pub const RIVAL: i16 = 224;
    /// The kernel's stack of the longest wait.
    pub const KERNEL: i16 = 256;
    /// The process's stack at the return.
    pub const USER: i16 = 640;
    /// The path, or the address of a socket, that is an argument; of a descriptor the inode's number, and at 8 the file's name.
    pub const NAME: i16 = 1024;
}
