//! A program or library as a file: how it is loaded, its build id, its functions.

use crate::mapped::Bounded;
use crate::table::Table;
use object::{Object, ObjectSegment, ReadRef};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files up to this many bytes are read whole; of larger ones only what is needed.
const WHOLE_MAX: u64 = 256 << 20;
/// Most bytes that are needed of a larger one: its tables, of which a hostile file may say that they are all of it.
const PARTS_MAX: u64 = 1 << 30;

/// What is needed of a file to name its addresses.
#[derive(Clone, Debug)]
pub struct Image {
    /// Path from which the file was read.
    pub path: PathBuf,
    /// GNU build id in hex; empty when it has none.
    pub build_id: String,
    /// When it was written last; `None` where the file system does not say.
    pub modified: Option<SystemTime>,
    /// Address at which it begins to run; 0 when it does not run by itself.
    pub entry: u64,
    /// The segments that are loaded, by their place in the program headers.
    pub segments: Vec<Segment>,
    /// Its functions by address.
    pub table: Table,
    /// Whether it has debug information itself.
    pub has_dwarf: bool,
    /// The processor that it is for.
    pub machine: object::Architecture,
    /// Name of its separate debug file.
    pub debug_link: Option<String>,
}

/// A part of a file that is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the file.
    pub offset: u64,
    /// At which address of the file's own address space.
    pub address: u64,
    /// Bytes of the segment in the file, which may be fewer than in memory.
    pub len: u64,
    /// True where it holds code.
    pub executable: bool,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no ELF file.
    #[error("{path} is not a program or library (not an ELF file){hint}", path = path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What it may be.
        hint: String,
    },
    /// Its headers lead nowhere: it is cut, or was written by something broken.
    #[error("{path} is damaged: {what}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl Image {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, is no ELF file, or is damaged.
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        with_elf(path, Reading)
    }

    /// The same from bytes, which are called `path`.
    ///
    /// # Errors
    /// They are no ELF file, or damaged.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Image, ImageError> {
        with_bytes(path, bytes, Reading)
    }

    /// The address, in the file's own address space, of what lies at `offset` of the file.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let segments = self.segments.iter();
        // The last page of a segment may be shared with the next one: code goes first.
        let mut holders = segments.filter(|s| offset.checked_sub(s.offset).is_some_and(|into| into < s.len));
        let first = holders.next()?;
        let best = if first.executable { first } else { holders.find(|s| s.executable).unwrap_or(first) };
        Some((offset - best.offset).wrapping_add(best.address))
    }

    /// How far from its own addresses it is loaded in a process that has mapped its code from `offset`, a multiple of
    /// the page size, on at `start`.
    ///
    /// The code need not begin where its page does: other linkers than GNU's put it anywhere in it.
    #[must_use]
    pub fn shift_of_code(&self, start: u64, offset: u64) -> Option<u64> {
        shift_of_code(&self.segments, start, offset)
    }

    /// The place in the file of what is loaded at `address`; `None` when nothing of the file is.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |s: &&Segment| address.checked_sub(s.address).is_some_and(|into| into < s.len);
        self.segments
            .iter()
            .find(holds)
            .map(|segment| (address - segment.address).wrapping_add(segment.offset))
    }
}

/// As [`Image::shift_of_code`], of a file with these segments.
#[must_use]
pub fn shift_of_code(segments: &[Segment], start: u64, offset: u64) -> Option<u64> {
    const PAGE: u64 = mote_sys::mem::PAGE_BYTES as u64;
    let is_it = |s: &&Segment| {
        s.executable && (s.offset & !(PAGE - 1)..s.offset.saturating_add(s.len)).contains(&offset)
    };
    let code = segments.iter().find(is_it)?;
    let begin = start.wrapping_sub(offset).wrapping_add(code.offset);
    Some(begin.wrapping_sub(code.address))
}

/// What is done with a parsed file.
pub trait Visit {
    /// What comes of it.
    type Answer;
    /// Does it; `modified` is when the file was written last.
    ///
    /// # Errors
    /// The file is damaged.
    fn visit<'d, R: ReadRef<'d>>(
        &self,
        path: &Path,
        elf: &object::File<'d, R>,
        modified: Option<SystemTime>,
    ) -> Result<Self::Answer, object::Error>;
}

