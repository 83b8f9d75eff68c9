//! The directory of a recording.
//!
//! ```text
//! DIR/metadata, cpu_0, ...   the trace                DIR/ust/metadata, ...      when there is one of the kernel, too: as LTTng has them,
//! DIR/mote/journal.jsonl     what CTF has no          DIR/mote/journal.jsonl     so that babeltrace2 and Trace Compass find both in DIR
//!                            place for                DIR/kernel/metadata, ...   with a journal of its own
//! ```

use crate::error::Error;
use crate::options::Ctf;
use mote_ctf::model::TraceClass;
use mote_journal::{DIRECTORY, FILE, Fact, Journal};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The directory, made and ready.
pub(crate) struct Directory {
    path: PathBuf,
    /// Where the trace is in it; empty when it is the directory itself.
    inside: &'static str,
    journal: Journal<File>,
    journal_failed: bool,
    made: bool,
    /// It is in a directory of ours.
    is_inner: bool,
    kept: bool,
}

impl Directory {
    /// Makes the directory with its journal, and the one for the trace. An empty directory may be there already.
    pub(crate) fn make(path: &Path, inside: &'static str) -> Result<Directory, Error> {
        let output = |why| Error::Output(path.to_owned(), why);
        let made = match fs::read_dir(path).map(Iterator::count) {
            Ok(0) => false,
            Ok(_) => return Err(Error::Exists(path.to_owned())),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path).map_err(output)?;
                true
            }
            Err(why) => return Err(output(why)),
        };
        let inner = path.join(DIRECTORY);
        fs::create_dir(&inner).map_err(output)?;
        if !inside.is_empty() {
            fs::create_dir(path.join(inside)).map_err(output)?;
        }
        let journal = Journal::new(File::create_new(inner.join(FILE)).map_err(output)?);
        Ok(Directory {
            path: path.to_owned(),
            inside,
            journal,
            journal_failed: false,
            made,
            is_inner: false,
            kept: false,
        })
    }

    /// Makes a directory for another trace of the same recording in this one.
    pub(crate) fn make_inside(&self, name: &str) -> Result<Directory, Error> {
        let mut inner = Directory::make(&self.path.join(name), "")?;
        inner.is_inner = true;
        Ok(inner)
    }

    /// Keeps it: there is something to record. Without this it is removed again.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where metadata and streams are.
    pub(crate) fn trace(&self) -> PathBuf {
        inside(&self.path, self.inside)
    }

    /// Where files are that nobody is to see yet, and the journal.
    pub(crate) fn inner(&self) -> PathBuf {
        self.path.join(DIRECTORY)
    }

    /// Notes a fact. Answers false the first time that the journal cannot be written.
    pub(crate) fn note(&mut self, fact: &Fact) -> bool {
        let failed = self.journal.note(fact).is_err();
        let first = failed && !self.journal_failed;
        self.journal_failed |= failed;
        !first
    }

    /// Gives another directory, which holds streams of the same trace, the metadata and the journal so far, and ends it.
    pub(crate) fn complete(&self, other: &Path, end: &Fact) -> io::Result<()> {
        fs::copy(self.trace().join("metadata"), inside(other, self.inside).join("metadata"))?;
        let journal = other.join(DIRECTORY).join(FILE);
        fs::copy(self.path.join(DIRECTORY).join(FILE), &journal)?;
        Journal::new(File::options().append(true).open(journal)?).note(end)
    }

    /// Replaces the metadata, in one step: whoever reads the directory finds the old or the new.
    pub(crate) fn write_metadata(&self, trace: &TraceClass, format: Ctf) -> Result<(), Error> {
        let text = match format {
            Ctf::V1_8 => mote_ctf::write::tsdl(trace)?,
            Ctf::V2 => mote_ctf::write::json(trace),
        };
        let path = self.trace().join("metadata");
        let new = self.inner().join("metadata.new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|why| {
            let _ = fs::remove_file(&new);
            Error::Output(path, why)
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let _ = fs::remove_dir_all(self.inner());
        if self.inside.is_empty() {
            let _ = fs::remove_file(self.trace().join("metadata"));
        } else {
            let _ = fs::remove_dir_all(self.trace());
        }
        if self.is_inner {
            // Streams may have begun.
            let _ = fs::remove_dir_all(&self.path);
        } else if self.made {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// A directory in `path`, or `path` itself when there is no name.
pub(crate) fn inside(path: &Path, name: &str) -> PathBuf {
    if name.is_empty() { path.to_owned() } else { path.join(name) }
}
