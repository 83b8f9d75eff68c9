//! The memory that a session shares with its processes besides the rings: the board, the pool of speculations, the maps of
//! filters. One sparse file that processes get with the first filters; pages are taken when they are needed.

use crate::error::Error;
use mote_ring::speculation::{Pool, Sizes};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{self, Mapping};
use mote_wire::board;
use mote_wire::bundle::{PAGE, PoolPlace};
use std::cell::Cell;

/// Bytes of the file, of which only what is used is memory.
const BYTES: u64 = 1 << 30;
/// What it is when files may not be that long (`ulimit -f`).
const BYTES_SMALL: u64 = 32 << 20;
/// Speculations that can be open at a time, and what each can hold.
const POOL: Sizes = Sizes { slots: 64, slot_bytes: 64 << 10 };

/// The file.
pub(crate) struct Area {
    memfd: Fd,
    bytes: u64,
    /// Board and pool.
    front: Mapping,
}

/// How far the area is used. The loop's alone.
pub(crate) struct Used(Cell<u64>);

impl Area {
    /// Makes it; it takes no memory yet.
    pub(crate) fn make() -> Result<(Area, Used), Error> {
        let session = |why| Error::Session { what: "make memory for filters", why };
        let make = |bytes| mem::sealed_memfd(c"mote-filters", bytes).map(|memfd| (memfd, bytes));
        let (memfd, bytes) = make(BYTES).or_else(|_| make(BYTES_SMALL)).map_err(session)?;
        let front = board::BYTES + POOL.bytes();
        let front = Mapping::shared(&memfd, front).map_err(session)?;
        let used = Used(Cell::new((front.len() as u64).next_multiple_of(PAGE)));
        Ok((Area { memfd, bytes, front }, used))
    }

    /// The file.
    pub(crate) fn memfd(&self) -> &Fd {
        &self.memfd
    }

    /// The pool of speculations.
    pub(crate) fn pool(&self) -> Option<Pool<'_>> {
        Pool::of(&self.front, board::BYTES, POOL)
    }

    /// Where the pool is.
    pub(crate) fn pool_place() -> PoolPlace {
        PoolPlace { offset: board::BYTES as u64, sizes: POOL }
    }

    /// Takes memory for the pool.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`.
    pub(crate) fn allocate_pool(&self) -> mote_sys::Result<()> {
        mem::allocate(&self.memfd, board::BYTES as u64, POOL.bytes() as u64)
    }

    /// Space for `bytes`, which is allocated: a process that writes there does not fault.
    ///
    /// # Errors
    /// `ENOSPC` when the file has no more; `ENOMEM`.
    pub(crate) fn place(&self, used: &Used, bytes: u64) -> mote_sys::Result<u64> {
        let offset = used.0.get();
        let end = offset.checked_add(bytes.next_multiple_of(PAGE)).filter(|end| *end <= self.bytes);
        let end = end.ok_or(mote_sys::Errno(libc::ENOSPC))?;
        mem::allocate(&self.memfd, offset, end - offset)?;
        used.0.set(end);
        Ok(offset)
    }

    /// A word of the board; 0 when it cannot be read.
    pub(crate) fn word(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        let read = fd::read_at(&self.memfd, &mut word, offset as u64);
        if read == Ok(word.len()) { u64::from_le_bytes(word) } else { 0 }
    }
}

impl Used {
    /// Bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.get()
    }
}
