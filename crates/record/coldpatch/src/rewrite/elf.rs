//! Two segments more in a file: one of code, one of frames and the program's headers, which are moved there.
//!
//! ```text
//! old file, in its place ─ pads (R E) ─ headers of segments, table of frames, frames (R) ─ names, headers of sections
//! ```
//! Nothing that was there is moved. What is new lies as far from the file's begin as from where that is loaded: old
//! kernels tell programs the place of the headers of segments by that alone (Linux before 5.18: `load_addr + e_phoff`).

use super::frames::Tables;
use crate::arch::PAGE;
use crate::error::Error;
use object::elf::{
    DF_1_PIE, DT_FLAGS_1, Dyn64, FileHeader64, PF_R, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_INTERP, PT_LOAD,
    PT_PHDR, ProgramHeader64, SHF_ALLOC, SHF_EXECINSTR, SHN_LORESERVE, SHT_PROGBITS, SHT_STRTAB,
    SectionFlags, SectionHeader64,
};
use object::pod::bytes_of;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, U16, U32, U64};
use std::path::Path;

type File = FileHeader64<LittleEndian>;
type Segment = ProgramHeader64<LittleEndian>;
type Section = SectionHeader64<LittleEndian>;

const ENDIAN: LittleEndian = LittleEndian;
/// Behind the last address that a program may have.
pub(crate) const HIGHEST: u64 = 1 << 47;
/// Most bytes between the end of the file and what is added, as there are between its begin in memory and the end of
/// its data: so many zeros are written.
const HOLE_MAX: u64 = 64 << 20;

/// A file that can be added to.
pub(crate) struct Place<'f> {
    file: &'f [u8],
    header: &'f File,
    segments: &'f [Segment],
    sections: &'f [Section],
    /// Where its first byte is loaded, or would be.
    base: u64,
    /// Where code is to be added, in the file.
    offset: u64,
}

/// What is added.
pub(crate) struct Added<'a> {
    /// Places in the file that change, and what is there then.
    pub(crate) edits: &'a [(u64, Vec<u8>)],
    pub(crate) code: &'a [u8],
    /// The frames for the address at which they are loaded.
    pub(crate) frames: &'a dyn Fn(u64) -> Option<Tables>,
}

