//! Finds the CTF traces of a recording: every directory below it with a file `metadata`.

use crate::problem::OpenError;
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the metadata file of a CTF trace.
pub(crate) const METADATA: &str = "metadata";

/// Deepest directory that is searched; LTTng's are six deep.
const DEPTH: usize = 16;

/// Directories without a trace that are looked at, and for each trace that is found so many more: LTTng has some above
/// each of a process's.
const BARREN_MAX: usize = 2000;
const BARREN_MORE: usize = 8;
/// Names in such directories.
const NAMES_MAX: usize = 200_000;

/// How many names of files, or of traces, a message about a directory lists.
const LISTED: usize = 8;

/// A directory with a CTF trace.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    /// Its data stream files, by name.
    pub(crate) streams: Vec<PathBuf>,
}

/// All traces in and below `root`, by path. Symbolic links are followed at `root` only, so that a loop is harmless.
/// What is near to `root` is looked at first, and only so much that the answer comes at once.
///
/// # Errors
/// `root` is no directory, cannot be read, has no trace, or has too much else.
pub(crate) fn traces(root: &Path) -> Result<Vec<Found>, OpenError> {
    let unreadable = |error| OpenError::Unreadable { path: root.to_owned(), error };
    if !fs::metadata(root).map_err(unreadable)?.is_dir() {
        return Err(OpenError::NotADirectory { path: root.to_owned() });
    }
    let mut search = Search::default();
    let mut next = VecDeque::from([(root.to_owned(), 0)]);
    while let Some((dir, depth)) = next.pop_front() {
        match search.look(&dir) {
            Ok(below) if depth < DEPTH => next.extend(below.into_iter().map(|dir| (dir, depth + 1))),
            Ok(_) => {}
            Err(error) if depth == 0 => return Err(unreadable(error)),
            // A directory that cannot be read is no reason to hide the others.
            Err(_) => {}
        }
        if search.is_too_much() {
            return Err(OpenError::TooMuch {
                dir: root.to_owned(),
                looked: search.looked,
                found: found_so_far(&search.found),
            });
        }
    }
    let Search { mut found, seen, .. } = search;
    if found.is_empty() {
        return Err(OpenError::NoTrace { dir: root.to_owned(), has: listing(&seen) });
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(found)
}

/// What a search has come to.
#[derive(Debug, Default)]
struct Search {
    found: Vec<Found>,
    /// The first names.
    seen: BTreeSet<String>,
    /// Directories.
    looked: usize,
    /// Names in directories without a trace.
    names: usize,
}

impl Search {
    /// Looks at one directory; returns those in it.
    fn look(&mut self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.looked += 1;
        let (mut below, mut files) = (Vec::new(), Vec::new());
        let mut is_trace = false;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if self.seen.len() <= LISTED {
                self.seen.insert(name.clone());
            }
            self.names += 1;
            if self.names > NAMES_MAX && !is_trace {
                break;
            }
            if entry.file_type()?.is_dir() {
                below.extend((!name.starts_with('.')).then(|| entry.path()));
            } else if name == METADATA {
                is_trace = true;
            } else if !name.starts_with('.') {
                files.push(entry.path());
            }
        }
        if is_trace {
            self.names = self.names.saturating_sub(files.len());
            files.retain(|path| fs::metadata(path).is_ok_and(|file| file.is_file()));
            files.sort();
            self.found.push(Found { dir: dir.to_owned(), streams: files });
        }
        Ok(below)
    }

    fn is_too_much(&self) -> bool {
        let barren = self.looked - self.found.len();
        barren > BARREN_MAX + BARREN_MORE * self.found.len() || self.names > NAMES_MAX
    }
}

/// The traces that were found before there was too much, for a message.
fn found_so_far(found: &[Found]) -> String {
    let dirs: Vec<String> = found.iter().take(LISTED).map(|found| found.dir.display().to_string()).collect();
    match dirs.len() {
        0 => String::new(),
        _ => format!(", for example {}", dirs.join(" or ")),
    }
}

/// What is there instead, for a message.
fn listing(seen: &BTreeSet<String>) -> String {
    if seen.is_empty() {
        return "the directory is empty".to_owned();
    }
    let names: Vec<&str> = seen.iter().take(LISTED).map(String::as_str).collect();
    let more = if seen.len() > LISTED { ", ..." } else { "" };
    format!("there is {}{more}", names.join(", "))
}
