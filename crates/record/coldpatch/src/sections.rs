//! Placeholders that stand in sections of their own, or that are NOPs already.
//!
//! | section | what an entry is | source |
//! |---|---|---|
//! | `__patchable_function_entries` | the address of the first NOP of a function | GCC's manual, `-fpatchable-function-entry` |
//! | `__mcount_loc` | the address of a call of `__fentry__`, or of the NOP in its place | GCC's manual, `-mrecord-mcount` |
//! | `xray_instr_map` | 32 bytes: distances to a sled and to its function, from themselves; kind; version | LLVM, compiler-rt, `XRaySledEntry` |
//! | `.note.stapsdt` | a static probe | [`mote_probes::static_probes`] |
//! | `mote_sites` | a site of our own | [`mote_layout::site`] |

use crate::arch;
use crate::binary::Binary;
use crate::names::Names;
use crate::site::{Left, Site, Why};
use mote_layout::parse::{DESCRIPTION_MAX, parse};
use mote_layout::site::{self, Of, SiteRecord};
use mote_probelist::{Kind, Was};

/// Adds them. Those that are in the lists of the program itself come first, then those that are only known by their
/// bytes.
pub(crate) fn add(binary: &Binary<'_>, names: &Names, sites: &mut Vec<Site>, left: &mut Vec<Left>) {
    let known: Vec<u64> = sites.iter().map(|site| site.address).collect();
    let mut found = Adding { binary, sites, left };
    found.own_sites();
    found.static_probes();
    found.sleds();
    found.entries("__patchable_function_entries", Kind::Patchable, |bytes| Some(arch::nops(bytes)));
    let is_call = |address| known.binary_search(&address).is_ok();
    found.mcount_locations(is_call);
    for address in names.addresses() {
        let at = binary.code_at(address).and_then(|code| code.from(address)).and_then(arch::entry_nop);
        if let Some((at, size)) = at {
            found.push(address.wrapping_add(at), size, Kind::Fentry, None);
        }
    }
}

struct Adding<'a, 'd> {
    binary: &'a Binary<'d>,
    sites: &'a mut Vec<Site>,
    left: &'a mut Vec<Left>,
}

impl Adding<'_, '_> {
    fn push(&mut self, address: u64, size: u64, kind: Kind, event: Option<String>) {
        self.sites.push(Site { address, size, kind, was: Was::Nop, event });
    }

    /// Adds the place at `address`, whose size its code says; or notes that there is none.
    fn add(&mut self, address: u64, kind: Kind, event: Option<String>, size: impl Fn(&[u8]) -> Option<u64>) {
        let code = self.binary.code_at(address).and_then(|code| code.from(address));
        match code.and_then(size).filter(|size| *size > 0) {
            Some(size) => self.push(address, size, kind, event),
            None => self.left.push(Left { address, kind, why: Why::Nowhere }),
        }
    }

    /// The entries of a table of addresses.
    fn addresses(&self, section: &str) -> Vec<u64> {
        let Some((begin, bytes)) = self.binary.section(section) else { return Vec::new() };
        let places = (0..bytes.len() / size_of::<u64>()).map(|entry| begin.wrapping_add(8 * entry as u64));
        // What the linker has thrown away is 0.
        places.filter_map(|place| self.binary.address_at(place)).filter(|address| *address != 0).collect()
    }

    fn entries(&mut self, section: &str, kind: Kind, size: impl Fn(&[u8]) -> Option<u64>) {
        for address in self.addresses(section) {
            self.add(address, kind, None, &size);
        }
    }

    /// Calls are known already.
    fn mcount_locations(&mut self, is_call: impl Fn(u64) -> bool) {
        for address in self.addresses("__mcount_loc").into_iter().filter(|address| !is_call(*address)) {
            self.add(address, Kind::Fentry, None, |bytes| Some(arch::nop(bytes)));
        }
    }

    fn sleds(&mut self) {
        /// Bytes of an entry.
        const ENTRY: usize = 32;
        /// From here on distances, before it addresses.
        const RELATIVE: u8 = 2;
        let Some((begin, bytes)) = self.binary.section("xray_instr_map") else { return };
        for (entry, place) in bytes.as_chunks::<ENTRY>().0.iter().zip((begin..).step_by(ENTRY)) {
            let [kind, _, version] = [entry[16], entry[17], entry[18]];
            let word = self.binary.address_at(place).unwrap_or(0);
            let address = if version >= RELATIVE { word.wrapping_add(place) } else { word };
            let kind = match kind {
                0 | 3 => Kind::XrayEntry,
                1 => Kind::XrayExit,
                2 => Kind::XrayTail,
                _ => Kind::XrayEvent,
            };
            self.add(address, kind, None, arch::sled);
        }
    }

    fn static_probes(&mut self) {
        let Some((_, bytes)) = self.binary.section(".note.stapsdt") else { return };
        let base = self.binary.section(".stapsdt.base").map(|(address, _)| address);
        for probe in mote_probes::static_probes(bytes, base) {
            let event = format!("{}:{}", probe.provider, probe.name);
            self.add(probe.address, Kind::Usdt, Some(event), |bytes| Some(arch::nop(bytes)));
        }
    }

    fn own_sites(&mut self) {
        let Some((begin, bytes)) = self.binary.section(site::SECTION) else { return };
        let records = bytes.as_chunks::<{ site::RECORD_BYTES }>().0;
        for (record, at) in records.iter().zip((begin..).step_by(site::RECORD_BYTES)) {
            let record = SiteRecord::from_bytes(*record);
            let addresses = record.resolve(at);
            // Sites that test a byte have no NOP.
            let Some((code, _)) = addresses.code.filter(|_| record.of() != Of::Nothing) else { continue };
            let event = match record.of() {
                Of::Event => self.event(addresses.description),
                _ => None,
            };
            self.add(code, Kind::Mote, event, |bytes| Some(arch::nop(bytes)));
        }
    }

    /// The name of the event whose description is at `address`.
    fn event(&self, address: u64) -> Option<String> {
        let bytes = self.binary.loaded(address)?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        let described = parse(text.get(..text.len().min(DESCRIPTION_MAX))?).ok()?;
        Some(format!("{}:{}", described.provider, described.name))
    }
}
