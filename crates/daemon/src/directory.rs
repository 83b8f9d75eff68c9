//! The directory of a recording.

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
    journal: Journal<File>,
    journal_failed: bool,
    made: bool,
    kept: bool,
}

impl Directory {
    /// Makes the directory with its journal. An empty directory may be there already.
    pub(crate) fn make(path: &Path) -> Result<Directory, Error> {
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
        let journal = Journal::new(File::create_new(inner.join(FILE)).map_err(output)?);
        Ok(Directory { path: path.to_owned(), journal, journal_failed: false, made, kept: false })
    }

    /// Keeps it: there is something to record. Without this it is removed again.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
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
        fs::copy(self.path.join("metadata"), other.join("metadata"))?;
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
        let path = self.path.join("metadata");
        let new = self.path.join(DIRECTORY).join("metadata.new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|why| {
            let _ = fs::remove_file(&new);
            Error::Output(path, why)
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(self.path.join(DIRECTORY));
            let _ = fs::remove_file(self.path.join("metadata"));
        }
        if self.made && !self.kept {
            let _ = fs::remove_dir(&self.path);
        }
    }
}
