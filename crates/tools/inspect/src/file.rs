//! The events of an ELF file: section `mote_sites` and the descriptions that its records lead to.
//!
//! Records are relative to their own place, so nothing has to be relocated: a record that lies at address `a` of the
//! file leads to other addresses of the file. The file is not trusted: every offset is checked, and what is kept of it
//! is bounded by [`TEXT_MAX`].

use crate::arch;
use crate::error::Error;
use crate::event::{Carrier, Event, Site};
use mote_layout::parse::{DESCRIPTION_MAX, parse};
use mote_layout::site::{Of, RECORD_BYTES, SECTION, SiteRecord};
use mote_symbol::mapped::Bounded;
use object::elf::{ET_DYN, ET_EXEC, FileHeader64, PT_LOAD, SHT_NOBITS};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes of descriptions that are read from one file.
const TEXT_MAX: usize = 64 << 20;
/// Most bytes of headers and of the section that are read of one file.
const READ_MAX: u64 = 128 << 20;
/// Most problems that are told of one file.
const PROBLEMS_MAX: usize = 16;

/// What a file carries, and how it is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// Its events.
    pub(crate) carrier: Carrier,
    /// Its loaded segments.
    pub(crate) segments: Vec<Segment>,
}

/// A loaded segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// At which address.
    pub(crate) address: u64,
    /// Bytes in the file.
    pub(crate) len: u64,
}

/// Reads the events of a file. One without events is a carrier of none.
///
/// # Errors
/// The file cannot be read, or is no program or library of this processor, or its headers are damaged.
///
/// # Cost
/// Reads headers, the section and the descriptions; not the rest of the file.
pub fn read(path: &Path) -> Result<Carrier, Error> {
    let unreadable = |error| Error::Unreadable { path: path.to_owned(), error };
    // To open a pipe or a device could wait for ever.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(Error::NotElf(path.to_owned()));
    }
    image(path, &File::open(path).map_err(unreadable)?).map(|image| image.carrier)
}

/// Reads an open file, which is called `path` for people.
pub(crate) fn image(path: &Path, file: &File) -> Result<Image, Error> {
    let unreadable = |error| Error::Unreadable { path: path.to_owned(), error };
    let cache = Bounded::new(file.try_clone().map_err(unreadable)?, READ_MAX);
    check_kind(path, file, &cache)?;
    let damaged = |error: object::Error| Error::Damaged { path: path.to_owned(), what: error.to_string() };
    let header = FileHeader64::<Endianness>::parse(&cache).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    if header.e_machine(endian) != arch::MACHINE || endian != Endianness::Little {
        let machine = format!("machine {}", header.e_machine(endian));
        return Err(Error::Machine { path: path.to_owned(), machine });
    }
    if !matches!(header.e_type(endian), ET_EXEC | ET_DYN) {
        return Err(Error::NotLinked(path.to_owned()));
    }
    let segments: Vec<Segment> = header
        .program_headers(endian, &cache)
        .map_err(damaged)?
        .iter()
        .filter(|header| header.p_type(endian) == PT_LOAD)
        .map(|header| Segment {
            offset: header.p_offset(endian),
            address: header.p_vaddr(endian),
            len: header.p_filesz(endian),
        })
        .collect();
    let sections = header.sections(endian, &cache).map_err(damaged)?;
    let mut reader = Reader::new(path, file, &segments);
    if let Some((_, section)) = sections.section_by_name(endian, SECTION.as_bytes())
        && section.sh_type(endian) != SHT_NOBITS
    {
        let records = section.data(endian, &cache).map_err(damaged)?;
        reader.add_sites(records, section.sh_addr(endian))?;
    }
    let carrier = reader.finish();
    Ok(Image { carrier, segments })
}

/// Says what a file is when it is not a 64-bit ELF file.
fn check_kind<'a>(path: &Path, file: &File, cache: impl ReadRef<'a>) -> Result<(), Error> {
    match FileKind::parse(cache) {
        Ok(FileKind::Elf64) => Ok(()),
        Ok(FileKind::Elf32) => Err(Error::Machine { path: path.to_owned(), machine: "32 bits".to_owned() }),
        _ => match interpreter(file) {
            Some(interpreter) => Err(Error::Script { path: path.to_owned(), interpreter }),
            None => Err(Error::NotElf(path.to_owned())),
        },
    }
}

