//! The two maps of every recording, made: the rings, and the state that programs and recorder share
//! ([`mote_generate::state`]).

use crate::Error;
use mote_generate::state::{ENABLED, LEVELS, Layout, REACH, SLACK};
use mote_ring::{Clock, Geometry, Mode};
use mote_sys::Errno;
pub use mote_sys::bpf::mapped::Mapped;
pub use mote_sys::bpf::{Create, Map, MapType};

/// Sizes of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// log2 of the bytes of a sub-buffer.
    pub sub_bits: u32,
    /// log2 of the sub-buffers of a ring.
    pub count_bits: u32,
    /// Discard or overwrite.
    pub mode: Mode,
}

/// The state that programs and recorder share.
#[derive(Debug)]
pub struct State {
    memory: Mapped,
    layout: Layout,
}

impl State {
    /// Makes it; everything is off, and no thread is followed.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn create(layout: Layout) -> Result<State, Error> {
        let bytes = layout.bytes();
        let memory = Mapped::create("mote_state", bytes)
            .map_err(|errno| Error::memory("the table of threads", bytes.into(), errno))?;
        Ok(State { memory, layout })
    }

    /// The map that holds it, for programs that share it.
    pub fn map(&self) -> &Map {
        self.memory.map()
    }

    /// Its memory, as words at byte offsets ([`mote_generate::state`]).
    pub fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Where scratch, new ids and thread table lie in it.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn enable(&self, generation: u32) {
        self.memory.store64(ENABLED as usize, generation.into());
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.memory.load64(ENABLED as usize) != 0
    }
}

/// The sizes of rings in a map.
///
/// # Errors
/// [`Error::Geometry`], [`Error::Reach`].
pub fn geometry(buffers: Buffers, cpus: u32) -> Result<Geometry, Error> {
    let Buffers { sub_bits, count_bits, mode } = buffers;
    let geometry =
        Geometry { cpus: LEVELS * cpus, shared: 0, sub_bits, count_bits, mode, clock: Clock::Monotonic };
    Geometry { shared: 1, ..geometry }.check().map_err(Error::Geometry)?;
    let bytes = geometry.total_bytes() + u64::from(SLACK);
    if bytes >= REACH {
        let ring = REACH / u64::from(LEVELS * cpus + 1);
        return Err(Error::Reach { bytes, ring: 1 << (ring.max(1).ilog2()) });
    }
    Ok(geometry)
}

/// Makes the rings' map.
///
/// # Errors
/// [`Error::Memory`].
pub fn rings(geometry: &Geometry) -> Result<Map, Error> {
    let bytes = geometry.total_bytes() + u64::from(SLACK);
    let create = Create {
        map_type: MapType::Array,
        key_bytes: 4,
        value_bytes: u32::try_from(bytes).map_err(|_| Error::Reach { bytes, ring: 1 << 20 })?,
        entries: 1,
        flags: mote_sys::bpf::MMAPABLE,
        inner: None,
        name: "mote_rings",
    };
    Map::make(&create).map_err(|errno| Error::memory("the rings", bytes, errno))
}

/// Makes a small array map with these bytes as its element: a table that programs read.
pub(crate) fn table(name: &str, bytes: &[u8]) -> Result<Map, Error> {
    let fail = |errno: Errno| Error::memory("a table", bytes.len() as u64, errno);
    let create = Create {
        map_type: MapType::Array,
        key_bytes: 4,
        value_bytes: bytes.len() as u32,
        entries: 1,
        flags: 0,
        inner: None,
        name,
    };
    let map = Map::make(&create).map_err(fail)?;
    map.update(&[0; 4], bytes).map_err(fail)?;
    Ok(map)
}
