//! From the word for a program or library to its file.

use crate::arch;
use crate::error::Wrong;
use crate::pinned;
use std::fs;
use std::path::{Path, PathBuf};

/// Where programs and libraries are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    /// Directories of commands: `PATH`.
    pub commands: Vec<PathBuf>,
    /// Directories of libraries.
    pub libraries: Vec<PathBuf>,
    /// What this process has mapped goes first.
    pub pid: Option<u32>,
}

impl Where {
    /// As this process would: `PATH`, and the directories of ld.so.conf; `pid`, when one is chosen.
    #[must_use]
    pub fn here(pid: Option<u32>) -> Where {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut libraries: Vec<PathBuf> = configured(Path::new("/etc/ld.so.conf"), 0);
        libraries.extend(arch::LIBRARIES.map(PathBuf::from));
        Where { commands: std::env::split_paths(&path).collect(), libraries, pid }
    }

    /// The file that `word` means, as the path that a process has it mapped by.
    pub(crate) fn find(&self, word: &str) -> Result<PathBuf, Wrong> {
        if word.contains('/') {
            // A link names another file; the kernel probes that one, and the same file is the same event.
            return Ok(fs::canonicalize(word).unwrap_or_else(|_| PathBuf::from(word)));
        }
        if let Some(mapped) = self.mapped(word) {
            return Ok(mapped);
        }
        let found = self.command(word).or_else(|| self.library(word));
        let path = found.ok_or_else(|| {
            let process = self.pid.map_or(String::new(), |pid| format!("process {pid} has not loaded it, "));
            Wrong::NoBinary {
                name: word.to_owned(),
                looked: format!("{process}it is not in PATH, and no library is called so"),
            }
        })?;
        Ok(fs::canonicalize(&path).unwrap_or(path))
    }

    fn mapped(&self, word: &str) -> Option<PathBuf> {
        let pid = self.pid?;
        let all = mote_symbol::mapped::code(pid);
        let fitting = all.iter().filter(|mapped| {
            let path = Path::new(&mapped.map.path);
            path.is_absolute() && is_called(path, word)
        });
        fitting.into_iter().find_map(|mapped| pinned::pin(pid, mapped))
    }

    fn command(&self, word: &str) -> Option<PathBuf> {
        self.commands.iter().map(|dir| dir.join(word)).find(|path| path.is_file() && is_elf(path))
    }

    /// `libc` is `libc.so.6`; of several versions the first by name, without one if there is that.
    fn library(&self, word: &str) -> Option<PathBuf> {
        self.libraries.iter().find_map(|dir| {
            let names = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
            let mut fitting: Vec<PathBuf> = names.filter(|path| is_called(path, word)).collect();
            fitting.sort();
            // `libc.so` is a text for the linker.
            fitting.into_iter().find(|path| is_elf(path))
        })
    }
}

/// Whether a file is called `word`, or `word` and `.so` and perhaps a version.
fn is_called(path: &Path, word: &str) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    name == word || name.strip_prefix(word).is_some_and(|rest| rest == ".so" || rest.starts_with(".so."))
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    fs::metadata(path).is_ok_and(|data| data.is_file())
        && fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"\x7fELF"
}

/// The directories in a configuration of ld.so, and in those that it includes (`include DIR/*.conf`).
fn configured(file: &Path, depth: u32) -> Vec<PathBuf> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut dirs = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(pattern) = line.strip_prefix("include ") {
            let dir = Path::new(pattern.trim()).parent().filter(|_| depth < 4);
            let entries = dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten();
            let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
            files.sort();
            dirs.extend(files.iter().flat_map(|file| configured(file, depth + 1)));
        } else if line.starts_with('/') {
            dirs.push(PathBuf::from(line));
        }
    }
    dirs
}
