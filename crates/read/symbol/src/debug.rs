//! Debug information: where it lies, and how it is read.

use crate::image::{Image, ImageError, Visit, build_id, with_elf};
use crate::table::Table;
use gimli::{EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection, ReadRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// What DWARF is read from: sections in memory.
pub type Reader = EndianArcSlice<RunTimeEndian>;

/// Most bytes of one section of debug information, decompressed.
const SECTION_MAX: u64 = 4 << 30;

/// Where separate debug files are looked for.
#[derive(Clone, Debug)]
pub struct DebugFiles {
    /// Directories with `.build-id/` below them.
    pub dirs: Vec<PathBuf>,
}

impl Default for DebugFiles {
    fn default() -> DebugFiles {
        DebugFiles { dirs: vec![PathBuf::from("/usr/lib/debug")] }
    }
}

impl DebugFiles {
    /// The file with the debug information of `image` that is not in itself; one of another build is none.
    #[must_use]
    pub fn find(&self, image: &Image) -> Option<PathBuf> {
        let by_id = self.dirs.iter().filter_map(|dir| by_build_id(dir, &image.build_id));
        let mut candidates: Vec<PathBuf> = by_id.collect();
        if let (Some(link), Some(dir)) = (&image.debug_link, image.path.parent()) {
            let name = Path::new(link).file_name()?;
            candidates.push(dir.join(name));
            candidates.push(dir.join(".debug").join(name));
            let absolute = dir.strip_prefix("/").unwrap_or(dir);
            candidates.extend(self.dirs.iter().map(|debug| debug.join(absolute).join(name)));
        }
        candidates.into_iter().find(|path| {
            *path != image.path
                && path.is_file()
                && with_elf(path, BuildId).is_ok_and(|id| id == image.build_id || image.build_id.is_empty())
        })
    }

    fn alternative(&self, of: &Path, name: &[u8], id: &[u8]) -> Option<PathBuf> {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let beside = if name.is_absolute() { Some(name) } else { of.parent().map(|dir| dir.join(name)) };
        let by_id = self.dirs.iter().filter_map(|dir| by_build_id(dir, &hex));
        by_id.chain(beside).find(|path| with_elf(path, BuildId).is_ok_and(|id| id == hex))
    }
}

fn by_build_id(dir: &Path, id: &str) -> Option<PathBuf> {
    let (head, rest) = id.split_at_checked(2)?;
    (!rest.is_empty()).then(|| dir.join(".build-id").join(head).join(format!("{rest}.debug")))
}

struct BuildId;

impl Visit for BuildId {
    type Answer = String;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<String, object::Error> {
        Ok(build_id(elf))
    }
}

/// The debug information in the file at `path`, with that of the file that it shares with others (`dwz`).
///
/// # Errors
/// The file cannot be read, or a section of it.
pub fn dwarf(path: &Path, files: &DebugFiles) -> Result<gimli::Dwarf<Reader>, ImageError> {
    let (mut dwarf, alternative) = with_elf(path, Sections)?;
    if let Some((name, id)) = alternative
        && let Some(path) = files.alternative(path, &name, &id)
        && let Ok((shared, _)) = with_elf(&path, Sections)
    {
        dwarf.set_sup(shared);
    }
    Ok(dwarf)
}

/// The symbols in the separate debug file of `image`; `None` when there is none, or it has them itself.
#[must_use]
pub fn separate_symbols(image: &Image) -> Option<Table> {
    if image.has_dwarf {
        return None;
    }
    table(&DebugFiles::default().find(image)?)
}

/// The functions in the symbol tables of the file at `path`.
pub(crate) fn table(path: &Path) -> Option<Table> {
    with_elf(path, Functions).ok()
}

struct Functions;

impl Visit for Functions {
    type Answer = Table;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<Table, object::Error> {
        Ok(Table::read(elf))
    }
}

struct Sections;

/// Name and build id of the file that holds what several debug files share.
type Alternative = Option<(Vec<u8>, Vec<u8>)>;

impl Visit for Sections {
    type Answer = (gimli::Dwarf<Reader>, Alternative);

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<Self::Answer, object::Error> {
        let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let load = |id: SectionId| -> Result<Reader, object::Error> {
            let bytes = match elf.section_by_name(id.name()).filter(|section| section.size() < SECTION_MAX) {
                Some(section) => Arc::from(section.uncompressed_data()?.as_ref()),
                None => Arc::from(&[][..]),
            };
            Ok(Reader::new(bytes, endian))
        };
        let alternative = elf.gnu_debugaltlink()?.map(|(name, id)| (name.to_vec(), id.to_vec()));
        Ok((gimli::Dwarf::load(load)?, alternative))
    }
}
