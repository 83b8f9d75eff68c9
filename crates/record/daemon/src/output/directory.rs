//! The directory of a recording.
//!
//! ```text
//! one trace                  with the kernel's
//! DIR/metadata, cpu_0, ...   DIR/ust/metadata, ...      metadata and streams
//! DIR/mote/journal.jsonl     DIR/mote/journal.jsonl     what CTF has no place for
//!                            DIR/kernel/metadata, ...   with a journal of its own
//! ```
//! Two traces lie as LTTng's do, so that babeltrace2 and Trace Compass find both in DIR.

use crate::error::Error;
use crate::output::folder::Folder;
use crate::output::owner::User;
use crate::output::packets::Files;
use crate::output::path::{self, Output};
use crate::output::sink::TraceSink;
use crate::output::streams::Streams;
use mote_journal::{DIRECTORY, FILE, Fact, Journal};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The trace of the processes; its directory in a recording that has one of the kernel, too. LTTng calls it so.
pub(crate) const PROCESSES: &str = "ust";

/// Name of the file with the metadata.
const METADATA: &str = "metadata";

/// The directory, made and ready.
pub(crate) struct Directory {
    path: PathBuf,
    parent: Folder,
    /// Its name in `parent`.
    name: OsString,
    folder: Folder,
    /// Where the trace is in it; empty when it is the directory itself.
    inside: &'static str,
    trace: Folder,
    inner: Folder,
    /// Where the streams of the trace go.
    sink: Arc<dyn TraceSink>,
    journal: Journal<File>,
    journal_failed: bool,
    /// Its mode before, if it was there.
    found: Option<u32>,
    /// Directories above it that were made for it.
    above: Vec<Folder>,
    kept: bool,
}

impl Directory {
    /// Makes the directory with its journal, and the one for the trace. An empty directory of our own may be there
    /// already.
    pub(crate) fn make(path: &Path, inside: &'static str, streams: &Streams) -> Result<Directory, Error> {
        Directory::furnish(path.to_owned(), path::make(path)?, (inside, PROCESSES), streams)
    }

    /// Makes a directory for another trace of the same recording in this one.
    pub(crate) fn make_inside(&self, name: &str, streams: &Streams) -> Result<Directory, Error> {
        let path = self.path.join(name);
        let folder = self.folder.make(name).map_err(|why| Error::Output(path.clone(), why))?;
        let (parent, above) = (self.folder.clone(), Vec::new());
        let output = Output { parent, name: name.into(), folder, found: None, above };
        Directory::furnish(path, output, ("", name), streams)
    }

    /// Makes a directory in this one for something that is no trace of events.
    pub(crate) fn make_beside(&self, name: &str) -> Result<Folder, Error> {
        self.folder.make(name).map_err(|why| Error::Output(self.path.join(name), why))
    }

    /// Makes what is in it. The trace is `inside`, and has a name for other places than directories.
    fn furnish(
        path: PathBuf,
        output: Output,
        (inside, trace_name): (&'static str, &str),
        streams: &Streams,
    ) -> Result<Directory, Error> {
        let Output { parent, name, folder, found, above } = output;
        let furnished = || {
            let inner = folder.make(DIRECTORY)?;
            let trace = if inside.is_empty() { folder.clone() } else { folder.make(inside)? };
            let journal = Journal::new(inner.create(FILE)?);
            Ok((trace, inner, journal))
        };
        match furnished() {
            Ok((trace, inner, journal)) => Ok(Directory {
                sink: streams.sink(trace_name, Files { directory: trace.clone(), hidden: inner.clone() }),
                path,
                parent,
                name,
                folder,
                inside,
                trace,
                inner,
                journal,
                journal_failed: false,
                found,
                above,
                kept: false,
            }),
            Err(why) => {
                give_up(&parent, &name, &folder, found);
                Err(Error::Output(path, why))
            }
        }
    }

    /// Keeps it: there is something to record. Without this it is removed again.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Its path, as it was given.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where files are that readers are not to see yet, and the journal.
    pub(crate) fn inner(&self) -> &Folder {
        &self.inner
    }

    /// Where the streams of the trace go.
    pub(crate) fn sink(&self) -> Arc<dyn TraceSink> {
        self.sink.clone()
    }

    /// The directory that it is in.
    pub(crate) fn parent(&self) -> &Folder {
        &self.parent
    }

    /// Gives all of it to a user, with the directories above that were made for it.
    ///
    /// # Errors
    /// As fchown(2).
    pub(crate) fn give(&self, user: User) -> io::Result<()> {
        self.folder.give(user)?;
        self.above.iter().try_for_each(|folder| folder.give_alone(user))
    }

    /// Where it is now, if it was moved while it was recorded.
    pub(crate) fn moved_to(&self) -> Option<PathBuf> {
        let own = self.folder.stat().ok()?;
        let named = std::fs::metadata(&self.path);
        let is_there = named.is_ok_and(|named| (named.dev(), named.ino()) == (own.st_dev, own.st_ino));
        if is_there || own.st_nlink == 0 { None } else { self.folder.path().ok() }
    }

    /// A part of it that was removed, if one was: what is written there cannot be found any more.
    pub(crate) fn removed(&self) -> Option<PathBuf> {
        let is_removed = |folder: &Folder| folder.stat().is_ok_and(|stat| stat.st_nlink == 0);
        let parts = [("", &self.folder), (DIRECTORY, &self.inner), (self.inside, &self.trace)];
        let removed = parts.into_iter().find(|(_, folder)| is_removed(folder))?;
        // Without a slash behind it.
        Some(self.path.join(removed.0).components().collect())
    }

    /// Notes a fact. Returns false the first time that the journal cannot be written.
    pub(crate) fn note(&mut self, fact: &Fact) -> bool {
        let failed = self.journal.note(fact).is_err();
        let first = failed && !self.journal_failed;
        self.journal_failed |= failed;
        !first
    }

    /// Gives another directory, which holds streams of the same trace, the metadata and the journal so far, and ends
    /// it.
    pub(crate) fn complete(&self, other: &Folder, end: &Fact) -> io::Result<()> {
        let trace = inside(other, self.inside)?;
        io::copy(&mut self.trace.read(METADATA)?, &mut trace.create(METADATA)?)?;
        let mut journal = other.open(DIRECTORY)?.create(FILE)?;
        io::copy(&mut self.inner.read(FILE)?, &mut journal)?;
        Journal::new(journal).note(end)
    }

    /// Replaces the metadata, in one step: whoever reads the directory finds the old or the new.
    pub(crate) fn write_metadata(&self, text: &str) -> Result<(), Error> {
        let written = self.inner.replace(&self.trace, METADATA, text.as_bytes());
        written.map_err(|why| Error::Output(self.path.join(self.inside).join(METADATA), why))?;
        self.sink.tell_metadata(text);
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.kept {
            give_up(&self.parent, &self.name, &self.folder, self.found);
        }
    }
}

/// Leaves everything as it was before the directory was made, or found empty.
fn give_up(parent: &Folder, name: &OsString, folder: &Folder, found: Option<u32>) {
    folder.clear();
    match found {
        Some(mode) => folder.restore_mode(mode),
        None => parent.remove_directory(name),
    }
}

/// A directory in `folder`, which is there, or `folder` itself when there is no name.
pub(crate) fn inside(folder: &Folder, name: &str) -> io::Result<Folder> {
    if name.is_empty() { Ok(folder.clone()) } else { folder.open(name) }
}
