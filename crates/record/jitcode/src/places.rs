//! What lies where in the memory that programs and collector share.

use mote_sys::mem::PAGE_BYTES;

/// log2 of the bytes of a page.
pub(crate) const PAGE_BITS: u32 = PAGE_BYTES.trailing_zeros();
/// Slots, a power of two: 16 MiB of pages, more than programs copy in the milliseconds until they are read.
pub(crate) const SLOTS: u32 = 4096;
/// log2 of the bytes of a slot's head.
pub(crate) const HEAD_BITS: u32 = 6;
/// Where the heads begin.
pub(crate) const HEADS_AT: u32 = 4096;
/// Where the pages begin.
pub(crate) const PAGES_AT: u32 = HEADS_AT + (SLOTS << HEAD_BITS);
/// Bytes of all.
pub(crate) const BYTES: u32 = PAGES_AT + (SLOTS << PAGE_BITS);
/// Processes that are watched at most.
pub(crate) const PROCESSES: u32 = 8192;
/// Pieces of memory in which pages are tracked, of all processes, at most.
pub(crate) const TRACKED: u32 = 16 << 10;
/// log2 of the bytes of such a piece.
pub(crate) const TRACKED_BITS: u32 = 21;
/// Where the process begins in the number of a piece: above all that addresses have.
pub(crate) const PROCESS_AT: u32 = 36;
/// Pages that are copied for one system call; the rest is told, and read by the collector.
pub(crate) const PAGES_MAX: u32 = 512;

/// The switches and counters, at the begin of the memory.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    /// Slots that were claimed since ever.
    pub(crate) claimed: u64,
    _line: [u64; 7],
    /// Slots that were read.
    pub(crate) read: u64,
    /// Not 0: all processes are watched.
    pub(crate) all: u64,
    /// Pages, or changes without one, for which there was no slot.
    pub(crate) lost: u64,
    /// Processes that could not be watched: there were too many.
    pub(crate) unwatched: u64,
    /// Faults for which there was no slot.
    pub(crate) late: u64,
}

/// What a slot says of its page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Head {
    /// The claim's number plus 1, stored last.
    pub(crate) sequence: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub(crate) time: u64,
    /// Its process.
    pub(crate) process: u32,
    /// One of [`kind`].
    pub(crate) kind: u32,
    /// The first address.
    pub(crate) start: u64,
    /// The address behind the last one.
    pub(crate) end: u64,
    /// Of what was moved: where it lay before. Of a page: what it may be used for.
    pub(crate) from: u64,
    _free: [u64; 2],
}
const _: () = assert!(size_of::<Head>() == 1 << HEAD_BITS && size_of::<Control>() <= HEADS_AT as usize);

/// Kinds of slots.
pub(crate) mod kind {
    /// Nothing: the memory could not be read.
    pub(crate) const NONE: u32 = 0;
    /// A page.
    pub(crate) const PAGE: u32 = 1;
    /// Memory that may be executed, and was not copied.
    pub(crate) const REST: u32 = 2;
    /// Memory that was moved.
    pub(crate) const MOVED: u32 = 3;
    /// A page that is tracked is about to be written to.
    pub(crate) const WRITTEN: u32 = 4;
}
