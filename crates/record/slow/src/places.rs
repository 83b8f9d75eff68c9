//! What lies where in the maps that the programs of cooperation and the recorder share.

use mote_bpf::helper::bucket;
use mote_layout::cooperation::SYSCALLS;
use mote_layout::stack::HEADER_WORDS;
use std::mem::offset_of;

/// System calls have numbers below this.
pub const CALLS: u32 = SYSCALLS as u32;

/// The control map: one element, with the counts of the other CPUs behind.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// Threads without a slot in the area of their process, events.
    pub unpublished: u64,
    /// System calls of other ABIs.
    pub foreign: u64,
    /// Waits from this length on have their stack recorded, in nanoseconds.
    pub stack_from: u64,
    _free: [u64; 125],
    /// For each system call: which argument (from 1 on) is a path, with [`IS_ADDRESS`] the address of a socket, with
    /// [`IS_FILE`] a descriptor; 0 for none.
    pub names: [u8; CALLS as usize],
    _free2: [u64; 320],
    /// For each system call: from how many nanoseconds on it is recorded; `u64::MAX` for never.
    pub thresholds: [u64; CALLS as usize],
    /// For each system call: after as many ticks since its entry it cannot have reached its threshold; negative when
    /// that cannot be said.
    pub ticks: [i64; CALLS as usize],
    /// For each system call: how many returned on the first CPU.
    pub counts: [u64; CALLS as usize],
}

/// In [`Control::names`]: the argument is the address of a socket.
pub const IS_ADDRESS: u8 = 0x10;
/// In [`Control::names`]: the argument is a descriptor.
pub const IS_FILE: u8 = 0x20;
/// Most bytes of a path that is kept.
pub const NAME_MAX: u32 = 256;
/// Most bytes of a socket's address that are looked at: `sizeof(struct sockaddr_un)`, up to a multiple of 8.
pub const ADDRESS_MAX: u32 = 112;
/// Bytes of the counts of a CPU.
pub const COUNTS_BYTES: u32 = CALLS * 8;

const _: () = assert!(offset_of!(Control, thresholds) == 4096);

/// Bytes of the control map.
pub const fn control_bytes(cpus: u32) -> u32 {
    size_of::<Control>() as u32 + cpus.saturating_sub(1) * COUNTS_BYTES
}

// The histogram map: for each system call `BUCKETS` counts of 32 bits, which the recorder reads as differences.

/// Durations from 2 to the power of this on are counted as the longest.
pub const DURATION_BITS: u32 = 38;
/// Buckets of a system call, of `mote_bpf::helper::bucket`.
pub const BUCKETS: u32 = bucket((1 << DURATION_BITS) - 1) + 1;
/// Of calls that are not the first in a tick, one of so many is timed.
pub const SAMPLE: u32 = 32;

/// The record of a thread, in the records map: at the place that the thread has in the thread table.
#[repr(C)]
#[derive(Debug)]
pub struct Record {
    /// Thread id: another thread had the place when it is not the same.
    pub tid: u32,
    /// Number of the running system call plus 1; 0 for none.
    pub number: u32,
    /// When it began, exactly; 0 when that was not looked at.
    pub entry: u64,
    /// A time at which it had not begun, or when it began.
    pub known: u64,
    /// The tick in which it began.
    pub tick: u32,
    /// Counts calls.
    pub counter: u32,
    /// So many calls are still timed exactly.
    pub credit: u32,
    /// How many calls the running one stands for in the histogram.
    pub weight: u32,
    /// Page faults before [`Record::known`].
    pub faults: u64,
    /// How often the thread was taken off its CPU in it.
    pub switches: u32,
    /// Slot in the area of the process plus 1; 0 when not looked for, [`NO_SLOT`] when there is none.
    pub slot: u32,
    _free: u64,
    /// When it was first taken off its CPU in the system call.
    pub first_out: u64,
    /// Its waits in the system call.
    pub sums: Sums,
    /// When it was last taken off its CPU; 0 while it runs.
    pub out: u64,
    /// When it was woken since; 0 when not.
    pub wake: u64,
    /// Task state with which it was taken off; 0 when it would have gone on.
    pub state: u32,
    /// [`IS_THROTTLED`].
    pub flags: u32,
    /// The thread that ran on the CPU from which it was woken.
    pub waker: Waker,
    /// The longest wait in the system call.
    pub longest: Wait,
    /// How long the last throttling took.
    pub last_throttled: u64,
    /// When that ended.
    pub last_throttled_end: u64,
    /// Bytes of the longest wait's stack.
    pub stack_bytes: u32,
    _free2: u32,
    /// The longest time without a CPU in the system call, and the thread that ran there before it.
    pub rival: Rival,
    /// The stack of the longest wait.
    pub stack: [u64; STACK_MAX as usize / 8],
    _free3: [u64; 48],
}

/// What the waits of a call took, in nanoseconds.
#[repr(C)]
#[derive(Debug)]
pub struct Sums {
    /// Off the CPU; the other two are part of it.
    pub offcpu: u64,
    /// Runnable without a CPU.
    pub runqueue: u64,
    /// Held back by the bandwidth of its cgroup.
    pub throttled: u64,
}

