//! Where the maps of filters lie in the memory that a group of processes shares with the session.
//!
//! Each group has memory of its own, and all are laid out the same, so that all processes get the same filters. A
//! layout only grows: what has a place keeps it.

use crate::memory::SharedWords;
use mote_bpf::MapShape;
use mote_filter::Maps;
use mote_filter::maps::{Entry, Meaning};
use mote_sys::Errno;
use mote_vm::map::Map;
use mote_wire::bundle::{MapPlace, PAGE, PoolPlace, SHARED};
use mote_wire::filter_counters;

/// The layout of a group's memory: the counters, the pool of speculations, the maps.
#[derive(Debug)]
pub struct Layout {
    bytes: u64,
    used: u64,
    pool: PoolPlace,
    speculates: bool,
    maps: Vec<(Entry, MapPlace)>,
}

impl Layout {
    /// Of memory with `bytes` bytes, in which the counters and `pool` have their places; no maps yet.
    pub fn new(bytes: u64, pool: PoolPlace) -> Layout {
        let front = filter_counters::BYTES as u64 + pool.sizes.bytes() as u64;
        Layout { bytes, used: front.next_multiple_of(PAGE), pool, speculates: false, maps: Vec::new() }
    }

    /// Gives places to the maps that have none, and to speculations if a rule keeps records aside.
    ///
    /// # Errors
    /// Why a map has no place, for a person. The maps before it have theirs.
    pub(crate) fn extend(
        &mut self,
        maps: &Maps,
        speculates: bool,
        words: &SharedWords,
    ) -> Result<(), String> {
        self.speculates |= speculates;
        for entry in maps.entries().iter().skip(self.maps.len()) {
            self.place(entry, words)?;
        }
        Ok(())
    }

    fn place(&mut self, entry: &Entry, words: &SharedWords) -> Result<(), String> {
        let shape = entry.shape;
        if entry.meaning == Meaning::Shared {
            words.check(&shape)?;
            self.maps.push((entry.clone(), MapPlace { shape, offset: SHARED }));
            return Ok(());
        }
        let offset = self.used;
        let end = offset.checked_add(map_bytes(&shape)).filter(|end| *end <= self.bytes);
        self.used = end.ok_or_else(|| Errno(libc::ENOSPC).to_string())?;
        self.maps.push((entry.clone(), MapPlace { shape, offset }));
        Ok(())
    }

    /// The maps and their places.
    pub fn maps(&self) -> &[(Entry, MapPlace)] {
        &self.maps
    }

    /// The place of the pool of speculations.
    pub fn pool(&self) -> PoolPlace {
        self.pool
    }

    /// Whether rules keep records aside: the pool has memory then.
    pub fn speculates(&self) -> bool {
        self.speculates
    }

    /// Bytes up to the end of the last map.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of memory that a group's takes.
    pub fn memory(&self) -> u64 {
        let pool = if self.speculates { 0 } else { self.pool.sizes.bytes() as u64 };
        self.used - pool
    }
}

/// Bytes of a map, in whole pages.
pub fn map_bytes(shape: &MapShape) -> u64 {
    (Map::bytes(shape) as u64).next_multiple_of(PAGE)
}
