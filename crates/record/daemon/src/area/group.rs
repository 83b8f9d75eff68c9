//! The memory that a group of processes shares with the session besides its rings: the counters, the pool of
//! speculations, the maps of filters. One sparse file that processes get with the first filters; pages are taken when
//! they are needed.

use super::packets::Slots;
use mote_layout::record::ID_BITS;
use mote_ring::speculation::{Pool, Sizes};
use mote_sys::Result;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{self, Mapping};
use mote_wire::bundle::PoolPlace;
use mote_wire::filter_counters;

/// Bytes of the file, of which only what is used is memory.
const BYTES: u64 = 1 << 30;
/// What it is when files may not be that long (`ulimit -f`).
const BYTES_SMALL: u64 = 32 << 20;
/// Speculations that can be open at a time, and what each can hold.
const POOL: Sizes = Sizes { slots: 128, slot_bytes: 64 << 10 };

/// The file.
pub(crate) struct GroupArea {
    memfd: Fd,
    bytes: u64,
    /// Counters and pool.
    front: Mapping,
}

impl GroupArea {
    /// Makes it; it takes no memory yet.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`, `EFBIG`.
    pub(crate) fn make() -> Result<GroupArea> {
        let make = |bytes| mem::sealed_memfd(c"mote-filters", bytes).map(|memfd| (memfd, bytes));
        let (memfd, bytes) = make(BYTES).or_else(|_| make(BYTES_SMALL))?;
        let front = Mapping::shared(&memfd, filter_counters::BYTES + POOL.bytes())?;
        Ok(GroupArea { memfd, bytes, front })
    }

    /// The file.
    pub(crate) fn memfd(&self) -> &Fd {
        &self.memfd
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The pool of speculations.
    pub(crate) fn pool(&self) -> Option<Pool<'_>> {
        Pool::of(&self.front, filter_counters::BYTES, POOL)
    }

    /// Where in a group's memfd the pool begins, and its sizes.
    pub(crate) fn pool_place() -> PoolPlace {
        PoolPlace { offset: filter_counters::BYTES as u64, sizes: POOL }
    }

    /// Takes memory for these bytes: a process that writes there does not fault.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`.
    pub(crate) fn allocate(&self, offset: u64, bytes: u64) -> Result<()> {
        mem::allocate(&self.memfd, offset, bytes)
    }

    /// How many faults the filter of each event had; those that had one.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (u32, u64)> {
        let mut bytes = vec![0; 4 << ID_BITS];
        // What cannot be read is 0.
        let _ = fd::read_at(&self.memfd, &mut bytes, filter_counters::FAULTS_BY_EVENT as u64);
        let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        (0..).zip(words).filter(|(_, faults)| *faults > 0).map(|(id, faults)| (id, u64::from(faults)))
    }

    /// A word of the counters; 0 when it cannot be read.
    pub(crate) fn word(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        let read = fd::read_at(&self.memfd, &mut word, offset as u64);
        if read == Ok(word.len()) { u64::from_le_bytes(word) } else { 0 }
    }
}

/// Of what filters of its processes ask for.
impl Slots for GroupArea {
    fn read(&self, offset: usize, to: &mut [u8]) {
        if fd::read_at(&self.memfd, to, (filter_counters::PACKETS + offset) as u64) != Ok(to.len()) {
            to.fill(0);
        }
    }

    fn write(&self, offset: usize, word: u64) {
        // It cannot shrink.
        let _ = fd::write_at(&self.memfd, &word.to_le_bytes(), (filter_counters::PACKETS + offset) as u64);
    }
}
