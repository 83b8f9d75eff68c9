//! What groups of processes are given: their rings, the memory of filters, and the filters themselves.

use super::group_areas::{Faults, GroupAreas};
use super::rings::Rings;
use mote_filter::Maps;
use mote_filter::aggregate::Aggregate;
use mote_ring::Geometry;
use mote_session::layout::Layout;
use mote_session::{GroupId, Make, SendError};
use mote_sys::Errno;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::sealed_memfd;

/// The memory of all groups.
pub(crate) struct GroupMemory {
    rings: Rings,
    /// What groups share beside their rings.
    areas: GroupAreas,
    /// The newest filters.
    bundle: Option<Fd>,
}

impl GroupMemory {
    /// That of no group yet.
    pub(crate) fn new(rings: Rings, areas: GroupAreas) -> GroupMemory {
        GroupMemory { rings, areas, bundle: None }
    }

    /// Makes the rings of a group; false when they cannot be had.
    pub(crate) fn make_rings(&mut self, make: Make) -> bool {
        self.rings.make(make)
    }

    /// Begins to make rings ahead; false when that cannot be.
    pub(crate) fn prepare_rings(&mut self, sizes: Geometry) -> bool {
        self.rings.prepare(sizes)
    }

    /// A group is no more.
    pub(crate) fn drop_group(&mut self, group: GroupId, layout: &Layout) {
        self.rings.forget(group);
        self.areas.end(group, layout);
    }

    /// Makes a file of the newest filters.
    ///
    /// # Errors
    /// Why there is none, for a person.
    pub(crate) fn keep_bundle(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.bundle = None;
        let made = sealed_memfd(c"mote-bundle", bytes.len() as u64);
        let made = made.and_then(|file| fd::write_at(&file, bytes, 0).map(|()| file));
        self.bundle = Some(made.map_err(|why| format!("cannot make a file of filters: {why}"))?);
        Ok(())
    }

    /// Sizes and descriptors of a group's rings, with the memory of filters if that is wanted and there is one.
    ///
    /// # Errors
    /// The group is no more.
    pub(crate) fn rings_of(
        &mut self,
        group: GroupId,
        with_maps: bool,
        layout: &Layout,
    ) -> Result<(Geometry, Vec<i32>), SendError> {
        let channel = self.rings.of(group).ok_or(SendError::Gone)?.clone();
        // When there is no memory for filters that is told with the filters.
        let area = with_maps.then(|| self.areas.of(group, layout).ok()).flatten();
        let maps = area.map(|area| area.memfd().raw());
        Ok((channel.geometry(), std::iter::once(channel.memfd().raw()).chain(maps).collect()))
    }

    /// Descriptors of a group's memory for filters, and of the newest filters.
    ///
    /// # Errors
    /// There is no memory, or no file of filters.
    pub(crate) fn filters_of(&mut self, group: GroupId, layout: &Layout) -> Result<[i32; 2], SendError> {
        let area = self.areas.of(group, layout).map_err(SendError::Memory)?;
        let bundle = self.bundle.as_ref().ok_or(SendError::System(Errno(libc::ENOMEM)))?;
        Ok([area.memfd().raw(), bundle.raw()])
    }

    /// What filters have counted in all groups.
    pub(crate) fn aggregates(&self, maps: &Maps, layout: &Layout) -> Vec<Aggregate> {
        self.areas.aggregates(maps, layout)
    }

    /// The faults that filters had.
    pub(crate) fn faults(&self) -> Faults {
        self.areas.faults()
    }
}
