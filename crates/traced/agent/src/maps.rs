//! The maps of the session, as this process has them mapped.
//!
//! A map that was mapped stays, where it is, as long as the session: programs have its address. So does its place in
//! the bundle.

use crate::growing::Growing;
use mote_bpf::MapShape;
use mote_layout::cooperation::{SHARED_BYTES, SHARED_MAP_AT};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{self, Mapping};
use mote_sys::{Errno, Result};
use mote_vm::Map;
use mote_wire::bundle::{MAPS_MAX, MapPlace, PoolPlace, Received, SHARED};
use mote_wire::filter_counters;

/// The maps so far.
///
/// The addresses are of mappings that belong to no other code.
#[derive(Debug)]
pub(crate) struct Maps {
    places: Growing<MapPlace, MAPS_MAX>,
    shapes: Growing<MapShape, MAPS_MAX>,
    maps: Growing<Map, MAPS_MAX>,
    /// Those that are in the memfd.
    ranges: Growing<Range, MAPS_MAX>,
    /// Where the last one ends in the memfd.
    end: u64,
    pool: Option<PoolPlace>,
}

/// Where a map lies.
#[derive(Clone, Copy, Debug)]
struct Range {
    base: *mut u8,
    bytes: usize,
    /// In the memfd.
    offset: u64,
}

impl Maps {
    /// None.
    pub(crate) const fn new() -> Maps {
        Maps {
            places: Growing::new(),
            shapes: Growing::new(),
            maps: Growing::new(),
            ranges: Growing::new(),
            end: 0,
            pool: None,
        }
    }

    /// Their shapes, in the order of the bundle.
    pub(crate) fn shapes(&self) -> &[MapShape] {
        self.shapes.all()
    }

    /// The maps, in the order of the bundle.
    pub(crate) fn maps(&self) -> &[Map] {
        self.maps.all()
    }

    /// Maps what is new in `bundle`: the counters and the pool the first time, then the maps behind those that are
    /// known.
    ///
    /// # Errors
    /// `EINVAL` when the memfd may shrink or is too small, when a known map or the pool has moved, when maps lie over
    /// one another; as mmap(2). What was mapped before stays.
    pub(crate) fn extend(&mut self, session: usize, bundle: &Received<'_>, memfd: &Fd) -> Result<()> {
        check(memfd, bundle.maps_bytes)?;
        match self.pool {
            None => {
                crate::shared::map(session, memfd, bundle.pool)?;
                self.pool = Some(bundle.pool);
                let pool_end = bundle.pool.offset + bundle.pool.sizes.bytes() as u64;
                self.end = pool_end.max(filter_counters::BYTES as u64);
            }
            Some(known) if known == bundle.pool => {}
            Some(_) => return Err(Errno(libc::EINVAL)),
        }
        if bundle.maps().len() < self.places.all().len() {
            return Err(Errno(libc::EINVAL));
        }
        for (index, place) in bundle.maps().enumerate() {
            match self.places.all().get(index) {
                Some(known) if *known == place => {}
                Some(_) => return Err(Errno(libc::EINVAL)),
                None if place.offset == SHARED => self.add_shared(session, place)?,
                None => self.add(memfd, place, bundle.maps_bytes)?,
            }
        }
        Ok(())
    }

    /// The words that the session shares, which are mapped already and stay so.
    fn add_shared(&mut self, session: usize, place: MapPlace) -> Result<()> {
        let base = crate::cooperate::shared(session).ok_or(Errno(libc::EINVAL))?;
        if Map::bytes(&place.shape) > SHARED_BYTES - SHARED_MAP_AT {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: `shared-never-unmapped`: so many bytes from there on are mapped for good, at a page.
        let map = unsafe { Map::open(base.wrapping_add(SHARED_MAP_AT), &place.shape) };
        let map = map.map_err(|_| Errno(libc::EINVAL))?;
        self.maps.reserve()?;
        self.shapes.reserve()?;
        self.places.reserve()?;
        self.maps.push(map)?;
        self.shapes.push(place.shape)?;
        self.places.push(place)
    }

    fn add(&mut self, memfd: &Fd, place: MapPlace, limit: u64) -> Result<()> {
        let bytes = Map::bytes(&place.shape);
        let end = place.offset.checked_add(bytes as u64).filter(|end| *end <= limit);
        let Some(end) = end.filter(|_| place.offset >= self.end) else {
            return Err(Errno(libc::EINVAL));
        };
        let memory = Mapping::shared_at(memfd, place.offset, bytes)?;
        memory.keep_out_of_core_dumps();
        // SAFETY: `bytes` bytes at the start of a page, mapped for good when this succeeds.
        let map = unsafe { Map::open(memory.base(), &place.shape) }.map_err(|_| Errno(libc::EINVAL))?;
        // All or none.
        self.maps.reserve()?;
        self.shapes.reserve()?;
        self.places.reserve()?;
        self.ranges.reserve()?;
        let base = memory.leak();
        self.ranges.push(Range { base, bytes, offset: place.offset })?;
        self.maps.push(map)?;
        self.shapes.push(place.shape)?;
        self.places.push(place)?;
        self.end = end;
        Ok(())
    }

    /// Puts zeros in the place of all that is mapped: what was there is another process's. Programs have their
    /// addresses still.
    ///
    /// # Errors
    /// `ENOMEM`; some may be as they were then.
    pub(crate) fn forsake(&self, session: usize) -> Result<()> {
        crate::shared::forsake(session)?;
        self.ranges.all().iter().try_for_each(|range| {
            // SAFETY: a mapping that `add` has leaked; what is in a map any process may write.
            unsafe { Mapping::replace_by_zeros(range.base, range.bytes) }
        })
    }

    /// Maps the same places of another memfd where all is mapped by now.
    ///
    /// # Errors
    /// `EINVAL` when it may shrink or is too small; as mmap(2). Some may be of the other memfd then.
    pub(crate) fn go_over(&self, session: usize, memfd: &Fd) -> Result<()> {
        if self.pool.is_none() {
            return Ok(());
        }
        check(memfd, self.end)?;
        crate::shared::go_over(session, memfd)?;
        self.ranges.all().iter().try_for_each(|range| {
            // SAFETY: as in `forsake`; what is looked at there are atomics and bytes that others write.
            unsafe { Mapping::replace(range.base, memfd, range.offset, range.bytes) }
        })
    }

    /// Unmaps them.
    ///
    /// # Safety
    /// No program has the address of one any more. To be forgotten after this.
    pub(crate) unsafe fn unmap(&mut self) {
        for Range { base, bytes, .. } in self.ranges.all() {
            // SAFETY: a mapping that `add` has leaked, and the caller's promise.
            drop(unsafe { Mapping::adopt(*base, *bytes) });
        }
        self.ranges.clear();
    }
}

/// Whether a file has so many bytes, and keeps them.
fn check(memfd: &Fd, bytes: u64) -> Result<()> {
    // In this order: what cannot shrink any more keeps the size that is read after.
    let sealed = mem::cannot_shrink(memfd);
    if fd::identity(memfd.raw())?.size < bytes || !sealed {
        return Err(Errno(libc::EINVAL));
    }
    Ok(())
}