/// A thread that woke another one.
#[repr(C)]
#[derive(Debug)]
pub struct Waker {
    /// Thread id, as the recorder sees it.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Its name; [`INTERRUPT`] for an interrupt.
    pub name: [u64; 2],
    /// How long its cgroup had held it back meanwhile, in nanoseconds.
    pub throttled: u64,
}

/// A wait.
#[repr(C)]
#[derive(Debug)]
pub struct Wait {
    /// Nanoseconds.
    pub ns: u64,
    /// Its state.
    pub state: u32,
    /// Its flags.
    pub flags: u32,
    /// The thread that ended it.
    pub waker: Waker,
}

/// A thread that ran on the CPU that another one waited for.
#[repr(C)]
#[derive(Debug)]
pub struct Rival {
    /// How long the other one waited, in nanoseconds.
    pub ns: u64,
    /// Thread id, as the recorder sees it.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: [u64; 2],
}

/// Bytes of a record.
pub const RECORD_BYTES: u32 = 1024;
/// log2 of it.
pub const RECORD_BITS: u32 = 10;
const _: () = assert!(size_of::<Record>() == RECORD_BYTES as usize && RECORD_BYTES == 1 << RECORD_BITS);
/// Most bytes of a stack.
pub const STACK_MAX: u32 = 48 * 8;

/// Name of the waker when it was an interrupt.
pub const INTERRUPT: [[u8; 8]; 2] = [*b"interrup", *b"t\0\0\0\0\0\0\0"];
/// In [`Record::flags`]: the cgroup's bandwidth took it off the CPU.
pub const IS_THROTTLED: u32 = 1;
/// In [`Record::slot`].
pub const NO_SLOT: i32 = -1;
/// After a call that may have been too long, so many are timed exactly.
pub const CREDITS: u32 = 255;

/// The slow map: a ring of records for slow calls, one element. The slots are at [`SLOTS_AT`].
#[repr(C)]
#[derive(Debug)]
pub struct Ring {
    /// Slots claimed so far.
    pub head: u64,
    _line: [u64; 7],
    /// Slots that the recorder has done with.
    pub consumed: u64,
    _line2: [u64; 7],
    /// Slow calls without a slot.
    pub lost: u64,
}

/// Where the slots are.
pub const SLOTS_AT: u32 = 4096;
/// How many.
pub const SLOTS: u32 = 1024;
/// Slots that are kept free: as many CPUs may claim one after the same look.
pub const SPARE: u32 = 256;
/// Bytes of a slot.
pub const SLOT_BYTES: u32 = 8192;
/// log2 of it.
pub const SLOT_BITS: u32 = 13;
/// Most bytes of the process's stack that are copied.
pub const USER_COPY: u32 = 6 << 10;
/// Words for it, with what is in front of it.
pub const USER_WORDS: usize = HEADER_WORDS + USER_COPY as usize / 8;

/// Bytes behind the slots that nothing reaches: a stack is copied in pieces, of each of which the verifier knows no
/// more than that it is within a page.
const SLACK: u32 = 16 << 10;
/// Bytes of the slow map.
pub const SLOW_BYTES: u32 = SLOTS_AT + SLOTS * SLOT_BYTES + SLACK;

/// A slow call.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// Number of the claim plus 1, stored last.
    pub sequence: u64,
    /// When it returned.
    pub time: u64,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Number.
    pub number: u32,
    /// Whose threshold it was: 0 the session's, 1 the process's, 2 the thread's.
    pub whose: u32,
    /// What it returned.
    pub result: u64,
    /// Nanoseconds since it began, or since the last time before it that is known.
    pub duration: u64,
    /// It began by so many nanoseconds later at most.
    pub uncertain: u64,
    /// The threshold.
    pub threshold: u64,
    /// As in the record of the thread.
    pub sums: Sums,
    /// Page faults in it.
    pub faults: u64,
    /// As in the record.
    pub switches: u32,
    /// Bytes of the kernel's stack.
    pub kernel_bytes: u32,
    /// Bytes of the process's stack, negative for none.
    pub user_bytes: u32,
    _free: u32,
    /// As in the record.
    pub longest: Wait,
    /// Name of the thread.
    pub comm: [u64; 2],
    /// Its six arguments.
    pub arguments: [u64; 6],
    /// As in the record.
    pub rival: Rival,
    /// The kernel's stack of the longest wait.
    pub kernel: [u64; STACK_MAX as usize / 8],
    /// The process's stack at the return: a copy (`mote_layout::stack`), or addresses.
    pub user: [u64; USER_WORDS],
    /// The path, or the address of a socket, that is an argument; of a descriptor the inode's number, and behind it the
    /// file's name.
    pub name: [u64; NAME_MAX as usize / 8],
    _free2: [u64; 139],
}

const _: () = assert!(size_of::<Slot>() == SLOT_BYTES as usize && SLOT_BYTES == 1 << SLOT_BITS);