impl<'f> Place<'f> {
    /// Looks for the place in the program or library `file`, which is called `path`.
    ///
    /// # Errors
    /// It is damaged, static, or has no place.
    pub(crate) fn of(path: &Path, file: &'f [u8]) -> Result<Place<'f>, Error> {
        let damaged = |why: object::Error| Error::damaged(path, why);
        let header = File::parse(file).map_err(damaged)?;
        let segments = header.program_headers(ENDIAN, file).map_err(damaged)?;
        let sections = header.section_headers(ENDIAN, file).map_err(damaged)?;
        let is_short = usize::from(header.e_shnum(ENDIAN)) == sections.len()
            && usize::from(header.e_phnum(ENDIAN)) == segments.len()
            && header.shstrndx(ENDIAN, file).is_ok_and(|names| is_of_names(sections.get(names as usize)));
        if !is_short {
            return Err(Error::damaged(path, "it has too many headers, or none for names"));
        }
        if is_static(segments, file) {
            return Err(Error::Static { path: path.to_owned() });
        }
        let mut place = Place { file, header, segments, sections, base: 0, offset: 0 };
        let (base, end) =
            place.extent().ok_or_else(|| Error::damaged(path, "its segments overlap or are out of order"))?;
        let len = (file.len() as u64).next_multiple_of(PAGE);
        place.base = base;
        place.offset = len.max(end.saturating_sub(base));
        if place.offset - len > HOLE_MAX {
            return Err(Error::NoPlace { path: path.to_owned() });
        }
        Ok(place)
    }

    /// Where the file is loaded, and where its last segment ends, in whole pages; `None` where segments are not in the
    /// order of addresses, outside of memory, or not in whole pages.
    fn extent(&self) -> Option<(u64, u64)> {
        let (mut base, mut end) = (None, 0_u64);
        for segment in self.segments.iter().filter(|segment| segment.p_type(ENDIAN) == PT_LOAD) {
            let begin = segment.p_vaddr(ENDIAN);
            if base.is_none() {
                base = Some(begin.checked_sub(segment.p_offset(ENDIAN))?);
            }
            let last = begin.checked_add(segment.p_memsz(ENDIAN).max(segment.p_filesz(ENDIAN)))?;
            if begin < end || last > HIGHEST {
                return None;
            }
            end = last;
        }
        Some((base.filter(|base| base % PAGE == 0)?, end.next_multiple_of(PAGE)))
    }

    /// Where code is added, as an address.
    pub(crate) fn code_at(&self) -> u64 {
        self.base + self.offset
    }

    /// The address of the file's first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Whether what is at `offset` of the file is loaded at `address`, as code.
    pub(crate) fn is_code(&self, address: u64, offset: u64, len: u64) -> bool {
        self.segments.iter().any(|segment| {
            let into = address.checked_sub(segment.p_vaddr(ENDIAN));
            let fits = into.and_then(|into| Some((into, into.checked_add(len)?)));
            segment.p_type(ENDIAN) == PT_LOAD
                && segment.p_flags(ENDIAN).contains(PF_X)
                && fits.is_some_and(|(into, end)| {
                    end <= segment.p_filesz(ENDIAN)
                        && segment.p_offset(ENDIAN).checked_add(into) == Some(offset)
                })
        })
    }

    /// The file with what is added; `None` when something has no place, or is too large for a header.
    pub(crate) fn add(&self, added: &Added<'_>) -> Option<Vec<u8>> {
        let mut file = self.file.to_vec();
        for (offset, bytes) in added.edits {
            let begin = usize::try_from(*offset).ok()?;
            file.get_mut(begin..begin.checked_add(bytes.len())?)?.copy_from_slice(bytes);
        }
        file.resize(usize::try_from(self.offset).ok()?, 0);
        file.extend_from_slice(added.code);
        let code = Part { at: self.offset, len: added.code.len() as u64, flags: SHF_ALLOC | SHF_EXECINSTR };
        file.resize(file.len().next_multiple_of(PAGE as usize), 0);
        let headers = Part {
            at: file.len() as u64,
            len: (size_of::<Segment>() * (self.segments.len() + 2)) as u64,
            flags: SHF_ALLOC,
        };
        let tables_at = headers.at + headers.len;
        let Tables { bytes: tables, table_bytes } = (added.frames)(self.base + tables_at)?;
        let frames_at = tables_at + table_bytes;
        let table = Part { at: tables_at, len: table_bytes, flags: SHF_ALLOC };
        let frames = Part { at: frames_at, len: tables.len() as u64 - table_bytes, flags: SHF_ALLOC };
        let whole = Part { len: headers.len + tables.len() as u64, ..headers };
        let segments = self.new_segments(&code, &headers, &table, &whole);
        file.extend(segments.iter().flat_map(bytes_of));
        file.extend(tables);
        let mut parts = vec![(mote_probelist::PADS, code)];
        if table.len > 0 {
            parts.extend([(".mote.eh_frame_hdr", table), (".mote.eh_frame", frames)]);
        }
        let (sections, number) = self.add_sections(&mut file, &parts)?;
        let mut header = *self.header;
        header.e_phoff = U64::new(ENDIAN, headers.at);
        header.e_phnum = U16::new(ENDIAN, u16::try_from(segments.len()).ok()?);
        header.e_shoff = U64::new(ENDIAN, sections);
        header.e_shnum = U16::new(ENDIAN, number);
        file.get_mut(..size_of::<File>())?.copy_from_slice(bytes_of(&header));
        Some(file)
    }

    /// The headers of all segments: the new ones behind the last one that is loaded.
    fn new_segments(&self, code: &Part, headers: &Part, table: &Part, whole: &Part) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(self.segments.len() + 2);
        let last = self.segments.iter().rposition(|segment| segment.p_type(ENDIAN) == PT_LOAD);
        for (number, segment) in self.segments.iter().enumerate() {
            let mut segment = *segment;
            match segment.p_type(ENDIAN) {
                PT_PHDR => self.put(&mut segment, headers),
                PT_GNU_EH_FRAME if table.len > 0 => self.put(&mut segment, table),
                _ => {}
            }
            segments.push(segment);
            if Some(number) == last {
                for (part, flags) in [(code, PF_R | PF_X), (whole, PF_R)] {
                    let mut segment = segment;
                    segment.p_flags.set(ENDIAN, flags);
                    segment.p_align.set(ENDIAN, PAGE);
                    self.put(&mut segment, part);
                    segments.push(segment);
                }
            }
        }
        segments
    }

