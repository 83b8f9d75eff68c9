//! The code of a file as a process has mapped it. Nothing of the file is trusted.

use mote_symbol::mapped::{Bounded, Mapped};
use object::Endianness;
use object::elf::{ET_DYN, ET_EXEC, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

const PAGE_BYTES: u64 = mote_sys::mem::PAGE_BYTES as u64;

/// Where code of a file lies in a process.
pub(crate) struct Code<'d> {
    /// What is to be added to the file's own addresses.
    pub(crate) bias: u64,
    /// Where it ends in the process.
    pub(crate) end: u64,
    header: &'d FileHeader64<Endianness>,
    data: &'d Bounded,
}

impl<'d> Code<'d> {
    /// The code that is mapped there of the file with this data.
    pub(crate) fn of(data: &'d Bounded, mapped: &Mapped) -> Option<Code<'d>> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
            return None;
        }
        let map = &mapped.map;
        let code = header.program_headers(endian, data).ok()?.iter().find(|segment| {
            let (from, len) = segment.file_range(endian);
            // Two segments may have parts of the same page.
            let holds = (from & !(PAGE_BYTES - 1)..from.saturating_add(len)).contains(&map.offset);
            holds && segment.p_type(endian) == PT_LOAD && segment.p_flags(endian).contains(PF_X)
        })?;
        let begin = map.start.wrapping_sub(map.offset).wrapping_add(code.p_offset(endian));
        let bias = begin.wrapping_sub(code.p_vaddr(endian));
        Some(Code { bias, end: begin.wrapping_add(code.p_memsz(endian)), header, data })
    }

    /// Where a section is in the process.
    pub(crate) fn section(&self, name: &str) -> Option<u64> {
        let endian = self.header.endian().ok()?;
        let sections = self.header.sections(endian, self.data).ok()?;
        let (_, section) = sections.section_by_name(endian, name.as_bytes())?;
        Some(self.bias.wrapping_add(section.sh_addr(endian)))
    }
}
