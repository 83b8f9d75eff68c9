//! The thread table: whose events are recorded, and what is remembered of each thread.
//!
//! # Where a thread is
//! At `tid % entries`, or at one of the [`PROBES`]` - 1` entries behind, cyclically. A first entry of whose threads one had to go elsewhere is marked
//! ([`DISPLACED`], for ever): only then is the search continued there.
//!
//! By the thread's id as the kernel counts (that of the outermost pid namespace). The recorder may have another one for it ([`RECORDER_TID`]), and the thread itself, too
//! ([`VTID`]); whoever claims an entry stores both.
//!
//! # Who writes what
//! Programs on `sched_process_fork`, `exec`, `exit` and `free` claim and free entries; the recorder claims those of what it follows, with the same
//! compare-and-swap on [`TID`]. The thread's own words ([`SYSCALL_TIME`] and on) are written by programs that run in that thread, or are about it while
//! it cannot run.
//!
//! # When a thread is forgotten
//! When its task is freed, not when it exits: its last events come in between. Until then its id may be given to another thread (which
//! takes that many forks that it does not happen); the entry holds the task, so that the right one is freed. Not every such event is seen
//! (with Linux 6.18 one in a thousand was seen by no program, and none was counted as missed). So whoever finds all places taken may have that of a thread
//! which has exited [`GONE_NS`] ago.

/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 64;
/// log2 of it.
pub const ENTRY_BITS: u32 = 6;
/// Entries at which a thread may be.
pub const PROBES: u32 = 8;

/// Offset of the thread's id, 32 bits; 0 in a free entry.
pub const TID: i16 = 0;
/// Offset of [`TRACED`] and [`LAUNCHING`], 32 bits.
pub const FLAGS: i16 = 4;
/// Offset of the mark that a thread of this place is elsewhere, 32 bits. Belongs to the place, not to the thread in it.
pub const DISPLACED: i16 = 8;
/// Offset of the number of the process's cooperation area, 32 bits; 0 for none.
pub const INDEX: i16 = 12;
/// Offset of the time at which the running system call began, 64 bits; 0 when none does, or it was not seen. Of a thread that has exited: when.
pub const SYSCALL_TIME: i16 = 16;
/// Offset of its number, 64 bits.
pub const SYSCALL: i16 = 24;
/// Offset of the thread's id as the recorder's pid namespace has it, 32 bits; 0 when nobody has looked.
pub const RECORDER_TID: i16 = 32;
/// Offset of the id that the thread knows itself by (gettid(2): that of its own pid namespace), 32 bits; 0 when nobody has looked.
pub const VTID: i16 = 36;
/// Offset of two words that are free for programs which are attached beside; 0 at first.
pub const SPARE: i16 = 40;
/// Offset of the address of the task, once it exits, 64 bits.
pub const TASK: i16 = 56;

/// So long after its exit a thread has no more events.
pub const GONE_NS: u64 = 1_000_000_000;

/// Its events are recorded, and its children are followed.
pub const TRACED: u32 = 1;
/// Its children are followed.
pub const LAUNCHING: u32 = 2;
