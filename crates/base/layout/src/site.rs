//! The records that sites leave in the ELF section `mote_sites`: those of events, and those of the program's own
//! switches, which have no description.
//!
//! All four are offsets relative to their own place, so they need no relocation: neither the dynamic
//! linker nor a reader of the file has work to do.

/// Name of the section; the linker makes `__start_mote_sites` and `__stop_mote_sites` of it.
pub const SECTION: &str = "mote_sites";

/// What an event site leaves in the file: distances to its parts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRecord {
    /// To the 5-byte NOP; 0 when the site tests a byte instead.
    pub code: i32,
    /// To the code that records the event; 0 when the site tests a byte instead.
    pub target: i32,
    /// To the event's state, `mote_agent::Event`, or to that of a switch; 0 in the empty record of each copy of the
    /// library.
    pub event: i32,
    /// To the event's description, NUL-terminated text (`describe`); 0 when this is the site of a switch.
    pub description: i32,
}

/// What a site belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Nothing: the record is there so that the section exists.
    Nothing,
    /// An event.
    Event,
    /// A switch of the program's own.
    Switch,
}

/// Bytes of a record: four distances of 32 bits.
pub const RECORD_BYTES: usize = 16;
const _: () = assert!(size_of::<SiteRecord>() == RECORD_BYTES);

/// Absolute addresses of what a record points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteAddresses {
    /// The 5-byte NOP, and the code to jump to; `None` when the site tests a byte.
    pub code: Option<(u64, u64)>,
    /// Address of the event's state.
    pub event: u64,
    /// Address of the event's description, which ends with a NUL.
    pub description: u64,
}

impl SiteRecord {
    /// What it is the site of.
    pub fn of(&self) -> Of {
        match (self.event, self.description) {
            (0, _) => Of::Nothing,
            (_, 0) => Of::Switch,
            _ => Of::Event,
        }
    }

    /// Reads a record as it lies in memory or in the file.
    pub fn from_bytes(bytes: [u8; RECORD_BYTES]) -> SiteRecord {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = i32::from_le_bytes(*bytes);
        }
        let [code, target, event, description] = words;
        SiteRecord { code, target, event, description }
    }

    /// Resolves the offsets of a record that lies at address `at`.
    pub fn resolve(&self, at: u64) -> SiteAddresses {
        let place =
            |index: u64, offset: i32| at.wrapping_add(4 * index).wrapping_add(i64::from(offset) as u64);
        let patched = self.code != 0 && self.target != 0;
        SiteAddresses {
            code: patched.then(|| (place(0, self.code), place(1, self.target))),
            event: place(2, self.event),
            description: place(3, self.description),
        }
    }
}

/// Byte offset in an event's state of the word that says whether it is on: 0, or one of [`Switch`], and [`PROBED`]
/// and [`STACK`].
pub const SWITCH_OFFSET: usize = 20;

/// In that word: the program has probes of its own at the event, whether it is recorded or not.
pub const PROBED: u32 = 1 << 31;

/// In that word: a session wants stacks with the event.
pub const STACK: u32 = 1 << 30;

/// How an event is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Switch {
    /// All of it is recorded.
    Whole = 1,
    /// A filter in machine code decides.
    Filtered = 2,
    /// A filter decides that is interpreted, because machine code could not be made.
    Interpreted = 3,
}
