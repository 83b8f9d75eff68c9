//! What is needed of a file to find its functions and look at their code.

use mote_probelist::PADS;
use mote_symbol::Visit;
use mote_symbol::frames::{self, Frame};
use object::{Architecture, Object, ObjectKind, ObjectSection, ReadRef, SectionFlags, SectionKind};
use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

/// A file, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Binary {
    /// Sections of code, by address.
    pub(crate) code: Vec<Part>,
    /// Other sections that are loaded from the file, by address.
    pub(crate) data: Vec<Part>,
    /// The linker's tables of functions of other files; code without functions of its own.
    pub(crate) linkage: Vec<Range<u64>>,
    pub(crate) frames: Vec<Frame>,
    /// Addresses that the loader writes into memory (`R_X86_64_RELATIVE`).
    pub(crate) relocated: Vec<u64>,
    /// From the first byte that is loaded to the last one.
    pub(crate) extent: Range<u64>,
    /// It is loaded at the addresses that it has in the file.
    pub(crate) is_fixed: bool,
    /// Where a program begins; 0 of most libraries.
    pub(crate) entry: u64,
    /// Where `mote coldpatch` has put placeholders and what it has moved there.
    pub(crate) pads: Option<Pads>,
    /// It has what the compiler of Go leaves.
    pub(crate) is_go: bool,
}

/// The section [`PADS`].
#[derive(Debug)]
pub(crate) struct Pads {
    pub(crate) range: Range<u64>,
    /// Where it is in the file.
    pub(crate) offset: u64,
}

/// A section.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) address: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Part {
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.bytes.len() as u64)
    }

    /// The bytes from `address` on; `None` when it is not in this section.
    pub(crate) fn from(&self, address: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(at..).filter(|bytes| !bytes.is_empty())
    }
}

/// The one of these sections that holds `address`.
pub(crate) fn part_at(parts: &[Part], address: u64) -> Option<&Part> {
    let behind = parts.partition_point(|part| part.address <= address);
    parts.get(behind.checked_sub(1)?).filter(|part| part.range().contains(&address))
}

/// Most bytes of all loaded sections. Those of a file that was built do not overlap; those of a hostile one may each be
/// the whole file.
const LOADED_MAX: u64 = 512 << 20;

/// Reads it; one of another processor has no code.
pub(crate) struct Reading(pub(crate) Architecture);

impl Visit for Reading {
    /// `None` when more than [`LOADED_MAX`] would be loaded.
    type Answer = Option<Binary>;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<Option<Binary>, object::Error> {
        let is_fixed = elf.kind() == ObjectKind::Executable;
        let mut binary = Binary { is_fixed, entry: elf.entry(), ..Binary::default() };
        if elf.architecture() != self.0 {
            return Ok(Some(binary));
        }
        let (mut eh_frame, mut left) = (None, LOADED_MAX);
        for section in elf.sections().filter(is_loaded) {
            let (name, address) = (section.name().unwrap_or_default(), section.address());
            if name == ".eh_frame" {
                eh_frame = Some((address, section.data()?));
            }
            binary.is_go |= matches!(name, ".note.go.buildid" | ".gopclntab");
            if name.starts_with(".plt") || name == ".iplt" {
                binary.linkage.push(address..address.saturating_add(section.size()));
            }
            if name == PADS {
                let range = address..address.saturating_add(section.size());
                binary.linkage.push(range.clone());
                binary.pads = section.file_range().map(|(offset, _)| Pads { range, offset });
            }
            match left.checked_sub(section.size()) {
                Some(rest) => left = rest,
                None => return Ok(None),
            }
            let part = Part { address, bytes: section.data()?.to_vec() };
            if part.bytes.is_empty() {
                continue;
            }
            let end = part.range().end;
            match binary.extent.is_empty() {
                true => binary.extent = address..end,
                false => {
                    binary.extent = binary.extent.start.min(address)..binary.extent.end.max(end);
                }
            }
            match section.kind() {
                SectionKind::Text => binary.code.push(part),
                _ => binary.data.push(part),
            }
        }
        binary.code.sort_by_key(|part| part.address);
        binary.data.sort_by_key(|part| part.address);
        if let Some((address, bytes)) = eh_frame {
            binary.frames = frames::read(bytes, address);
        }
        let relocations = elf.dynamic_relocations().into_iter().flatten();
        binary.relocated = relocations.map(|(_, one)| one.addend().cast_unsigned()).collect();
        Ok(Some(binary))
    }
}

fn is_loaded<'d>(section: &impl ObjectSection<'d>) -> bool {
    let allocated = match section.flags() {
        SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(object::elf::SHF_ALLOC),
        _ => true,
    };
    allocated && !matches!(section.kind(), SectionKind::UninitializedData | SectionKind::UninitializedTls)
}