/// Opens and parses a regular file. Of one of more than 256 MiB only what is needed is read.
///
/// # Errors
/// It cannot be read, is no ELF file, or is damaged.
pub fn with_elf<V: Visit>(path: &Path, visit: V) -> Result<V::Answer, ImageError> {
    let unreadable = |error| ImageError::Unreadable { path: path.to_owned(), error };
    let (mut file, bytes, modified) = open(path).map_err(unreadable)?;
    if bytes > WHOLE_MAX {
        return parse(path, &Bounded::new(file, PARTS_MAX), &visit, modified);
    }
    let mut whole = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    file.by_ref().take(WHOLE_MAX).read_to_end(&mut whole).map_err(unreadable)?;
    parse(path, whole.as_slice(), &visit, modified)
}

/// Parses bytes, which are called `path`.
///
/// # Errors
/// They are no ELF file, or damaged.
pub fn with_bytes<V: Visit>(path: &Path, bytes: &[u8], visit: V) -> Result<V::Answer, ImageError> {
    parse(path, bytes, &visit, None)
}

/// Opens a regular file only: its name is some process's choice, and may be a pipe without a writer.
fn open(path: &Path) -> io::Result<(File, u64, Option<SystemTime>)> {
    let careful = object_open_flags();
    let file = OpenOptions::new().read(true).custom_flags(careful).open(path)?;
    let data = file.metadata()?;
    if data.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !data.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, data.len(), data.modified().ok()))
}

/// `O_NONBLOCK | O_NOCTTY`.
const fn object_open_flags() -> i32 {
    0o4000 | 0o400
}

fn parse<'d, V: Visit>(
    path: &Path,
    data: impl ReadRef<'d>,
    visit: &V,
    modified: Option<SystemTime>,
) -> Result<V::Answer, ImageError> {
    let magic = data.read_bytes_at(0, 4).unwrap_or_default();
    if magic != b"\x7fELF" {
        let hint = match magic {
            [b'#', b'!', ..] => "; it is a script: name its interpreter",
            [] => "; it is empty",
            _ => "",
        };
        return Err(ImageError::NotElf { path: path.to_owned(), hint: hint.to_owned() });
    }
    let damaged =
        |error: object::Error| ImageError::Damaged { path: path.to_owned(), what: error.to_string() };
    let elf = object::File::parse(data).map_err(damaged)?;
    visit.visit(path, &elf, modified).map_err(damaged)
}

struct Reading;

impl Visit for Reading {
    type Answer = Image;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        path: &Path,
        elf: &object::File<'d, R>,
        modified: Option<SystemTime>,
    ) -> Result<Image, object::Error> {
        let link = elf.gnu_debuglink().ok().flatten();
        Ok(Image {
            path: path.to_owned(),
            build_id: build_id(elf),
            modified,
            entry: elf.entry(),
            segments: segments(elf),
            table: Table::read(elf),
            has_dwarf: elf.section_by_name(".debug_info").is_some(),
            machine: elf.architecture(),
            debug_link: link.map(|(name, _)| String::from_utf8_lossy(name).into_owned()),
        })
    }
}

/// The segments of a file that are loaded, by their place in the program headers.
pub fn segments<'d>(elf: &object::File<'d, impl ReadRef<'d>>) -> Vec<Segment> {
    elf.segments().map(|segment| of_segment(&segment)).collect()
}

fn of_segment<'d>(segment: &impl ObjectSegment<'d>) -> Segment {
    let (offset, len) = segment.file_range();
    let executable = match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags.contains(object::elf::PF_X),
        _ => true,
    };
    Segment { offset, address: segment.address(), len, executable }
}

/// Build id of a file in hex; empty without one.
pub fn build_id<'d>(elf: &object::File<'d, impl ReadRef<'d>>) -> String {
    let id = elf.build_id().ok().flatten().unwrap_or_default();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
