//! A file, taken apart: its code and where that lies, and what the loader writes into it.

use crate::error::Error;
use mote_symbol::frames;
use object::{
    Architecture, Object, ObjectKind, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable,
    RelocationTarget, SectionKind,
};
use std::path::Path;

/// A file's code, and what else is needed of it.
pub(crate) struct Binary<'d> {
    pub(crate) elf: object::File<'d>,
    /// Sections of code, by address; they do not overlap.
    pub(crate) code: Vec<Code<'d>>,
    /// Address and bytes of what is loaded.
    loaded: Vec<(u64, &'d [u8])>,
    relative: Relative,
    named: Named,
}

/// Places that hold an address of the file when it is loaded, and that address; by place.
type Relative = Vec<(u64, u64)>;
/// Places that hold the address of a function, by its name.
type Named = Vec<(u64, String)>;

/// A section of code.
pub(crate) struct Code<'d> {
    pub(crate) address: u64,
    /// Where it is in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: &'d [u8],
    /// One of the linker's tables of functions of other files.
    pub(crate) is_linkage: bool,
    /// The file is loaded at the addresses that it has: instructions may hold addresses.
    pub(crate) is_fixed: bool,
}

impl<'d> Code<'d> {
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }

    /// The bytes from `address` on; `None` outside of it.
    pub(crate) fn from(&self, address: u64) -> Option<&'d [u8]> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(at..).filter(|bytes| !bytes.is_empty())
    }
}

impl<'d> Binary<'d> {
    /// Takes a file for `processor` apart.
    ///
    /// # Errors
    /// As [`crate::find`].
    pub(crate) fn of(path: &Path, bytes: &'d [u8], processor: Architecture) -> Result<Binary<'d>, Error> {
        let damaged = |why: object::Error| Error::damaged(path, why);
        let elf = object::File::parse(bytes).map_err(damaged)?;
        if elf.architecture() != processor {
            let machine = format!("{:?}", elf.architecture());
            return Err(Error::Machine { path: path.to_owned(), machine });
        }
        let is_fixed = match elf.kind() {
            ObjectKind::Executable => true,
            ObjectKind::Dynamic => false,
            _ => return Err(Error::NotLinked { path: path.to_owned() }),
        };
        let code = code(&elf, is_fixed).map_err(damaged)?;
        if code.is_empty() {
            return Err(Error::damaged(path, "it has no sections of code"));
        }
        if code.iter().zip(code.iter().skip(1)).any(|(one, next)| one.end() > next.address) {
            return Err(Error::damaged(path, "its sections of code overlap"));
        }
        let loaded = elf.segments().filter_map(|segment| Some((segment.address(), segment.data().ok()?)));
        let loaded = loaded.collect();
        let (relative, named) = relocations(&elf, bytes.len());
        Ok(Binary { elf, code, loaded, relative, named })
    }

    /// The bytes that are loaded at `address`, from there on to the end of the segment.
    pub(crate) fn loaded(&self, address: u64) -> Option<&'d [u8]> {
        self.loaded.iter().find_map(|(begin, bytes)| {
            let at = usize::try_from(address.checked_sub(*begin)?).ok()?;
            bytes.get(at..).filter(|bytes| !bytes.is_empty())
        })
    }

    /// The address of the file that is at `place` when it is loaded, in a word.
    pub(crate) fn address_at(&self, place: u64) -> Option<u64> {
        if let Ok(at) = self.relative.binary_search_by_key(&place, |(place, _)| *place) {
            return self.relative.get(at).map(|(_, address)| *address);
        }
        self.loaded(place)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// Places that hold the address of a function, by its name.
    pub(crate) fn named(&self) -> &[(u64, String)] {
        &self.named
    }

    /// The section of code that holds `address`.
    pub(crate) fn code_at(&self, address: u64) -> Option<&Code<'d>> {
        let behind = self.code.partition_point(|code| code.address <= address);
        self.code.get(behind.checked_sub(1)?).filter(|code| address < code.end())
    }

    /// Where the code at `address` is in the file.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        let code = self.code_at(address)?;
        code.offset.checked_add(address - code.address)
    }

    /// Bytes and address of the section with this name.
    pub(crate) fn section(&self, name: &str) -> Option<(u64, &'d [u8])> {
        let section = self.elf.section_by_name(name)?;
        Some((section.address(), section.data().ok()?))
    }

    /// Whether it has a section of this name, whatever that is.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        self.elf.section_by_name(name).is_some()
    }

    /// Where something begins in the code: decoding begins anew at each. In order.
    pub(crate) fn begins(&self, symbols: impl Iterator<Item = u64>) -> Vec<u64> {
        let (address, bytes) = self.section(".eh_frame").unwrap_or_default();
        let frames = frames::read(bytes, address);
        let mut begins: Vec<u64> = symbols.chain(frames.iter().map(|frame| frame.address)).collect();
        begins.sort_unstable();
        begins.dedup();
        begins
    }
}

fn code<'d>(elf: &object::File<'d>, is_fixed: bool) -> Result<Vec<Code<'d>>, object::Error> {
    let mut code = Vec::new();
    for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
        let (name, bytes) = (section.name().unwrap_or_default(), section.data()?);
        let Some((offset, _)) = section.file_range().filter(|_| !bytes.is_empty()) else { continue };
        let is_linkage = name.starts_with(".plt") || name == ".iplt";
        code.push(Code { address: section.address(), offset, bytes, is_linkage, is_fixed });
    }
    code.sort_by_key(|code| code.address);
    Ok(code)
}

/// What the loader writes: addresses of the file, and those of named functions.
fn relocations(elf: &object::File<'_>, bytes: usize) -> (Relative, Named) {
    /// Bytes of a relocation (`Elf64_Rela`).
    const RELOCATION: usize = 24;
    let (mut relative, mut named) = (Vec::new(), Vec::new());
    let symbols = elf.dynamic_symbol_table();
    // Sections of a hostile file may each be all of it.
    let all = elf.dynamic_relocations().into_iter().flatten().take(bytes / RELOCATION);
    for (place, relocation) in all {
        match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols.as_ref().and_then(|table| table.symbol_by_index(index).ok());
                let name = symbol.and_then(|symbol| symbol.name().ok().map(str::to_owned));
                named.extend(name.map(|name| (place, name)));
            }
            _ => relative.push((place, relocation.addend().cast_unsigned())),
        }
    }
    relative.sort_unstable();
    (relative, named)
}
