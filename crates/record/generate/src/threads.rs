//! The thread table: whose events are recorded, and what is remembered of each thread.
//!
//! # Where a thread is
//! At `tid % entries`, or at one of the [`PROBES`]` - 1` entries behind, cyclically. A first entry of whose threads one
//! had to go elsewhere is marked ([`Entry::displaced`], for ever): only then is the search continued there.
//!
//! By the thread's id as the kernel counts (that of the outermost pid namespace). The recorder may have another one for
//! it ([`RECORDER_TID`]), and the thread itself, too ([`VTID`]); the program that claims an entry stores both.
//!
//! # Who writes what
//! Programs on `sched_process_fork`, `exec`, `exit` and `free` claim and free entries; the recorder claims those of
//! what it follows, with the same compare-and-swap on [`TID`]. The thread's own words ([`SYSCALL_TIME`] and on) are
//! written by programs that run in that thread, or are about it while it cannot run.
//!
//! # When a thread is forgotten
//! When its task is freed, not when it exits: its last events come in between. Until then its id may be given to
//! another thread (which takes that many forks that it does not happen); the entry holds the task, so that the right
//! one is freed. Not every such event is seen (with Linux 6.18 one in a thousand was seen by no program, and none was
//! counted as missed). So a program that finds all places taken may have that of a thread which has exited [`GONE_NS`]
//! ago.

use std::mem::offset_of;

/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 64;
/// log2 of it.
pub const ENTRY_BITS: u32 = 6;
/// Entries at which a thread may be.
pub const PROBES: u32 = 8;

/// An entry.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    /// The thread's id; 0 in a free entry.
    pub tid: u32,
    /// [`TRACED`] and [`LAUNCHING`].
    pub flags: u32,
    /// Not 0 when a thread of this place is elsewhere. Belongs to the place, not to the thread in it.
    pub displaced: u32,
    /// The number of the process's cooperation area; 0 for none.
    pub index: u32,
    /// The time at which the running system call began; 0 when none does, or it was not seen. Of a thread that has
    /// exited: when.
    pub syscall_time: u64,
    /// Its number.
    pub syscall: u64,
    /// The thread's id as the recorder's pid namespace has it; 0 when it was not looked for.
    pub recorder_tid: u32,
    /// The id that the thread knows itself by (gettid(2): that of its own pid namespace); 0 when it was not looked for.
    pub vtid: u32,
    /// Free for programs which are attached beside; 0 at first.
    pub spare: [u64; 2],
    /// The address of the task, once it exits.
    pub task: u64,
}

const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES as usize && ENTRY_BYTES == 1 << ENTRY_BITS);

/// Offset of [`Entry::tid`].
pub const TID: i16 = offset_of!(Entry, tid) as i16;
/// Offset of [`Entry::flags`].
pub const FLAGS: i16 = offset_of!(Entry, flags) as i16;
/// Offset of [`Entry::displaced`].
pub const DISPLACED: i16 = offset_of!(Entry, displaced) as i16;
/// Offset of [`Entry::index`].
pub const INDEX: i16 = offset_of!(Entry, index) as i16;
/// Offset of [`Entry::syscall_time`].
pub const SYSCALL_TIME: i16 = offset_of!(Entry, syscall_time) as i16;
/// Offset of [`Entry::syscall`].
pub const SYSCALL: i16 = offset_of!(Entry, syscall) as i16;
/// Offset of [`Entry::recorder_tid`].
pub const RECORDER_TID: i16 = offset_of!(Entry, recorder_tid) as i16;
/// Offset of [`Entry::vtid`].
pub const VTID: i16 = offset_of!(Entry, vtid) as i16;
/// Offset of [`Entry::spare`].
pub const SPARE: i16 = offset_of!(Entry, spare) as i16;
/// Offset of [`Entry::task`].
pub const TASK: i16 = offset_of!(Entry, task) as i16;

/// So long after its exit a thread has no more events.
pub const GONE_NS: u64 = 1_000_000_000;

/// Its events are recorded, and its children are followed.
pub const TRACED: u32 = 1;
/// Its children are followed.
pub const LAUNCHING: u32 = 2;