/// The interpreter of a script, from its first line.
fn interpreter(file: &File) -> Option<String> {
    let mut head = [0; 256];
    let len = file.read_at(&mut head, 0).ok()?;
    let line = head.get(..len)?.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

/// Collects events while it goes through the records.
struct Reader<'a> {
    file: &'a File,
    segments: &'a [Segment],
    carrier: Carrier,
    /// Index of the event of each description's address; `None` for one that cannot be read.
    known: HashMap<u64, Option<usize>>,
    text_bytes: usize,
}

impl<'a> Reader<'a> {
    fn new(path: &Path, file: &'a File, segments: &'a [Segment]) -> Reader<'a> {
        let carrier = Carrier { path: path.to_owned(), events: Vec::new(), problems: Vec::new() };
        Reader { file, segments, carrier, known: HashMap::new(), text_bytes: 0 }
    }

    /// Adds the sites of the records at `address`.
    fn add_sites(&mut self, records: &[u8], address: u64) -> Result<(), Error> {
        for (index, record) in (0..).zip(records.as_chunks::<RECORD_BYTES>().0) {
            let record = SiteRecord::from_bytes(*record);
            if record.of() != Of::Event {
                continue;
            }
            let at = address.wrapping_add(index * RECORD_BYTES as u64);
            let addresses = record.resolve(at);
            let event = match self.known.get(&addresses.description) {
                Some(known) => *known,
                None => self.add_event(addresses.description, at)?,
            };
            if let Some(event) = event.and_then(|event| self.carrier.events.get_mut(event)) {
                let (code, leads_to) = addresses.code.unzip();
                event.sites.push(Site { code, leads_to, event: addresses.event, state: None, filter: None });
            }
        }
        Ok(())
    }

    /// Adds the event whose description lies at `address`, for the record at `record`.
    fn add_event(&mut self, address: u64, record: u64) -> Result<Option<usize>, Error> {
        let found = self.description(address);
        // One that has no end was read as far as one may be.
        self.text_bytes += found.as_ref().map_or(DESCRIPTION_MAX, Vec::len);
        let bytes = found.unwrap_or_default();
        if self.text_bytes > TEXT_MAX {
            let what = format!("more than {} MiB of event descriptions", TEXT_MAX >> 20);
            return Err(Error::Damaged { path: self.carrier.path.clone(), what });
        }
        let event = match parse(&bytes) {
            Ok(read) => {
                self.carrier.events.push(Event::new(&bytes, &read));
                Some(self.carrier.events.len() - 1)
            }
            Err(error) => {
                if self.carrier.problems.len() < PROBLEMS_MAX {
                    self.carrier.problems.push(format!("site record at {record:#x}: {error}"));
                }
                None
            }
        };
        self.known.insert(address, event);
        Ok(event)
    }

    /// The bytes at `address` up to a NUL; `None` when there is none in the segment or in reach.
    fn description(&self, address: u64) -> Option<Vec<u8>> {
        let segment =
            self.segments.iter().find(|s| address.checked_sub(s.address).is_some_and(|into| into < s.len))?;
        let into = address - segment.address;
        let most = (segment.len - into).min(DESCRIPTION_MAX as u64);
        let mut text = Vec::new();
        let mut part = [0; 512];
        while (text.len() as u64) < most {
            let offset = segment.offset.checked_add(into)?.checked_add(text.len() as u64)?;
            let room = usize::try_from(most - text.len() as u64).unwrap_or(usize::MAX).min(part.len());
            let len = self.file.read_at(part.get_mut(..room)?, offset).ok().filter(|len| *len > 0)?;
            let read = part.get(..len)?;
            if let Some(end) = read.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(read.get(..end)?);
                return Some(text);
            }
            text.extend_from_slice(read);
        }
        None
    }

    fn finish(mut self) -> Carrier {
        self.carrier.events.sort_by(|a, b| {
            (&a.provider, &a.name, &a.file, a.line).cmp(&(&b.provider, &b.name, &b.file, b.line))
        });
        self.carrier
    }
}

/// True for a file that begins as ELF files do; for scans, which pass over everything else.
pub(crate) fn is_elf(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF"
}
