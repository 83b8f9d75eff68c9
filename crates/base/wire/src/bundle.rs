//! The bundle: all filters of a session, its maps, and what is to become of each event. The session encodes it into a
//! memfd; a process copies it into memory of its own before it looks at it.
//!
//! ```text
//! header    12 words: magic, maps, dispositions, programs, instructions, pool's slots, bytes of a slot, 0,
//!                     pool's offset (2 words), bytes of the maps' memfd that are used (2)
//! maps      8 words each: kind, bytes of a key, of a value, entries, read-only, 0, offset (2)
//! dispositions     1 word each, by event id: place of its program, or one of the words below
//! programs  6 words each: serial number (2), flags, first instruction, how many, 0
//! instructions, 8 bytes each
//! ```
//! Words are little-endian and have 32 bits. A program names maps by their place in the bundle; the session only ever
//! adds maps behind the others, and never moves one.

use crate::words::{Reader, Writer};
use crate::{Error, filter_counters};
use mote_bpf::insn::{INSN_BYTES, Insn};
use mote_bpf::{MapKind, MapShape};
use mote_layout::record::ID_MAX;
use mote_ring::speculation::Sizes;

/// Longest bundle, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;
/// Most maps of a session.
pub const MAPS_MAX: usize = 1024;
/// Most programs of a bundle: each event can have one.
pub const PROGRAMS_MAX: usize = ID_MAX as usize;
/// In place of a map's offset: it is the words that the session shares (`mote_layout::cooperation`), which come with
/// `Cooperate`.
pub const SHARED: u64 = u64::MAX;
/// Maps and the pool begin at multiples of this.
pub const PAGE: u64 = mote_sys::mem::PAGE_BYTES as u64;

const MAGIC: u32 = u32::from_le_bytes(*b"mtb1");
const HEADER_BYTES: usize = 48;
const MAP_BYTES: usize = 32;
const DISPOSITION_BYTES: usize = 4;
const PROGRAM_BYTES: usize = 24;

const UNSAID: u32 = u32::MAX;
const OFF: u32 = u32::MAX - 1;
const UNFILTERED: u32 = u32::MAX - 2;

const KEEP: u32 = 1;

/// What is to become of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// As `Ids` says: on without a filter, or off.
    Unsaid,
    /// The event is off.
    Off,
    /// The event is on, and none of its occurrences is left out.
    Unfiltered,
    /// The event is on, and the program of this place decides about each occurrence.
    Filtered(u32),
}

/// A map, and where it lies in the memfd of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPlace {
    /// Kind of the map, bytes of keys and values, number of entries.
    pub shape: MapShape,
    /// Where it begins, a multiple of [`PAGE`].
    pub offset: u64,
}

/// Where the pool of speculations lies in the memfd of the maps; no slots: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPlace {
    /// Where it begins, a multiple of [`PAGE`].
    pub offset: u64,
    /// How many slots, and their bytes.
    pub sizes: Sizes,
}

impl PoolPlace {
    /// Without slots: the session has no speculation.
    pub const NONE: PoolPlace = PoolPlace { offset: 0, sizes: Sizes { slots: 0, slot_bytes: 4096 } };
}

/// A program; `I` is its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<I> {
    /// The same number is the same program, in all bundles of a session: what a process has loaded it keeps.
    pub serial: u64,
    /// Events at which it has a fault are kept, not dropped.
    pub keeps_on_fault: bool,
    /// Instructions, not verified yet: each process does that for itself.
    pub insns: I,
}

/// A bundle as the session has it.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'a> {
    /// Bytes of the maps' memfd that are used: of counters, pool and maps.
    pub maps_bytes: u64,
    /// Where the pool of speculations lies.
    pub pool: PoolPlace,
    /// All maps of the session so far, by the index that programs name.
    pub maps: &'a [MapPlace],
    /// By event id; [`Disposition::Unsaid`] for those behind the last.
    pub dispositions: &'a [Disposition],
    /// Programs by their place, which [`Disposition::Filtered`] names.
    pub programs: &'a [Program<&'a [Insn]>],
}

impl Bundle<'_> {
    fn insns(&self) -> usize {
        self.programs.iter().map(|program| program.insns.len()).sum()
    }

    /// Bytes of the encoded bundle.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES
            + MAP_BYTES * self.maps.len()
            + DISPOSITION_BYTES * self.dispositions.len()
            + PROGRAM_BYTES * self.programs.len()
            + INSN_BYTES * self.insns()
    }

    /// Encodes it into `buffer`, which has [`Bundle::bytes`] bytes. `None` when it does not fit.
    pub fn encode<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let mut to = Writer::new(buffer);
        let counts = [self.maps.len(), self.dispositions.len(), self.programs.len(), self.insns()];
        to.words(&[MAGIC]);
        to.words(&counts.map(|count| count as u32));
        to.words(&[self.pool.sizes.slots, self.pool.sizes.slot_bytes, 0]);
        to.long(self.pool.offset);
        to.long(self.maps_bytes);
        for MapPlace { shape, offset } in self.maps {
            to.words(&[shape.kind as u32, shape.key_bytes, shape.value_bytes, shape.entries]);
            to.words(&[u32::from(shape.read_only), 0]);
            to.long(*offset);
        }
        for disposition in self.dispositions {
            to.words(&[match disposition {
                Disposition::Unsaid => UNSAID,
                Disposition::Off => OFF,
                Disposition::Unfiltered => UNFILTERED,
                Disposition::Filtered(place) => *place,
            }]);
        }
        let mut first = 0;
        for program in self.programs {
            let flags = if program.keeps_on_fault { KEEP } else { 0 };
            to.long(program.serial);
            to.words(&[flags, first, program.insns.len() as u32, 0]);
            first += program.insns.len() as u32;
        }
        for insn in self.programs.iter().flat_map(|program| program.insns) {
            to.bytes(&insn.to_bytes());
        }
        to.finish()
    }
}

