//! Binaries that a chosen process has mapped, held by descriptors for as long as the recorder runs.
//!
//! A name that a process has mapped may mean another file here, and may be given to another one at any moment: a probe
//! in the wrong file changes another program's code. So what is read, and what the kernel is told to probe, is
//! `/proc/self/fd/N`, which is the mapped file. The name stays for people.

use mote_symbol::mapped::{FileId, Mapped};
use mote_sys::fd::{self, Fd};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static ALL: Mutex<BTreeMap<PathBuf, (FileId, Fd)>> = Mutex::new(BTreeMap::new());

/// Pins a mapping's file. Returns its name: the process's own where that is the same file here, else one below the
/// process's root. `None` when it cannot be opened as what is mapped.
pub(crate) fn pin(pid: u32, mapped: &Mapped) -> Option<PathBuf> {
    let map = &mapped.map;
    let id = mapped.file?;
    let pinned = id.pin(pid, (map.start, map.end), &map.path).ok()?;
    let identity = fd::identity(pinned.raw()).ok()?;
    let is_same = |data: fs::Metadata| (data.dev(), data.ino()) == (identity.device, identity.inode);
    let name = match fs::metadata(&map.path).is_ok_and(is_same) {
        true => PathBuf::from(&map.path),
        false => PathBuf::from(format!("/proc/{pid}/root{}", map.path)),
    };
    ALL.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), (id, pinned));
    Some(name)
}

/// Where the file of this name is opened.
pub fn opened(name: &Path) -> PathBuf {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(name).map_or_else(|| name.to_owned(), |(_, fd)| format!("/proc/self/fd/{}", fd.raw()).into())
}

/// Which file a pinned one is.
pub fn id(name: &Path) -> Option<FileId> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_opened_whatever_its_name_means_now() {
        let own = std::env::current_exe().expect("known");
        let directory = std::env::temp_dir().join(format!("mote-pinned-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let copy = directory.join("program");
        fs::copy("/bin/sleep", &copy).expect("a copy");
        let mut child = std::process::Command::new(&copy).arg("1000").spawn().expect("it runs");
        let pid = child.id();
        let of = |path: &Path| {
            let all = mote_symbol::mapped::code(pid);
            all.into_iter().find(|mapped| Path::new(&mapped.map.path) == path)
        };
        let mapped = std::iter::repeat_with(|| of(&copy)).find_map(|found| found).expect("it is mapped");
        assert_eq!(pin(pid, &mapped).as_deref(), Some(copy.as_path()));
        let is_copy = |path: &Path| fs::read(path).expect("there") == fs::read("/bin/sleep").expect("there");
        assert!(is_copy(&opened(&copy)));
        // Another file gets the name: the pinned one stays what it was.
        fs::copy(&own, directory.join("other")).expect("a copy");
        fs::rename(directory.join("other"), &copy).expect("renamed");
        assert!(is_copy(&opened(&copy)) && !is_copy(&copy));
        assert_eq!(id(&copy), mapped.file);
        assert_eq!(opened(Path::new("/not/pinned")), Path::new("/not/pinned"));
        let _ = child.kill();
        let _ = child.wait();
        let _ = fs::remove_dir_all(directory);
    }
}
