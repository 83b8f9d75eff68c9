//! From when on which version of code counts: as notes say it, or by the address spaces that packets name.

use crate::moment::Moment;
use crate::note::KERNEL;
use mote_pt::image::Space;
use std::collections::BTreeMap;

/// From when on each version of code counts.
pub(crate) type Versions = Vec<(Moment, Space)>;

/// Whose address spaces are entered, as packets name them.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    /// From when on which CR3 is of which process.
    entries: Vec<(Moment, u64, i32)>,
    /// The versions of each process, and of the kernel where it is none of them.
    versions: BTreeMap<i32, Versions>,
}

/// The bits of CR3 that are no address: the address space's number (PCID), and, with page table isolation, which of a
/// process's two it is (Linux, arch/x86/mm/pti.c: the program's page table lies behind the kernel's).
const NO_ADDRESS: u64 = 0x1fff;

impl Entries {
    /// From when on which CR3 is of which process, and the versions of each; of the kernel alone, too.
    pub(crate) fn new(entries: Vec<(Moment, u64, i32)>, versions: BTreeMap<i32, Versions>) -> Entries {
        Entries { entries, versions }
    }

    /// All moments from which something counts.
    pub(crate) fn moments(&self) -> impl Iterator<Item = &Moment> {
        let versions = self.versions.values().flatten().map(|(from, _)| from);
        self.entries.iter().map(|(from, ..)| from).chain(versions)
    }

    /// The versions of the process whose address space is entered, when that is reached.
    pub(crate) fn entered(&self, cr3: u64, is_reached: impl Fn(Moment) -> bool) -> Option<&Versions> {
        let find = |bits: u64| {
            let mut of_it = self.entries.iter().filter(move |(_, known, _)| known & !bits == cr3 & !bits);
            // What is known of it first counts before, too.
            let first = of_it.next();
            of_it.filter(|(from, ..)| is_reached(*from)).last().or(first)
        };
        let pid = find(0xfff).or_else(|| find(NO_ADDRESS)).map_or(KERNEL, |(_, _, pid)| *pid);
        self.versions.get(&pid)
    }
}
