//! Files that code is of, read once.

use mote_symbol::{Image, PerfMap, Table, collect, separate_symbols};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The files of a capture. All threads and processes that have code of one share it.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Where those are whose paths do not begin at the root: the capture's folder.
    folder: PathBuf,
    known: Mutex<HashMap<Key, Result<Arc<File>, String>>>,
}

/// Bytes that a table of a run-time compiler may have.
const TABLE_MAX: u64 = 256 << 20;

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
        Files { folder, known: Mutex::default() }
    }

    /// A file, whose build id has to be this one; or what is wrong with it.
    pub(crate) fn get(&self, path: &Path, build_id: Option<&str>) -> Result<Arc<File>, String> {
        let mut files = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path.to_owned(), build_id.map(str::to_owned));
        files.entry(key).or_insert_with(|| read(&self.folder.join(path), build_id).map(Arc::new)).clone()
    }

    /// The functions that a process has compiled at run time, where the capture has its compiler's table.
    pub(crate) fn compiled(&self, pid: i32) -> Option<Arc<PerfMap>> {
        let path = self.folder.join(collect::perf_map_name(u32::try_from(pid).ok()?));
        let is_read = fs::metadata(&path).is_ok_and(|data| data.is_file() && data.len() <= TABLE_MAX);
        let bytes = fs::read(&path).ok().filter(|_| is_read && !self.folder.as_os_str().is_empty())?;
        Some(Arc::new(PerfMap::parse(&String::from_utf8_lossy(&bytes))))
    }
}

fn read(path: &Path, wanted: Option<&str>) -> Result<File, String> {
    let bytes = fs::read(path).map_err(|why| format!("code of {} is missing: {why}", path.display()))?;
    let image = Image::from_bytes(path, &bytes).ok();
    let found = image.as_ref().map_or("", |image| image.build_id.as_str());
    if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
        let path = path.display();
        return Err(format!(
            "code of {path} is missing: it is another build now ({found}) than when it was captured ({wanted})"
        ));
    }
    let separate = image.as_ref().and_then(separate_symbols);
    Ok(File { path: path.to_owned(), bytes: bytes.into(), image, separate })
}