/// A bundle as a process has got it, checked.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Bytes of the maps' memfd that are used.
    pub maps_bytes: u64,
    /// Where the pool of speculations lies.
    pub pool: PoolPlace,
    maps: &'a [[u8; MAP_BYTES]],
    dispositions: &'a [[u8; DISPOSITION_BYTES]],
    programs: &'a [[u8; PROGRAM_BYTES]],
    insns: &'a [[u8; INSN_BYTES]],
}

impl<'a> Received<'a> {
    /// Decodes a bundle. Nothing in it is trusted: what is accepted has sound maps and pool in bounds of `maps_bytes`,
    /// and dispositions and programs whose places exist. Whether maps lie over one another, and whether programs do no
    /// harm, is for others to check.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Version`], [`Error::Value`].
    ///
    /// # Cost
    /// One pass over all but the instructions.
    pub fn decode(bytes: &'a [u8]) -> Result<Received<'a>, Error> {
        let mut from = Reader::new(bytes);
        match from.word()? {
            MAGIC => {}
            other => return Err(Error::Version(other)),
        }
        let [maps, dispositions, programs, insns] = [from.word()?, from.word()?, from.word()?, from.word()?];
        let sizes = Sizes { slots: from.word()?, slot_bytes: from.word()? };
        from.word()?;
        let pool = PoolPlace { offset: from.long()?, sizes };
        let received = Received {
            pool,
            maps_bytes: from.long()?,
            maps: from.chunks(maps)?,
            dispositions: from.chunks(dispositions)?,
            programs: from.chunks(programs)?,
            insns: from.chunks(insns)?,
        };
        if !from.rest().is_empty() {
            return Err(Error::Length);
        }
        if received.is_sound() { Ok(received) } else { Err(Error::Value) }
    }

    fn is_sound(&self) -> bool {
        let pool = self.pool.sizes.slots == 0
            || self.pool.sizes.are_sound() && self.holds(self.pool.offset, self.pool.sizes.bytes() as u64);
        pool && self.maps_bytes >= filter_counters::BYTES as u64
            && self.maps.len() <= MAPS_MAX
            && self.dispositions.len() <= ID_MAX as usize
            && self.programs.len() <= PROGRAMS_MAX
            && self
                .maps
                .iter()
                .all(|words| map(words).is_some_and(|map| map.offset == SHARED || self.holds(map.offset, 1)))
            && self.programs.iter().all(|words| self.insns_of(words).is_some())
            && (0..self.dispositions.len()).all(|id| match self.disposition(id as u32) {
                Disposition::Filtered(place) => (place as usize) < self.programs.len(),
                _ => true,
            })
    }

    /// Whether something may begin there and have so many bytes.
    fn holds(&self, offset: u64, bytes: u64) -> bool {
        let end = offset.checked_add(bytes);
        offset >= filter_counters::BYTES as u64
            && offset.is_multiple_of(PAGE)
            && end.is_some_and(|end| end <= self.maps_bytes)
    }

    /// All maps of the session so far, by the index that programs name.
    pub fn maps(&self) -> impl ExactSizeIterator<Item = MapPlace> + use<'a> {
        const NOTHING: MapPlace = MapPlace {
            shape: MapShape {
                kind: MapKind::Array,
                key_bytes: 4,
                value_bytes: 1,
                entries: 1,
                read_only: true,
            },
            offset: 0,
        };
        // All have been looked at.
        self.maps.iter().map(|words| map(words).unwrap_or(NOTHING))
    }

    /// How many events have a disposition.
    pub fn events(&self) -> u32 {
        self.dispositions.len() as u32
    }

    /// What is to become of an event.
    pub fn disposition(&self, id: u32) -> Disposition {
        match self.dispositions.get(id as usize).map_or(UNSAID, |word| u32::from_le_bytes(*word)) {
            UNSAID => Disposition::Unsaid,
            OFF => Disposition::Off,
            UNFILTERED => Disposition::Unfiltered,
            place => Disposition::Filtered(place),
        }
    }

