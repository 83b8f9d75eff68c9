//! The control words of one ring, in shared memory.
//!
//! # Parties
//! Writers: threads and signal handlers of all the traced processes. Reader: one consumer. Each may be hostile
//! to the other, and any writer may be killed at any instruction.
//!
//! # Who may write what
//! 1. `pos`, slots: writers only. rseq rings: only from a restartable sequence on the ring's CPU, one store
//!    last. Atomic rings: only by compare-and-swap (`pos`, `base`, `lost`) and atomic addition (`commit`).
//! 2. `consumed`, `mark`: the reader only; `consumed` never decreasing.
//! 3. `lost`: rseq rings count `RingFull` in a restartable sequence, atomic rings by compare-and-swap; everything
//!    else by atomic addition.
//!
//! # State
//! `pos` counts bytes since the beginning of time; sub-buffer number `pos >> sub_bits` is being written. Records end
//! before its last byte, so `pos` at the start of a sub-buffer always means that the writer was allowed to enter it,
//! and `pos` at the last byte that the sub-buffer is closed.
//!
//! # Gaps
//! A writer that finds the ring full closes the sub-buffer: `pos` goes to its last byte, behind which nothing fits, and
//! `end` says where its records end. Records are counted as `RingFull` only while the sub-buffer is closed. A thread
//! that enters the next one notes in its slot how many were counted until then. So what a full ring has lost lies
//! between the last record of one sub-buffer and the first of the next, and the slots say how much, however late a
//! reader comes.
//!
//! # Ordering
//! A. Record bytes happen before the `pos` (rseq) or `commit` (atomic) that covers them: plain stores in
//!    order on x86 (TSO), release in the atomic writer; acquire in the reader.
//! B. A slot's `end` and `time_end` happen before the `pos` beyond their sub-buffer; same pairing.
//! C. The reader's copies happen before its store of `consumed` (release); a writer that enters the
//!    sub-buffer has loaded `consumed` (acquire).
//! D. Overwrite mode: `pos` enters a sub-buffer before the first byte there changes (release fence in the atomic
//!    writer, the order of stores in the rseq writer); the reader copies, fences (acquire) and looks at `pos` again.
//! E. Atomic rings: a thread that sees in the counter that the count before a sub-buffer has ended sees `consumed` at
//!    least as the one did that has ended it (release, acquire): it does not find the ring full again. The note in the
//!    slot happens before the `pos` that is in its sub-buffer.

use mote_loss::Cause;
use mote_sync::atomic::AtomicU64;

/// Control words of one ring. Followed by its [`Slot`]s.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Control {
    /// Bytes written (rseq) or reserved (atomic).
    pub pos: AtomicU64,
    /// Time of the newest record; kept only where the clock is not the TSC.
    pub last_time: AtomicU64,
    /// [`MARK`]; the reader's. A hole that a process has punched into the file has another.
    pub mark: AtomicU64,
    _line: [u64; 5],
    /// Lost events by cause; `RingFull` of atomic rings is a [`Count`].
    pub lost: [AtomicU64; Cause::ALL.len()],
    _line2: [u64; 8 - Cause::ALL.len()],
    /// Bytes that the reader has done with.
    pub consumed: AtomicU64,
    _line3: [u64; 15],
}

/// What a ring has in [`Control::mark`] while no thread has emptied it: "a mote.\n".
pub const MARK: u64 = u64::from_le_bytes(*b"a mote.\n");

/// State of one sub-buffer.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// `pos` at which its content ends; valid once `pos` has left it.
    pub end: AtomicU64,
    /// A time not before its last record.
    pub time_end: AtomicU64,
    /// Atomic writer: bytes committed, modulo 2^40, plus 2^40 for each record.
    pub commit: AtomicU64,
    /// Atomic writer: what `commit` was when the sub-buffer was last entered.
    pub base: AtomicU64,
    /// What `RingFull` was when it was last entered; of atomic rings a [`Count`].
    pub lost: AtomicU64,
    pub(crate) _line: [u64; 3],
}

/// Counts of lost events have so many bits: 65 days of a loss every 20 ns.
pub const COUNT_BITS: u32 = 48;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// What a full atomic ring has lost so far, and which sub-buffer has seen the last of it: its number, cut to 16 bits.
///
/// Losses are counted for the sub-buffer that is closed. Before a writer enters the next one it writes that one's
/// number here, and a thread that still wants to count for the one before sees that and looks at the ring again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl Count {
    /// `events` lost, the last for sub-buffer `number`.
    pub fn new(number: u64, events: u64) -> Count {
        Count(number << COUNT_BITS | events & COUNT_MASK)
    }

    /// Number of events that the ring has lost, modulo 2^[`COUNT_BITS`].
    pub fn events(self) -> u64 {
        self.0 & COUNT_MASK
    }

    /// How many sub-buffers it is ahead of sub-buffer `number`, modulo 2^16.
    pub fn ahead_of(self, number: u64) -> i16 {
        (self.0 >> COUNT_BITS).wrapping_sub(number) as i16
    }
}

/// Bytes that [`Control`] takes in shared memory.
pub const CONTROL_BYTES: usize = size_of::<Control>();
/// Bytes that [`Slot`] takes in shared memory.
pub const SLOT_BYTES: usize = size_of::<Slot>();
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(CONTROL_BYTES == 256 && SLOT_BYTES == 64);

/// Where the control words of one ring and its data lie in this process.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Control words; the slots follow at once.
    pub control: *const Control,
    /// First byte of the data.
    pub data: *mut u8,
}

/// log2 of the bytes of [`Ring`], for the assembly that indexes a table of them.
pub const RING_SHIFT: u32 = 4;
const _: () = assert!(size_of::<Ring>() == 1 << RING_SHIFT);

impl Control {
    /// Where events are counted that a full ring could not take.
    pub(crate) fn full(&self) -> &AtomicU64 {
        const { assert!(Cause::RingFull as usize == 0) };
        let [full, ..] = &self.lost;
        full
    }
}

#[cfg(any(loom, shuttle))]
impl Control {
    /// Of a ring that no thread has written to.
    pub(crate) fn empty() -> Control {
        Control {
            pos: AtomicU64::new(0),
            last_time: AtomicU64::new(0),
            mark: AtomicU64::new(MARK),
            _line: [0; 5],
            lost: core::array::from_fn(|_| AtomicU64::new(0)),
            _line2: [0; 8 - Cause::ALL.len()],
            consumed: AtomicU64::new(0),
            _line3: [0; 15],
        }
    }
}

impl Ring {
    /// The control words.
    ///
    /// # Safety
    /// `self` must come from a live mapping of a channel ([`crate::Writer`], [`crate::reader`]).
    pub unsafe fn control<'a>(self) -> &'a Control {
        // SAFETY: the caller's promise; the type consists of atomics only, so that changes by other
        // processes are allowed.
        unsafe { &*self.control }
    }

    /// Slot number `index`.
    ///
    /// # Safety
    /// As [`Ring::control`], and `index` below the geometry's number of sub-buffers.
    pub unsafe fn slot<'a>(self, index: u64) -> &'a Slot {
        let slots = self.control.wrapping_add(1).cast::<Slot>();
        // SAFETY: the caller's promise; slots follow the control words (`Geometry::control_offset`).
        unsafe { &*slots.wrapping_add(index as usize) }
    }
}
