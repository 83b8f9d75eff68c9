//! A file without symbols and debug information.
//!
//! What is loaded stays where it is, byte for byte: the file up to the end of its last segment. Behind that come the
//! sections that are neither loaded nor about symbols (notes of static probes, for instance), names of sections, and
//! their headers. Sections that are loaded keep their numbers, which dynamic symbols refer to.
//!
//! `object::build` was tried first: it lays the whole file out anew, and knows fewer types of sections.

use crate::error::Error;
use object::elf::{
    FileHeader64, SHF_ALLOC, SHF_INFO_LINK, SHN_LORESERVE, SHT_CREL, SHT_GROUP, SHT_NOBITS, SHT_NULL,
    SHT_REL, SHT_RELA, SHT_STRTAB, SHT_SYMTAB, SHT_SYMTAB_SHNDX, SectionFlags, SectionHeader64,
    SymbolSection,
};
use object::pod::bytes_of;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{LittleEndian, U16, U32, U64};
use std::path::Path;

type Header = SectionHeader64<LittleEndian>;
type File = FileHeader64<LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;

/// How the names of sections begin that are for debuggers.
const FOR_DEBUGGERS: [&[u8]; 6] =
    [b".debug", b".zdebug", b".gdb_index", b".stab", b".gnu.debuglto", b".line"];

/// Leaves out symbols and debug information of the program or library `bytes`, which is called `path`. What the dynamic
/// linker needs stays.
///
/// # Errors
/// It is damaged.
pub fn strip(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let damaged = |why: object::Error| Error::damaged(path, why);
    let file = File::parse(bytes).map_err(damaged)?;
    let sections = file.sections(ENDIAN, bytes).map_err(damaged)?;
    let end = loaded_end(file, bytes).map_err(damaged)?;
    let end = end.ok_or_else(|| Error::damaged(path, "a segment is larger than the file"))?;
    let mut stripped =
        Stripped { bytes: bytes.get(..end).unwrap_or_default().to_vec(), ..Stripped::default() };
    let kept = kept(&sections);
    for (header, is_kept) in sections.iter().zip(&kept) {
        let fits = match is_kept {
            Kept::Yes => {
                stripped.add(header, sections.section_name(ENDIAN, header).unwrap_or_default(), bytes)
            }
            Kept::AsNumber => stripped.add(&empty(), b"", bytes),
            Kept::No => Some(()),
        };
        fits.ok_or_else(|| Error::damaged(path, "a section is not in the file, or several are all of it"))?;
        if *is_kept == Kept::No {
            stripped.numbers.push(0);
        }
    }
    stripped.finish().ok_or_else(|| Error::damaged(path, "it has too many sections"))
}

