//! Directories that the verbs make: what a processor has executed is their maker's alone.

use crate::cmd;
use anyhow::Context;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Makes a directory that only its owner may enter.
///
/// # Errors
/// It is there already, or cannot be made.
pub(super) fn make(folder: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.with_context(|| {
        format!("cannot make {}: give a directory that is not there yet with -o", folder.display())
    })
}

/// Makes the directory of a capture: the one that was asked for, or one by the command's name.
///
/// # Errors
/// As [`make`].
pub(super) fn of_capture(asked: Option<&Path>, command: &[OsString]) -> anyhow::Result<PathBuf> {
    let folder =
        asked.map_or_else(|| cmd::record::default_output(command), |folder| Ok(folder.to_owned()))?;
    make(&folder)?;
    Ok(folder)
}

/// Writes a page that a browser shows.
///
/// # Errors
/// It cannot be written.
pub(super) fn page(path: &Path, html: &str) -> anyhow::Result<()> {
    fs::write(path, html).with_context(|| format!("cannot write {}", path.display()))
}
