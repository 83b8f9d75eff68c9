//! A ring for model checkers: small enough for `loom` to run through all that its threads can do, and for `shuttle` to
//! run many of them at random.
//!
//! The control words are the checker's atomics, and each grain of the data has a cell beside it, with which the checker
//! sees whether an access to the bytes is ordered with those of others: bytes that are read before they happened, or
//! while they are overwritten, fail.

use crate::control::{Control, Ring, Slot};
use crate::geometry::{Clock, Geometry, Mode};
use crate::reader::Reader;
use crate::writer::{Rings, Writer};
use cell::Cell;
use core::mem::offset_of;
use mote_loss::Cause;
use mote_sync::atomic::AtomicU64;
use std::boxed::Box;

extern crate std;

/// Bytes of a grain: no record of the tests is smaller, and each begins at a multiple.
const GRAIN: usize = 16;
/// Sub-buffers of 64 bytes, two of them: three records of a grain in each, because none is filled to the end.
pub const SUB_BITS: u32 = 6;
const COUNT: usize = 2;
const RING_BYTES: usize = COUNT << SUB_BITS;

/// The cell of a grain.
#[cfg(loom)]
mod cell {
    #[derive(Debug)]
    pub(super) struct Cell(loom::cell::UnsafeCell<()>);

    impl Cell {
        pub(super) fn new() -> Cell {
            Cell(loom::cell::UnsafeCell::new(()))
        }
        pub(super) fn write(&self) {
            self.0.with_mut(|_| ());
        }
        pub(super) fn read(&self) {
            self.0.with(|_| ());
        }
    }
}

/// The cell of a grain: `shuttle` has none, so that accesses that overlap are noticed by hand.
#[cfg(shuttle)]
mod cell {
    use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[derive(Debug)]
    pub(super) struct Cell(AtomicU32);
    const WRITER: u32 = 1 << 16;

    impl Cell {
        pub(super) fn new() -> Cell {
            Cell(AtomicU32::new(0))
        }
        pub(super) fn write(&self) {
            assert_eq!(self.0.fetch_add(WRITER, SeqCst), 0, "bytes are written that another thread uses");
            self.0.fetch_sub(WRITER, SeqCst);
        }
        pub(super) fn read(&self) {
            assert!(self.0.fetch_add(1, SeqCst) < WRITER, "bytes are read that another thread writes");
            self.0.fetch_sub(1, SeqCst);
        }
    }
}

/// The data of a ring, and before it the cells of its grains: they are found from the pointer to the data.
#[repr(C)]
#[derive(Debug)]
struct Data {
    cells: [Cell; RING_BYTES / GRAIN],
    /// No thread overwrites what the reader reads: not in overwrite mode.
    reader_alone: bool,
    bytes: [u64; RING_BYTES / 8],
}

fn grains(data: *const u8, offset: u64, len: usize) -> (bool, &'static [Cell]) {
    // SAFETY: the ring is of a `Model`, whose data lies in a `Data` that is never freed.
    let data = unsafe { &*data.wrapping_sub(offset_of!(Data, bytes)).cast::<Data>() };
    let first = offset as usize / GRAIN;
    (data.reader_alone, data.cells.get(first..first + len.div_ceil(GRAIN)).unwrap_or(&[]))
}

/// A writer has `len` bytes at `offset` of the ring's data for itself.
pub(crate) fn written(data: *const u8, offset: u64, len: usize) {
    grains(data, offset, len).1.iter().for_each(Cell::write);
}

/// The reader reads `len` bytes at `offset` of the ring's data.
pub(crate) fn read(data: *const u8, offset: u64, len: usize) {
    let (reader_alone, cells) = grains(data, offset, len);
    if reader_alone {
        cells.iter().for_each(Cell::read);
    }
}

/// As they lie in memory: a control, and its slots.
#[repr(C)]
struct Words {
    control: Control,
    slots: [Slot; COUNT],
}

/// One ring of the atomic writer.
#[derive(Debug)]
pub struct Model {
    writer: Writer,
    geometry: Geometry,
    ring: Ring,
}

// SAFETY: what the pointers lead to is leaked, and made to be used by several threads.
unsafe impl Sync for Model {}

impl Model {
    /// An empty ring; leaked, as a channel is. The reader's accesses to its data are checked in discard mode only, in
    /// which no thread may overwrite what is read; those of writers always.
    pub fn new(mode: Mode) -> &'static Model {
        let slot = || Slot {
            end: zero(),
            time_end: zero(),
            commit: zero(),
            base: zero(),
            lost: zero(),
            _line: [0; 3],
        };
        let words = Words { control: Control::empty(), slots: core::array::from_fn(|_| slot()) };
        let words: &'static Words = Box::leak(Box::new(words));
        let data = Data {
            cells: core::array::from_fn(|_| Cell::new()),
            reader_alone: mode == Mode::Discard,
            bytes: [0; RING_BYTES / 8],
        };
        let data = Box::into_raw(Box::new(data)).cast::<u8>().wrapping_add(offset_of!(Data, bytes));
        let ring = Ring { control: &raw const words.control, data };
        let geometry =
            Geometry { cpus: 0, shared: 1, sub_bits: SUB_BITS, count_bits: 1, mode, clock: Clock::Tsc };
        let rings = Rings::make(core::ptr::null(), 0, geometry, |_| ring).expect("memory");
        let writer = Writer::over(rings, geometry);
        Box::leak(Box::new(Model { writer, geometry, ring }))
    }

    /// What a traced process has.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The consumer's side of the ring.
    pub fn reader(&'static self) -> Reader<'static> {
        Reader::of(self.geometry, self.ring, true)
    }
}

fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

/// How many events a ring says were lost, of all causes.
pub fn lost(reader: &Reader<'_>) -> u64 {
    Cause::ALL.iter().map(|cause| reader.lost()[*cause as usize]).sum()
}
