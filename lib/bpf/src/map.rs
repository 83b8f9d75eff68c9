//! Shapes of maps: what a program and its verifier know of one.

/// How a map finds its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MapKind {
    /// Values by index, all of them there from the start, zeroed. The key is a `u32`.
    Array = 0,
    /// As `Array`, with a copy for each CPU; programs see that of their CPU.
    PerCpuArray = 1,
    /// Values by key; full when it has `entries` of them.
    Hash = 2,
    /// As `Hash`; when full, entries that were not used for long give way.
    LruHash = 3,
    /// Records in the order in which they were written; `entries` is its bytes, a power of two. No keys.
    RingBuffer = 4,
    /// Programs by index, for `tail_call`; filled from outside only, and all verified in the same environment. The key
    /// is a `u32`, the value too.
    Programs = 5,
}

impl MapKind {
    /// The kind of this number.
    pub const fn new(number: u32) -> Option<MapKind> {
        Some(match number {
            0 => MapKind::Array,
            1 => MapKind::PerCpuArray,
            2 => MapKind::Hash,
            3 => MapKind::LruHash,
            4 => MapKind::RingBuffer,
            5 => MapKind::Programs,
            _ => return None,
        })
    }
}

/// What is known of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MapShape {
    /// How it finds its values.
    pub kind: MapKind,
    /// Bytes of a key; 4 for arrays, 0 for ring buffers.
    pub key_bytes: u32,
    /// Bytes of a value; 0 for ring buffers.
    pub value_bytes: u32,
    /// Most entries; bytes for ring buffers.
    pub entries: u32,
    /// True when programs may not write: constants of an object (`.rodata`).
    pub read_only: bool,
}

/// Most bytes of a key.
pub const KEY_MAX: u32 = 512;
/// Most bytes of a value.
pub const VALUE_MAX: u32 = 64 << 10;
/// Most bytes of all values of a map together.
pub const MAP_MAX: u64 = 1 << 30;

impl MapShape {
    /// Whether a map can have this shape: sizes in bounds, a ring buffer's a power of two and at least a page.
    pub const fn is_sound(&self) -> bool {
        let array = matches!(self.kind, MapKind::Array | MapKind::PerCpuArray);
        let keys = match self.kind {
            MapKind::Array | MapKind::PerCpuArray => self.key_bytes == 4,
            MapKind::Programs => self.key_bytes == 4 && self.value_bytes == 4 && !self.read_only,
            MapKind::Hash | MapKind::LruHash => {
                self.key_bytes > 0 && self.key_bytes <= KEY_MAX && !self.read_only
            }
            MapKind::RingBuffer => {
                return self.key_bytes == 0
                    && self.value_bytes == 0
                    && !self.read_only
                    && self.entries.is_power_of_two()
                    && self.entries >= 4096
                    && self.entries as u64 <= MAP_MAX;
            }
        };
        // An array of one value may be large: it is a section of constants.
        let value_max = if array && self.entries == 1 { MAP_MAX as u32 } else { VALUE_MAX };
        let total = self.entries as u64 * (self.value_bytes as u64 + self.key_bytes as u64);
        keys && self.value_bytes > 0 && self.value_bytes <= value_max && self.entries > 0 && total <= MAP_MAX
    }
}