    /// The program of this place.
    pub fn program(&self, place: u32) -> Option<Program<impl ExactSizeIterator<Item = Insn> + use<'a>>> {
        let words = self.programs.get(place as usize)?;
        let insns = self.insns_of(words)?;
        let mut from = Reader::new(words);
        Some(Program {
            serial: from.long().ok()?,
            keeps_on_fault: from.word().ok()? & KEEP != 0,
            insns: insns.iter().map(|bytes| Insn::from_bytes(*bytes)),
        })
    }

    fn insns_of(&self, program: &[u8; PROGRAM_BYTES]) -> Option<&'a [[u8; INSN_BYTES]]> {
        let mut from = Reader::new(program);
        from.long().ok()?;
        from.word().ok()?;
        let (first, count) = (from.word().ok()? as usize, from.word().ok()? as usize);
        let enough = count > 0 && count <= mote_bpf::environment::INSNS_MAX;
        self.insns.get(first..first.checked_add(count)?).filter(|_| enough)
    }
}

fn map(words: &[u8; MAP_BYTES]) -> Option<MapPlace> {
    let mut from = Reader::new(words);
    let shape = MapShape {
        kind: MapKind::new(from.word().ok()?)?,
        key_bytes: from.word().ok()?,
        value_bytes: from.word().ok()?,
        entries: from.word().ok()?,
        read_only: from.flag().ok()?,
    };
    from.word().ok()?;
    Some(MapPlace { shape, offset: from.long().ok()? }).filter(|_| shape.is_sound())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const AT: u64 = filter_counters::BYTES as u64;
    const SIZES: Sizes = Sizes { slots: 2, slot_bytes: 4096 };
    /// Where the map is: behind the pool.
    const MAP_AT: u64 = AT + (SIZES.bytes() as u64).next_multiple_of(PAGE);

    fn hash() -> MapShape {
        MapShape { kind: MapKind::Hash, key_bytes: 16, value_bytes: 8, entries: 1000, read_only: false }
    }

    fn example(check: impl FnOnce(&Bundle<'_>, Vec<u8>)) {
        let exit = Insn::new(0x95, 0, 0, 0, 0);
        let (short, long) = ([exit], [Insn::new(0xb7, 0, 0, 0, 1), exit]);
        let bundle = Bundle {
            maps_bytes: MAP_AT + PAGE,
            pool: PoolPlace { offset: AT, sizes: SIZES },
            maps: &[MapPlace { shape: hash(), offset: MAP_AT }],
            dispositions: &[
                Disposition::Off,
                Disposition::Filtered(1),
                Disposition::Unsaid,
                Disposition::Unfiltered,
                Disposition::Filtered(0),
            ],
            programs: &[
                Program { serial: 1 << 40, keeps_on_fault: false, insns: &short },
                Program { serial: 2, keeps_on_fault: true, insns: &long },
            ],
        };
        let mut bytes = vec![0; bundle.bytes()];
        let len = bundle.encode(&mut bytes).expect("it fits").len();
        assert_eq!(len, bytes.len());
        check(&bundle, bytes);
    }

    #[test]
    fn bundles_are_read_back() {
        example(|bundle, bytes| {
            let received = Received::decode(&bytes).expect("well formed");
            assert_eq!((received.maps_bytes, received.pool), (bundle.maps_bytes, bundle.pool));
            assert_eq!(received.maps().collect::<Vec<_>>(), bundle.maps);
            let dispositions: Vec<Disposition> =
                (0..received.events()).map(|id| received.disposition(id)).collect();
            assert_eq!(dispositions, bundle.dispositions);
            assert_eq!(received.disposition(77), Disposition::Unsaid);
            for (place, program) in bundle.programs.iter().enumerate() {
                let got = received.program(place as u32).expect("it is there");
                assert_eq!((got.serial, got.keeps_on_fault), (program.serial, program.keeps_on_fault));
                assert_eq!(got.insns.collect::<Vec<_>>(), program.insns);
            }
            assert!(received.program(2).is_none());
        });
    }

    #[test]
    fn cut_and_hostile_bundles_are_refused() {
        example(|_, bytes| {
            for end in 0..bytes.len() {
                assert_eq!(Received::decode(&bytes[..end]).err(), Some(Error::Length));
            }
            // Each word in turn is the largest: what is still accepted stays in bounds.
            for at in (0..bytes.len() - 24).step_by(4) {
                let mut bad = bytes.clone();
                bad[at..at + 4].fill(0xff);
                let Ok(received) = Received::decode(&bad) else { continue };
                for id in 0..received.events() {
                    if let Disposition::Filtered(place) = received.disposition(id) {
                        assert!(received.program(place).is_some());
                    }
                }
                assert!(received.maps().all(|map| map.shape.is_sound() && map.offset < received.maps_bytes));
            }
        });
    }

    #[test]
    fn maps_stay_off_the_counters() {
        for offset in [0, AT - PAGE, AT + 1, AT + 4 * PAGE, !(PAGE - 1)] {
            let maps = [MapPlace { shape: hash(), offset }];
            let bundle = Bundle {
                maps_bytes: AT + 4 * PAGE,
                pool: PoolPlace::NONE,
                maps: &maps,
                dispositions: &[],
                programs: &[],
            };
            let mut bytes = vec![0; bundle.bytes()];
            let bytes = bundle.encode(&mut bytes).expect("it fits");
            assert_eq!(Received::decode(bytes).err(), Some(Error::Value), "{offset}");
        }
    }
}
