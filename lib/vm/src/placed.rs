//! A map together with the mapping that it lies in: what the recorder has of a session's maps.

use crate::map::{Cursor, Map, MapError, Update};
use mote_bpf::MapShape;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::mem::Mapping;

/// A map in a shared file. Without `unsafe`, because the memory goes with it; so the bare [`Map`] does not leave it.
#[derive(Debug)]
pub struct PlacedMap {
    map: Map,
    _memory: Mapping,
}

/// Why a map cannot be made in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceError {
    /// No such map.
    Map(MapError),
    /// As mmap(2).
    System(Errno),
}

impl core::fmt::Display for PlaceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PlaceError::Map(why) => why.fmt(f),
            PlaceError::System(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for PlaceError {}

impl PlacedMap {
    /// Makes an empty map in `file` at `offset`, a multiple of the page size.
    ///
    /// # Errors
    /// [`PlaceError`]. The file must have [`Map::bytes`] there, allocated: a thread that touches a page that
    /// cannot be had dies of SIGBUS.
    pub fn create(file: &Fd, offset: u64, shape: &MapShape) -> Result<PlacedMap, PlaceError> {
        if !shape.is_sound() {
            return Err(PlaceError::Map(MapError::Shape));
        }
        let memory = Mapping::shared_at(file, offset, Map::bytes(shape)).map_err(PlaceError::System)?;
        // SAFETY: the mapping is of the map's bytes, at a page, and lives as long as `map`, which is never handed out.
        let map = unsafe { Map::create(memory.base(), shape) }.map_err(PlaceError::Map)?;
        Ok(PlacedMap { map, _memory: memory })
    }

    /// As [`Map::lookup`].
    ///
    /// # Errors
    /// As there.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<(), MapError> {
        self.map.lookup(key, value)
    }

    /// As [`Map::update`].
    ///
    /// # Errors
    /// As there.
    pub fn update(&self, key: &[u8], value: &[u8], how: Update) -> Result<(), MapError> {
        self.map.update(key, value, how)
    }

    /// As [`Map::next`]: false at the end of the map.
    pub fn next(&self, cursor: &mut Cursor, key: &mut [u8], value: &mut [u8]) -> bool {
        self.map.next(cursor, key, value)
    }

    /// Entries that did not fit.
    pub fn dropped(&self) -> u64 {
        self.map.dropped()
    }
}
