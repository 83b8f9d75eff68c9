//! Where our code and memory are in a process: what the section `mote_join` of its binaries says. Nothing of a binary
//! is trusted, and of each no more than [`READ_MAX`] is read.

use crate::error::Error;
use mote_layout::join::{JoinRecord, RECORD_BYTES, SECTION, VERSION};
use mote_symbol::mapped::{self, Bounded, Mapped};
use object::Endianness;
use object::elf::{ET_DYN, ET_EXEC, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Most bytes that are read of one file: its headers.
const READ_MAX: u64 = 8 << 20;
/// Most files that are looked into.
const FILES_MAX: usize = 4096;
/// Most copies of mote in a process that are asked.
const POINTS_MAX: usize = 64;
const PAGE_BYTES: u64 = mote_sys::mem::PAGE_BYTES as u64;

/// Code and memory of one copy of mote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JoinPoint {
    /// Where a thread is sent to.
    pub(crate) code: u64,
    /// The words that are shared.
    pub(crate) area: u64,
}

/// All of a process.
pub(crate) fn find(pid: u32, memory: &File, until: Instant) -> Result<Vec<JoinPoint>, Error> {
    let mut points = Vec::new();
    let mut other_version = false;
    for mapped in mapped::code(pid).iter().take(FILES_MAX) {
        if Instant::now() > until || points.len() >= POINTS_MAX {
            break;
        }
        let Some(record) = record_of(pid, mapped, memory) else { continue };
        match record {
            (at, record) if record.version == VERSION => {
                let (code, area) = record.resolve(at);
                points.push(JoinPoint { code, area });
            }
            _ => other_version = true,
        }
    }
    points.sort_unstable();
    points.dedup();
    match points.is_empty() {
        true if other_version => Err(Error::OtherVersion),
        true => Err(Error::NoEvents),
        false => Ok(points),
    }
}

/// The record of the binary that is mapped there, and its address.
fn record_of(pid: u32, mapped: &Mapped, memory: &File) -> Option<(u64, JoinRecord)> {
    let map = &mapped.map;
    let file = mapped.file?.open(pid, (map.start, map.end), &map.path).ok()?;
    let address = address_in(file, map.start, map.offset)?;
    let mut bytes = [0; RECORD_BYTES];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some((address, JoinRecord::from_bytes(bytes)))
}

/// Where the section is in a process that has mapped the code of the file from `offset` at `start`.
fn address_in(file: File, start: u64, offset: u64) -> Option<u64> {
    let data = &Bounded::new(file, READ_MAX);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
        return None;
    }
    let sections = header.sections(endian, data).ok()?;
    let section = sections.section_by_name(endian, SECTION.as_bytes())?.1.sh_addr(endian);
    let segments = header.program_headers(endian, data).ok()?;
    let code = segments.iter().find(|segment| {
        let (from, len) = segment.file_range(endian);
        // Two segments may have parts of the same page.
        let holds = (from & !(PAGE_BYTES - 1)..from.saturating_add(len)).contains(&offset);
        holds && segment.p_type(endian) == PT_LOAD && segment.p_flags(endian).contains(PF_X)
    })?;
    let begin = start.wrapping_sub(offset).wrapping_add(code.p_offset(endian));
    Some(begin.wrapping_sub(code.p_vaddr(endian)).wrapping_add(section))
}
