//! How many instructions an event takes when it is recorded, counted in a file as it was linked.
//!
//! It is the way on which no conditional jump is taken: by a restartable sequence, into a ring that has room, for one
//! session without filters. A debugger cannot step through that (the sequence would begin anew each time), and
//! qemu-user has no such sequences.

use crate::error::Error;
use crate::file;
use mote_pt::insn::{LEN_MAX, Memory, straight};
use object::elf::R_X86_64_RELATIVE;
use object::{Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The instructions of each event of a file, from its site to the return of the function around it, by
/// `provider:name`; the fewest where it has several sites. Events whose way leads out of the file, or that test a byte,
/// are left out.
///
/// # Errors
/// As [`file::read`].
///
/// # Cost
/// Reads the whole file.
pub fn instructions(path: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let carrier = file::read(path)?;
    let bytes = std::fs::read(path).map_err(|error| Error::Unreadable { path: path.to_owned(), error })?;
    let damaged = |error: object::Error| Error::Damaged { path: path.to_owned(), what: error.to_string() };
    let linked = Linked::new(object::File::parse(&*bytes).map_err(damaged)?);
    let mut all = BTreeMap::new();
    for event in &carrier.events {
        let ways = event.sites.iter().filter_map(|site| straight(&linked, site.leads_to?, |_| {}).ok());
        if let Some(fewest) = ways.min() {
            // With the site's own jump.
            all.insert(format!("{}:{}", event.provider, event.name), 1 + u64::from(fewest));
        }
    }
    Ok(all)
}

/// A file as it lies in memory at the addresses that it was linked for.
struct Linked<'f> {
    file: object::File<'f>,
    /// Pointers that the loader writes.
    pointers: HashMap<u64, u64>,
}

impl<'f> Linked<'f> {
    fn new(file: object::File<'f>) -> Linked<'f> {
        let names = file.dynamic_symbol_table();
        let address = |relocation: &object::Relocation| match (relocation.target(), relocation.flags()) {
            (RelocationTarget::Symbol(symbol), _) => {
                let symbol = names.as_ref()?.symbol_by_index(symbol).ok()?;
                symbol.is_definition().then(|| symbol.address().wrapping_add(relocation.addend() as u64))
            }
            (_, RelocationFlags::Elf { r_type: R_X86_64_RELATIVE }) => Some(relocation.addend() as u64),
            _ => None,
        };
        let all = file.dynamic_relocations().into_iter().flatten();
        let pointers = all.filter_map(|(at, relocation)| Some((at, address(&relocation)?))).collect();
        Linked { file, pointers }
    }

    /// The bytes from an address on, to the end of what the file has of the segment.
    fn from(&self, address: u64) -> &'f [u8] {
        let rest = self.file.segments().find_map(|segment| {
            let into = usize::try_from(address.checked_sub(segment.address())?).ok()?;
            segment.data().ok()?.get(into..).filter(|rest| !rest.is_empty())
        });
        rest.unwrap_or_default()
    }
}

impl Memory for Linked<'_> {
    fn code(&self, address: u64, to: &mut [u8; LEN_MAX]) -> usize {
        to.iter_mut().zip(self.from(address)).map(|(to, byte)| *to = *byte).count()
    }

    /// One that the loader does not write is in the file.
    fn pointer(&self, address: u64) -> Option<u64> {
        let known = self.pointers.get(&address).copied();
        let there = || self.from(address).first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        known.or_else(there).filter(|pointer| *pointer != 0)
    }
}