    fn put(&self, segment: &mut Segment, part: &Part) {
        let address = U64::new(ENDIAN, self.base + part.at);
        (segment.p_vaddr, segment.p_paddr) = (address, address);
        segment.p_offset.set(ENDIAN, part.at);
        segment.p_filesz.set(ENDIAN, part.len);
        segment.p_memsz.set(ENDIAN, part.len);
    }

    /// Adds names and headers of sections to the end of the file, and returns where the headers are, and how many.
    fn add_sections(&self, file: &mut Vec<u8>, parts: &[(&str, Part)]) -> Option<(u64, u16)> {
        let mut sections = self.sections.to_vec();
        let strings = self.header.shstrndx(ENDIAN, self.file).ok()? as usize;
        let mut names = sections.get(strings)?.data(ENDIAN, self.file).ok()?.to_vec();
        // The first one is none, and a name of ours is not to be the rest of another.
        if names.last().is_none_or(|last| *last != 0) {
            names.push(0);
        }
        for (name, part) in parts {
            let at = u32::try_from(names.len()).ok()?;
            names.extend_from_slice(name.as_bytes());
            names.push(0);
            sections.push(Section {
                sh_name: U32::new(ENDIAN, at),
                sh_type: U32::new(ENDIAN, SHT_PROGBITS),
                sh_flags: U64::new(ENDIAN, part.flags),
                sh_addr: U64::new(ENDIAN, self.base + part.at),
                sh_offset: U64::new(ENDIAN, part.at),
                sh_size: U64::new(ENDIAN, part.len),
                sh_link: U32::new(ENDIAN, 0),
                sh_info: U32::new(ENDIAN, 0),
                sh_addralign: U64::new(ENDIAN, part.alignment()),
                sh_entsize: U64::new(ENDIAN, 0),
            });
        }
        let own = sections.get_mut(strings)?;
        own.sh_offset.set(ENDIAN, file.len() as u64);
        own.sh_size.set(ENDIAN, names.len() as u64);
        file.extend(names);
        file.resize(file.len().next_multiple_of(size_of::<u64>()), 0);
        let number = u16::try_from(sections.len()).ok().filter(|number| *number < SHN_LORESERVE)?;
        let at = file.len() as u64;
        file.extend(sections.iter().flat_map(bytes_of));
        Some((at, number))
    }
}

/// Whether a section has names, which others can be added to.
fn is_of_names(section: Option<&Section>) -> bool {
    section.is_some_and(|section| section.sh_type.get(ENDIAN) == SHT_STRTAB)
}

/// A part of what is added.
#[derive(Clone, Copy)]
struct Part {
    /// In the file.
    at: u64,
    len: u64,
    flags: SectionFlags,
}

impl Part {
    /// Code begins with its page; tables have words of four bytes.
    fn alignment(&self) -> u64 {
        if self.flags.contains(SHF_EXECINSTR) { PAGE } else { size_of::<u32>() as u64 }
    }
}

/// Whether the dynamic linker does not load it: it has nothing for that one, or is a program without one.
fn is_static(segments: &[Segment], file: &[u8]) -> bool {
    let of = |kind| segments.iter().find(|segment| segment.p_type(ENDIAN) == kind);
    let Some(Ok(Some(dynamic))) = of(PT_DYNAMIC).map(|segment| segment.dynamic(ENDIAN, file)) else {
        return true;
    };
    let is_program =
        |entry: &Dyn64<LittleEndian>| entry.tag(ENDIAN) == DT_FLAGS_1 && entry.val(ENDIAN) & DF_1_PIE.0 != 0;
    of(PT_INTERP).is_none() && dynamic.iter().any(is_program)
}
