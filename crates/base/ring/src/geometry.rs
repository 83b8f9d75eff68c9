//! What lies where in a channel's memory.
//!
//! ```text
//! 0              thread table (threads.rs)
//! TABLE_BYTES    control of ring 0, ring 1, ...          (control.rs)
//! data_offset    data of ring 0, ring 1, ...             ring_bytes each
//! ```
//! Rings `0..cpus` belong to the CPU of their number (rseq writer); the `shared` rings after them belong to
//! no CPU (atomic writer). The file is sparse: a ring that no thread writes to costs no memory.

use crate::control::{CONTROL_BYTES, SLOT_BYTES};
use crate::threads::TABLE_BYTES;
use core::fmt;
use mote_sys::{time, tsc};

/// What happens when a writer reaches data that was not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// The new event is dropped and counted.
    Discard = 0,
    /// The oldest sub-buffer is overwritten: a flight recorder.
    Overwrite = 1,
}

/// Where the time of a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// The time-stamp counter, in cycles.
    Tsc = 0,
    /// CLOCK_MONOTONIC, in nanoseconds.
    Monotonic = 1,
}

impl Clock {
    /// The time, in ticks.
    #[inline]
    pub(crate) fn now(self) -> u64 {
        match self {
            Clock::Tsc => tsc::count(),
            Clock::Monotonic => time::clock_gettime(time::ClockId::Monotonic),
        }
    }
}

/// Sizes of a channel. All that both sides must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of rings of one CPU each.
    pub cpus: u32,
    /// Number of rings that threads of all CPUs write to.
    pub shared: u32,
    /// log2 of the bytes of a sub-buffer, [`SUB_BITS_MIN`]..=[`SUB_BITS_MAX`].
    pub sub_bits: u32,
    /// log2 of the sub-buffers of a ring, 1..=[`COUNT_BITS_MAX`].
    pub count_bits: u32,
    /// What happens to an event while its ring is full.
    pub mode: Mode,
    /// The clock that times of records are of.
    pub clock: Clock,
}

/// Smallest sub-buffer: 4 KiB.
pub const SUB_BITS_MIN: u32 = 12;
/// Largest sub-buffer: 128 MiB, so that its records can be counted in 24 bits.
pub const SUB_BITS_MAX: u32 = 27;
/// Most sub-buffers: 4096.
pub const COUNT_BITS_MAX: u32 = 12;
/// Most rings of either kind.
pub const RINGS_MAX: u32 = 4096;
/// Largest ring: 4 GiB.
pub const RING_BITS_MAX: u32 = 32;

const PAGE: u64 = mote_sys::mem::PAGE_BYTES as u64;

/// A size that is outside of what a channel can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadGeometry;

impl fmt::Display for BadGeometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "buffer sizes must be powers of two: sub-buffers of 4 KiB to 128 MiB, 2 to 4096 of them, at most 4 GiB a CPU"
        )
    }
}

impl core::error::Error for BadGeometry {}

impl Geometry {
    /// Returns itself when all sizes are within bounds.
    ///
    /// # Errors
    /// [`BadGeometry`].
    pub const fn check(self) -> Result<Geometry, BadGeometry> {
        let sizes = self.sub_bits >= SUB_BITS_MIN
            && self.sub_bits <= SUB_BITS_MAX
            && self.count_bits >= 1
            && self.count_bits <= COUNT_BITS_MAX
            && self.sub_bits + self.count_bits <= RING_BITS_MAX;
        let rings = self.cpus <= RINGS_MAX && self.shared >= 1 && self.shared <= RINGS_MAX;
        if sizes && rings { Ok(self) } else { Err(BadGeometry) }
    }

    /// Bytes of a sub-buffer.
    pub const fn sub_bytes(&self) -> u64 {
        1 << self.sub_bits
    }

    /// Sub-buffers of a ring.
    pub const fn sub_count(&self) -> u64 {
        1 << self.count_bits
    }

    /// Bytes of a ring's data.
    pub const fn ring_bytes(&self) -> u64 {
        1 << (self.sub_bits + self.count_bits)
    }

    /// Number of rings, those of one CPU first.
    pub const fn rings(&self) -> u32 {
        self.cpus + self.shared
    }

    const fn control_stride(&self) -> u64 {
        let bytes = CONTROL_BYTES as u64 + SLOT_BYTES as u64 * self.sub_count();
        bytes.next_multiple_of(128)
    }

    /// Offset of the control of ring `ring`.
    pub const fn control_offset(&self, ring: u32) -> u64 {
        TABLE_BYTES as u64 + self.control_stride() * ring as u64
    }

    /// Offset of the data of ring `ring`.
    pub const fn data_offset(&self, ring: u32) -> u64 {
        self.control_offset(self.rings()).next_multiple_of(PAGE) + self.ring_bytes() * ring as u64
    }

    /// Bytes of the whole channel.
    pub const fn total_bytes(&self) -> u64 {
        self.data_offset(self.rings())
    }
}
