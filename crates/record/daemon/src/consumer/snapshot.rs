//! A snapshot of a flight recorder: what its rings hold now, as a recording beside the recording.
//!
//! The consumer copies the rings first ([`crate::consumer::trace::Destination::snapshot`]); the loop then gives the
//! directories their metadata and journals.

use crate::output::folder::Folder;
use std::io;
use std::path::PathBuf;

/// Where snapshots are made: beside the recording, because readers look for traces in and below a directory.
pub(crate) struct Beside {
    /// The recording's directory, as it was given.
    pub(crate) recording: PathBuf,
    /// The directory that it is in.
    pub(crate) parent: Folder,
}

/// The directory of one.
pub(crate) struct Snapshot {
    /// Where it is, for a person.
    pub(crate) path: PathBuf,
    /// Its directory, open.
    pub(crate) folder: Folder,
    /// It is the answer to so many requests of persons.
    pub(crate) persons: u64,
}

impl Beside {
    /// Where the snapshot with this number is: `DIRECTORY.snapshot-NUMBER`.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        let mut name = self.recording.file_name().unwrap_or_default().to_owned();
        name.push(format!(".snapshot-{number}"));
        self.recording.with_file_name(name)
    }

    /// Makes its directory.
    ///
    /// # Errors
    /// As mkdir(2): there may be one already.
    pub(crate) fn make(&self, number: u32, persons: u64) -> io::Result<Snapshot> {
        let path = self.path(number);
        let name = path.file_name().unwrap_or_default();
        Ok(Snapshot { folder: self.parent.make(name)?, path, persons })
    }
}