/// Where what is loaded ends in the file, with the headers of segments; `None` when that is behind the file's end.
fn loaded_end(file: &File, bytes: &[u8]) -> Result<Option<usize>, object::Error> {
    let segments = file.program_headers(ENDIAN, bytes)?;
    let headers = file.e_phoff(ENDIAN).checked_add(size_of_val(segments) as u64);
    let ends = segments.iter().map(|one| one.p_offset(ENDIAN).checked_add(one.p_filesz(ENDIAN)));
    let end = ends.chain([headers, Some(size_of::<File>() as u64)]).max_by_key(|end| end.unwrap_or(u64::MAX));
    Ok(end.flatten().and_then(|end| usize::try_from(end).ok()).filter(|end| *end <= bytes.len()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    /// Only its number, because of those behind it.
    AsNumber,
    No,
}

fn kept(sections: &SectionTable<'_, File>) -> Vec<Kept> {
    let is_loaded = |header: &Header| header.sh_flags(ENDIAN).contains(SHF_ALLOC);
    let last = sections.iter().rposition(is_loaded).unwrap_or(0);
    let of = |(number, header): (usize, &Header)| {
        let name = sections.section_name(ENDIAN, header).unwrap_or_default();
        match number {
            0 => Kept::AsNumber,
            _ if is_loaded(header) || is_wanted(header, name) => Kept::Yes,
            _ if number < last => Kept::AsNumber,
            _ => Kept::No,
        }
    };
    sections.iter().enumerate().map(of).collect()
}

/// Whether a section that is not loaded is about something else than symbols.
fn is_wanted(header: &Header, name: &[u8]) -> bool {
    let of_symbols =
        [SHT_NULL, SHT_SYMTAB, SHT_STRTAB, SHT_SYMTAB_SHNDX, SHT_REL, SHT_RELA, SHT_CREL, SHT_GROUP];
    let is_for_debuggers = FOR_DEBUGGERS.iter().any(|begin| name.starts_with(begin));
    !of_symbols.contains(&header.sh_type(ENDIAN)) && !is_for_debuggers
}

/// A header of nothing.
fn empty() -> Header {
    let (half, word) = (U32::new(ENDIAN, 0), U64::new(ENDIAN, 0));
    Header {
        sh_name: half,
        sh_type: U32::new(ENDIAN, SHT_NULL),
        sh_flags: U64::new(ENDIAN, SectionFlags(0)),
        sh_addr: word,
        sh_offset: word,
        sh_size: word,
        sh_link: half,
        sh_info: half,
        sh_addralign: word,
        sh_entsize: word,
    }
}

/// What the file is made of.
#[derive(Default)]
struct Stripped {
    bytes: Vec<u8>,
    headers: Vec<Header>,
    names: Vec<u8>,
    /// The number that each section of the old file has in the new one; 0 when it is left out.
    numbers: Vec<u32>,
}

impl Stripped {
    /// Adds a section, and its bytes where they are not there. `None` when they are not in the file either, or when
    /// more would come together than the file has.
    fn add(&mut self, header: &Header, name: &[u8], file: &[u8]) -> Option<()> {
        let is_nothing = header.sh_type(ENDIAN) == SHT_NULL;
        self.numbers.push(if is_nothing { 0 } else { u32::try_from(self.headers.len()).ok()? });
        let mut header = *header;
        header.sh_name.set(ENDIAN, self.named(name)?);
        if !is_nothing && header.sh_type(ENDIAN) != SHT_NOBITS {
            let begin = usize::try_from(header.sh_offset(ENDIAN)).ok()?;
            let end = begin.checked_add(usize::try_from(header.sh_size(ENDIAN)).ok()?)?;
            let bytes = file.get(begin..end)?;
            if end > self.bytes.len() {
                let offset = self.append(bytes, header.sh_addralign(ENDIAN), file.len())?;
                header.sh_offset.set(ENDIAN, offset);
            }
        }
        self.headers.push(header);
        Some(())
    }

    /// Where a name is among the names.
    fn named(&mut self, name: &[u8]) -> Option<u32> {
        if self.names.is_empty() {
            self.names.push(0);
        }
        if name.is_empty() {
            return Some(0);
        }
        let at = u32::try_from(self.names.len()).ok()?;
        self.names.extend_from_slice(name);
        self.names.push(0);
        Some(at)
    }

    /// Appends bytes at a multiple of `alignment`, and returns where. `None` when the file becomes longer than `most`
    /// and some padding.
    fn append(&mut self, bytes: &[u8], alignment: u64, most: usize) -> Option<u64> {
        /// More than any section that is not loaded asks for.
        const ALIGNMENT_MAX: u64 = 4096;
        let alignment = usize::try_from(alignment.clamp(1, ALIGNMENT_MAX)).ok()?;
        let at = self.bytes.len().next_multiple_of(alignment);
        if at.checked_add(bytes.len())? > most.checked_add(alignment)? {
            return None;
        }
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(bytes);
        Some(at as u64)
    }

    /// The file; `None` when it has too many sections for its header.
    fn finish(mut self) -> Option<Vec<u8>> {
        self.headers.iter_mut().for_each(|header| renumber(header, &self.numbers));
        let name = self.named(b".shstrtab")?;
        let names = std::mem::take(&mut self.names);
        let offset = self.append(&names, 1, usize::MAX / 2)?;
        let mut header = empty();
        header.sh_name.set(ENDIAN, name);
        header.sh_type.set(ENDIAN, SHT_STRTAB);
        header.sh_offset.set(ENDIAN, offset);
        header.sh_size.set(ENDIAN, names.len() as u64);
        header.sh_addralign.set(ENDIAN, 1);
        self.headers.push(header);
        let count = u16::try_from(self.headers.len()).ok().filter(|count| *count < SHN_LORESERVE)?;
        let table: Vec<u8> = self.headers.iter().flat_map(bytes_of).copied().collect();
        let offset = self.append(&table, size_of::<u64>() as u64, usize::MAX / 2)?;
        let (mut file, _) =
            object::pod::from_bytes::<File>(&self.bytes).ok().map(|(file, rest)| (*file, rest))?;
        file.e_shoff = U64::new(ENDIAN, offset);
        file.e_shnum = U16::new(ENDIAN, count);
        file.e_shstrndx = U16::new(ENDIAN, SymbolSection(count - 1));
        let begin = self.bytes.get_mut(..size_of::<File>())?;
        begin.copy_from_slice(bytes_of(&file));
        Some(self.bytes)
    }
}

/// Has a header refer to the sections by their new numbers.
fn renumber(header: &mut Header, numbers: &[u32]) {
    let number = |old: u32| usize::try_from(old).ok().and_then(|old| numbers.get(old)).copied().unwrap_or(0);
    header.sh_link.set(ENDIAN, number(header.sh_link(ENDIAN)));
    let is_section = header.sh_flags(ENDIAN).contains(SHF_INFO_LINK)
        || [SHT_REL, SHT_RELA].contains(&header.sh_type(ENDIAN));
    if is_section {
        header.sh_info.set(ENDIAN, number(header.sh_info(ENDIAN)));
    }
}
