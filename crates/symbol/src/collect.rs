//! What the recorder keeps, so that addresses have names later: the kernel's symbols, the vdso, tables of run-time compilers,
//! mappings of processes with build ids.
//!
//! The recorder writes the bytes into the recording, under the names given here; [`crate::Symbols::read_kept`] reads them.

use crate::image::{Visit, build_id, with_elf};
use crate::kernel::{KernelError, code_symbol};
use crate::space::code_map;
use mote_journal::Map;
use object::ReadRef;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// File of the kernel's symbols.
pub const KALLSYMS: &str = "kallsyms";
/// File of the vdso.
pub const VDSO: &str = "vdso.so";
/// Most bytes that are kept of a run-time compiler's table.
const PERF_MAP_MAX: u64 = 256 << 20;

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

pub(crate) fn pid_of_perf_map(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_prefix("perf-")?.strip_suffix(".map")?.parse().ok()
}

/// The table that a run-time compiler in process `pid` has written by now, also in a container; `None` when there is none. Of a process that is gone it counts
/// if it was written after `since`: process ids are used again, and nobody removes these files.
///
/// # Cost
/// Reads the file: ask when the process leaves, or the recording ends.
#[must_use]
pub fn perf_map(pid: u32, since: SystemTime) -> Option<Vec<u8>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let own = status.as_ref().ok().and_then(|status| {
        status.lines().find_map(|line| line.strip_prefix("NSpid:")?.split_ascii_whitespace().next_back())
    });
    let inside = own.map(|own| PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{own}.map")));
    let outside = PathBuf::from("/tmp").join(perf_map_name(pid));
    let oldest = if status.is_ok() { SystemTime::UNIX_EPOCH } else { since };
    let path = inside.into_iter().chain([outside]).find(|path| is_small_file(path, oldest))?;
    fs::read(path).ok()
}

fn is_small_file(path: &Path, oldest: SystemTime) -> bool {
    // A link would let a process choose which file a recorder with more rights copies.
    fs::symlink_metadata(path).is_ok_and(|data| {
        let young = data.modified().is_ok_and(|modified| modified >= oldest);
        data.is_file() && data.len() <= PERF_MAP_MAX && young
    })
}

/// The mappings of a process that hold code, without build ids; empty when it has gone or may not be looked at.
#[must_use]
pub fn maps(pid: u32) -> Vec<Map> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(code_map).collect()
}

/// Build ids of files, each read once.
#[derive(Debug, Default)]
pub struct BuildIds(HashMap<String, String>);

impl BuildIds {
    /// Puts the build ids into mappings of process `pid`: of the very files that are mapped, also when they were removed or
    /// lie in a container, if the recorder may look.
    pub fn fill(&mut self, pid: u32, maps: &mut [Map]) {
        for map in maps.iter_mut().filter(|map| map.path.starts_with('/')) {
            let known = self.0.entry(map.path.clone());
            let id = known.or_insert_with(|| {
                let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end));
                read(&mapped).or_else(|| read(Path::new(&map.path))).unwrap_or_default()
            });
            map.build_id.clone_from(id);
        }
    }
}

fn read(path: &Path) -> Option<String> {
    with_elf(path, BuildId).ok()
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
