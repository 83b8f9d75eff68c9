//! What the recorder keeps, so that addresses have names later: the kernel's symbols, the vdso, tables of run-time
//! compilers, mappings of processes with build ids.
//!
//! The recorder writes the bytes into the recording, under the names given here; [`crate::Symbols::read_kept`] reads
//! them.

use crate::kernel::{KernelError, code_symbol};
use crate::mapped::{self, Bounded, FileId, Mapped};
use crate::space::code_map;
use mote_journal::Map;
use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// File of the kernel's symbols.
pub const KALLSYMS: &str = "kallsyms";
/// Name of the file in a recording that the kernel's vdso is written to.
pub const VDSO: &str = "vdso.so";
/// Most bytes that are kept of a run-time compiler's table.
const PERF_MAP_MAX: u64 = 256 << 20;
/// Most bytes that are read of a file to find its build id.
const ID_READ_MAX: u64 = 4 << 20;
/// How long the build ids of one process may take: it waits meanwhile, and so do others. A hundred files take some
/// milliseconds.
const FILLING: Duration = Duration::from_secs(1);

/// The kernel's symbols of code.
///
/// # Errors
/// `/proc/kallsyms` cannot be read, or hides the addresses ([`KernelError`] inside).
pub fn kallsyms() -> io::Result<String> {
    let all = fs::read_to_string("/proc/kallsyms")?;
    let mut kept = String::with_capacity(all.len());
    let mut some = Err(KernelError::Empty);
    for line in all.lines() {
        match code_symbol(line) {
            Some((0, ..)) => some = some.or(Err(KernelError::Hidden)),
            Some(_) => {
                some = Ok(());
                kept.push_str(line);
                kept.push('\n');
            }
            None => {}
        }
    }
    some.map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
    Ok(kept)
}

/// The vdso: all processes of the machine's own bitness have the same.
///
/// # Errors
/// This process has none, or may not read its own memory.
pub fn vdso() -> io::Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let map = maps.lines().filter_map(code_map).find(|map| map.path == "[vdso]");
    let map = map.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no vdso is mapped"))?;
    let mut bytes = vec![0; usize::try_from(map.end - map.start).unwrap_or(0)];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, map.start)?;
    Ok(bytes)
}

/// Name of the file for the table of a run-time compiler in process `pid`.
#[must_use]
pub fn perf_map_name(pid: u32) -> String {
    format!("perf-{pid}.map")
}

/// Name of the file to which a run-time compiler in process `pid` writes its functions, with times.
#[must_use]
pub fn jit_dump_name(pid: u32) -> String {
    format!("jit-{pid}.dump")
}

/// Whether a file is called so, of whatever process: in a container, it has another number.
#[must_use]
pub fn is_jit_dump(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("jit-"));
    name.and_then(|name| name.strip_suffix(".dump")).is_some_and(|pid| pid.parse::<u32>().is_ok())
}

pub(crate) fn pid_of_perf_map(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("perf-")?.strip_suffix(".map")?.parse().ok()
}

/// The table that a run-time compiler in process `pid` has written by now, also in a container; `None` when there is
/// none. Of a process that is gone it counts if it was written after `since`: process ids are used again, and these
/// files are not removed. It has to be the process's own user's: `owner` is the user that had it when the process was
/// seen; without it, of a process that is gone, our own.
///
/// # Cost
/// Reads the file: ask when the process leaves, or the recording ends.
#[must_use]
pub fn perf_map(pid: u32, since: SystemTime, owner: Option<u32>) -> Option<Vec<u8>> {
    let status = mapped::table(&format!("/proc/{pid}/status"));
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let inside = line("NSpid:").and_then(|ids| ids.split_ascii_whitespace().next_back());
    let now = mapped::user(pid);
    let owner = now.or(owner).or_else(|| mapped::user(std::process::id()))?;
    let (root, mounts) = (format!("/proc/{pid}/root"), format!("/proc/{pid}/mountinfo"));
    let inside = inside.map(|own| (root.as_str(), mounts.as_str(), format!("perf-{own}.map")));
    let outside = ("/", "/proc/self/mountinfo", perf_map_name(pid));
    let oldest = if now.is_some() { SystemTime::UNIX_EPOCH } else { since };
    let open = |(root, mounts, name): (&str, &str, String)| {
        mapped::open_temporary(root, mounts, &name, owner).ok().filter(|file| is_young(file, oldest))
    };
    let file = inside.into_iter().chain([outside]).find_map(open)?;
    let mut bytes = Vec::new();
    file.take(PERF_MAP_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= PERF_MAP_MAX).then_some(bytes)
}

fn is_young(file: &File, oldest: SystemTime) -> bool {
    file.metadata().is_ok_and(|data| {
        data.len() <= PERF_MAP_MAX && data.modified().is_ok_and(|modified| modified >= oldest)
    })
}

/// The ids of the processes that run now, as `/proc` has them.
pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The mappings of a process that hold code, without build ids; empty when it has gone or may not be looked at.
#[must_use]
pub fn maps(pid: u32) -> Vec<Map> {
    mapped::code(pid).into_iter().map(|mapped| mapped.map).collect()
}

/// Build ids of files, each read once.
#[derive(Debug, Default)]
pub struct BuildIds(HashMap<(FileId, String), String>);

impl BuildIds {
    /// Puts the build ids into mappings of process `pid`: of the very files that are mapped, also when they were
    /// removed or lie in a container, if the recorder may look. A process that has mapped more than can be read in a
    /// second keeps the others without.
    pub fn fill(&mut self, pid: u32, maps: &mut [Map]) {
        if !maps.iter().any(|map| map.path.starts_with('/')) {
            return;
        }
        let until = Instant::now() + FILLING;
        let files = mapped::code(pid);
        let file_of = |map: &Map| {
            let is_it = |mapped: &&Mapped| mapped.map.start == map.start && mapped.map.path == map.path;
            files.iter().find(is_it)?.file
        };
        for map in maps.iter_mut().filter(|map| map.path.starts_with('/')) {
            // What is mapped no more has no id; another process may have.
            let Some(file) = file_of(map) else { continue };
            let known = self.0.entry((file, map.path.clone()));
            if matches!(known, Entry::Vacant(_)) && Instant::now() > until {
                continue;
            }
            let read = || build_id(file.open(pid, (map.start, map.end), &map.path)?);
            map.build_id.clone_from(known.or_insert_with(|| read().unwrap_or_default()));
        }
    }
}

/// The build id of a file, of which no more than a bound is read.
fn build_id(file: File) -> io::Result<String> {
    let data = Bounded::new(file, ID_READ_MAX);
    let id = match FileKind::parse(&data) {
        Ok(FileKind::Elf64) => id_in::<FileHeader64<Endianness>>(&data),
        Ok(FileKind::Elf32) => id_in::<FileHeader32<Endianness>>(&data),
        _ => None,
    };
    Ok(id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// From the loaded notes, or from a section that is not loaded.
fn id_in<H: FileHeader<Endian = Endianness>>(data: &Bounded) -> Option<Vec<u8>> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let found = |mut notes: NoteIterator<'_, H>| {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    };
    let segments = header.program_headers(endian, data).ok()?;
    let loaded = segments.iter().filter_map(|segment| segment.notes(endian, data).ok()?).find_map(found);
    loaded.or_else(|| {
        let sections = header.sections(endian, data).ok()?;
        sections.iter().filter_map(|section| section.notes(endian, data).ok()?).find_map(found)
    })
}
