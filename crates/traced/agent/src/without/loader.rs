//! Refuses all filters.

use super::filter::Filter;
use core::ffi::CStr;
use mote_sys::Result;
use mote_sys::fd::Fd;
use mote_wire::bundle::Received;

/// Makes no filters.
pub(crate) struct Loader {
    table: Table,
}

/// A filter, which is never made.
pub(crate) struct Loaded {
    pub(crate) filter: *const Filter,
    pub(crate) is_new: bool,
}

/// Why there is no filter.
pub(crate) struct Refused;

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("this program was built without filters (the feature `filters` of mote)")
    }
}

impl Loader {
    /// With nothing, as it stays.
    pub(crate) const fn new(_session: usize) -> Loader {
        Loader { table: Table }
    }

    /// Nothing is shared with the session.
    pub(crate) fn prepare(&mut self, _: &Received<'_>, _maps: &Fd) -> Result<()> {
        Ok(())
    }

    /// Refuses.
    pub(crate) fn load(
        &mut self,
        _: &Received<'_>,
        _place: u32,
        _description: &CStr,
    ) -> core::result::Result<Loaded, Refused> {
        Err(Refused)
    }

    /// Nothing is shared.
    pub(crate) fn forsake(&self) -> Result<()> {
        Ok(())
    }

    /// Nothing is shared.
    pub(crate) fn go_over(&self, _: &Fd) -> Result<()> {
        Ok(())
    }

    /// Nothing is mapped.
    ///
    /// # Safety
    /// None; as with filters.
    pub(crate) unsafe fn unmap(&mut self) {}

    /// The table of loaded filters.
    pub(crate) fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Nothing is kept for making filters.
    pub(crate) fn close_workshop(&mut self) {}

    /// No filter is.
    pub(crate) fn is_interpreted(&self, _: *const Filter) -> bool {
        false
    }
}

/// The loaded filters: none.
pub(crate) struct Table;

impl Table {
    /// Says that an event leads to `filter`, which is null.
    pub(crate) fn mark(&mut self, _filter: *const Filter) {}

    /// Forgets all marks.
    pub(crate) fn unmark(&mut self) {}

    /// There is nothing to retire.
    pub(crate) fn sweep(&mut self) {}

    /// Nothing is left.
    pub(crate) fn tidy(&mut self) -> bool {
        false
    }
}
