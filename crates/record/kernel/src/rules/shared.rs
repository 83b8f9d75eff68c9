//! The memory that a session shares with its processes and with the kernel's programs
//! ([`mote_layout::cooperation::SharedHeader`]).

use crate::Error;
use crate::map::Map;
use mote_filter::maps::flag_offset;
use mote_layout::cooperation::{SHARED_BYTES, SHARED_MAGIC, SHARED_WORDS_AT, SharedHeader, VERSION};
use mote_sys::bpf::mapped::Mapped;
use std::mem::offset_of;
use std::sync::Arc;

/// The memory. Processes write there: what is read is a number and nothing else.
#[derive(Debug)]
pub struct Shared {
    map: Arc<Map>,
    memory: Mapped,
}

impl Shared {
    /// Makes it; no window is open, no flag set.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn create() -> Result<Shared, Error> {
        let failed = |errno| Error::memory("the memory shared with processes", SHARED_BYTES as u64, errno);
        let memory = Mapped::create("mote_shared", SHARED_BYTES as u32).map_err(failed)?;
        let map = Arc::new(memory.map().duplicate().map_err(failed)?);
        memory.store64(offset_of!(SharedHeader, magic), SHARED_MAGIC);
        memory.store32(offset_of!(SharedHeader, version), VERSION);
        Ok(Shared { map, memory })
    }

    /// The map that holds it, for programs that share it.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// The memory as words at byte offsets ([`SharedHeader`]).
    pub fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// How many snapshots rules have asked for.
    pub fn snapshots(&self) -> u64 {
        self.memory.load64(offset_of!(SharedHeader, snapshots))
    }

    /// Process and thread that asked for the last snapshot.
    pub fn snapshot_thread(&self) -> (u32, u32) {
        let both = self.memory.load64(offset_of!(SharedHeader, snapshot_thread));
        ((both >> 32) as u32, both as u32)
    }

    /// Sets the thread that `$target` is.
    pub fn set_target(&self, tid: u32) {
        self.memory.store64(offset_of!(SharedHeader, target), tid.into());
    }

    /// Whether the flag in a slot is set.
    pub fn flag(&self, slot: usize) -> bool {
        self.memory.load64(SHARED_WORDS_AT + flag_offset(slot)) != 0
    }

    /// Opens a window for all threads until then (ns, `CLOCK_MONOTONIC`), or closes it with 0.
    pub fn open_window(&self, until: u64) {
        self.memory.store64(offset_of!(SharedHeader, window_until), until);
    }
}
