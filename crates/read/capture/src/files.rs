//! Files that code is of, read once.

use crate::compiled::{Clocks, Compiled};
use mote_symbol::{Image, Table, separate_symbols};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a capture. All threads and processes that have code of one share it.
///
/// One that is not there any more, or is of another build, is looked for by its build id where perf keeps copies
/// (perf-buildid-cache(1)): so does what `perf archive` has packed on another machine.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Where those are whose paths do not begin at the root: the capture's folder.
    folder: PathBuf,
    /// Where perf keeps copies.
    cache: Option<PathBuf>,
    known: Mutex<HashMap<Key, Result<Arc<File>, String>>>,
    /// What run-time compilers call their functions, by process.
    compiled: Mutex<HashMap<i32, Option<Arc<Compiled>>>>,
    /// By which their times count.
    clocks: Clocks,
}

/// A path, and the build id that is expected.
type Key = (PathBuf, Option<String>);

/// A file with code.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Arc<[u8]>,
    /// What it is as an ELF file, if it is one.
    pub(crate) image: Option<Image>,
    /// Symbols that lie beside it.
    pub(crate) separate: Option<Table>,
}

impl Files {
    /// None was read yet.
    pub(crate) fn of(folder: PathBuf) -> Files {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let of_home = || set("HOME").map(|home| Path::new(&home).join(".debug"));
        let cache = set("PERF_BUILDID_DIR").map(PathBuf::from).or_else(of_home);
        let (known, compiled) = (Mutex::default(), Mutex::default());
        Files { folder, cache, known, compiled, clocks: Clocks::default() }
    }

    /// The same, by whose clocks times of run-time compilers count.
    pub(crate) fn with_clocks(self, clocks: Clocks) -> Files {
        Files { clocks, ..self }
    }

    /// Adds a file that is not on the disk.
    pub(crate) fn add(&self, path: &Path, bytes: Vec<u8>) {
        let file = Arc::new(File::of(path, bytes));
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert((path.to_owned(), None), Ok(file));
    }

    /// A file, whose build id has to be this one; or what is wrong with it.
    pub(crate) fn get(&self, path: &Path, build_id: Option<&str>) -> Result<Arc<File>, String> {
        let mut files = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path.to_owned(), build_id.map(str::to_owned));
        files.entry(key).or_insert_with(|| self.read(path, build_id).map(Arc::new)).clone()
    }

    fn read(&self, path: &Path, build_id: Option<&str>) -> Result<File, String> {
        let found = read(&self.folder.join(path), build_id);
        let copy = || read(&copy(self.cache.as_deref()?, build_id?)?, build_id).ok();
        found.or_else(|why| copy().ok_or(why))
    }

    /// The functions that a process has compiled at run time, where the capture has its compiler's table.
    pub(crate) fn compiled(&self, pid: i32) -> Option<Arc<Compiled>> {
        let id = u32::try_from(pid).ok()?;
        // Without a folder there is no capture that has one.
        let folder = Some(&self.folder).filter(|folder| !folder.as_os_str().is_empty())?;
        let mut all = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || Compiled::read(folder, id, &self.clocks).map(Arc::new);
        all.entry(pid).or_insert_with(read).clone()
    }
}

/// Where perf has a copy of the file with a build id: `.build-id/ab/cdef.../elf`.
fn copy(cache: &Path, build_id: &str) -> Option<PathBuf> {
    let (head, rest) = build_id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(cache.join(".build-id").join(head).join(rest).join("elf"))
}

impl File {
    fn of(path: &Path, bytes: Vec<u8>) -> File {
        let image = Image::from_bytes(path, &bytes).ok();
        let separate = image.as_ref().and_then(separate_symbols);
        File { path: path.to_owned(), bytes: bytes.into(), image, separate }
    }
}

fn read(path: &Path, wanted: Option<&str>) -> Result<File, String> {
    let bytes = fs::read(path).map_err(|why| format!("code of {} is missing: {why}", path.display()))?;
    let file = File::of(path, bytes);
    let found = file.image.as_ref().map_or("", |image| image.build_id.as_str());
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        let path = path.display();
        return Err(format!(
            "code of {path} is missing: it is another build now ({found}) than when it was captured ({wanted})"
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with nothing but a build id.
    fn elf(build_id: [u8; 4]) -> Vec<u8> {
        let mut bytes = crate::elf::file(62, &[], &[]);
        // One program header, PT_NOTE, behind the file's; no sections.
        bytes.truncate(64);
        let (header, note) = (64_u64, 64 + 56);
        bytes[32..40].copy_from_slice(&header.to_le_bytes());
        bytes[40..48].fill(0);
        bytes[56..58].copy_from_slice(&1_u16.to_le_bytes());
        bytes[60..64].fill(0);
        for word in [4 << 32 | 4, note, 0, 0, 20, 20, 4] {
            bytes.extend(u64::to_le_bytes(word));
        }
        // NT_GNU_BUILD_ID of "GNU" (elf(5)).
        bytes.extend([4_u32, 4, 3].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(*b"GNU\0");
        bytes.extend(build_id);
        bytes
    }

    #[test]
    fn what_is_gone_is_found_where_perf_keeps_copies() {
        let folder = tempfile::tempdir().expect("a directory");
        let cache = folder.path().join("cache");
        let beside = cache.join(".build-id/0a/0b0c0d");
        fs::create_dir_all(&beside).expect("a directory");
        fs::write(beside.join("elf"), elf([10, 11, 12, 13])).expect("a file");
        let path = folder.path().join("app");
        fs::write(&path, elf([1, 1, 1, 1])).expect("a file");
        let files = Files { cache: Some(cache), ..Files::default() };
        // Another build is there now.
        let file = files.get(&path, Some("0a0b0c0d")).expect("the copy");
        assert_eq!(file.path, beside.join("elf"));
        assert_eq!(files.get(&path, Some("01010101")).expect("the file").path, path);
        let why = files.get(&path, Some("02020202")).expect_err("nobody has it");
        assert!(why.contains("it is another build now (01010101)"), "{why}");
        assert!(files.get(Path::new("/gone"), Some("0a0b0c0d")).is_ok());
        assert!(files.get(Path::new("/gone"), None).is_err());
    }

    #[test]
    fn a_file_need_not_be_on_the_disk() {
        let files = Files::default();
        files.add(Path::new("kernel"), vec![0x90; 5]);
        assert_eq!(files.get(Path::new("kernel"), None).expect("it").bytes.len(), 5);
    }
}
