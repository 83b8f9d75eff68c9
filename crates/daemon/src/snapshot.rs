//! A snapshot of a flight recorder: what its rings hold now, as a recording beside the recording.
//!
//! The consumer copies the rings first ([`crate::tap::Pipe::snapshot`]); the loop then gives the directories their metadata and journals.

use std::path::{Path, PathBuf};

/// `DIRECTORY.snapshot-NUMBER`: beside it, because readers look for traces in and below a directory.
pub(crate) fn path(directory: &Path, number: u32) -> PathBuf {
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(format!(".snapshot-{number}"));
    directory.with_file_name(name)
}
