//! Finds the CTF traces of a recording: every directory below it with a file `metadata`.

use crate::problem::OpenError;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the metadata file of a CTF trace.
pub(crate) const METADATA: &str = "metadata";

/// Deepest directory that is searched; LTTng's are six deep.
const DEPTH: usize = 16;

/// How many names of files a message about a directory lists.
const LISTED: usize = 8;

/// A directory with a CTF trace.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) dir: PathBuf,
    /// Its data stream files, by name.
    pub(crate) streams: Vec<PathBuf>,
}

/// All traces in and below `root`, by path. Symbolic links are followed at `root` only, so that a loop is harmless.
///
/// # Errors
/// `root` is no directory, cannot be read, or has no trace.
pub(crate) fn traces(root: &Path) -> Result<Vec<Found>, OpenError> {
    let unreadable = |error| OpenError::Unreadable { path: root.to_owned(), error };
    if !fs::metadata(root).map_err(unreadable)?.is_dir() {
        return Err(OpenError::NotADirectory { path: root.to_owned() });
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    search(root, DEPTH, &mut found, &mut seen).map_err(unreadable)?;
    if found.is_empty() {
        return Err(OpenError::NoTrace { dir: root.to_owned(), has: listing(&seen) });
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(found)
}

fn search(dir: &Path, depth: usize, found: &mut Vec<Found>, seen: &mut BTreeSet<String>) -> io::Result<()> {
    let mut streams = Vec::new();
    let mut is_trace = false;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if seen.len() <= LISTED {
            seen.insert(name.clone());
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // A directory that cannot be read is no reason to hide the others.
            if depth > 0 && !name.starts_with('.') {
                let _ = search(&entry.path(), depth - 1, found, seen);
            }
        } else if name == METADATA {
            is_trace = true;
        } else if !name.starts_with('.') && fs::metadata(entry.path()).is_ok_and(|m| m.is_file()) {
            streams.push(entry.path());
        }
    }
    if is_trace {
        streams.sort();
        found.push(Found { dir: dir.to_owned(), streams });
    }
    Ok(())
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
