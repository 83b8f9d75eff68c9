//! Why a file cannot be prepared.

use mote_symbol::ImageError;
use std::path::{Path, PathBuf};

/// Why a file cannot be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no ELF file, or damaged.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// It is for another processor.
    #[error("{path} is for another processor ({machine}); placeholders are found in x86-64 code", path = path.display())]
    Machine {
        /// The file.
        path: PathBuf,
        /// The processor that the file is for.
        machine: String,
    },
    /// The linker has not seen it.
    #[error("{path} is not linked; give the program or library that is made of it", path = path.display())]
    NotLinked {
        /// The file.
        path: PathBuf,
    },
    /// It was rewritten before.
    #[error("{path} was rewritten already; rewrite the file that it was made of", path = path.display())]
    Rewritten {
        /// The file.
        path: PathBuf,
    },
    /// Nothing could load what makes probes.
    #[error(
        "{path} is static: its functions cannot be probed; --rewrite is for what the dynamic linker loads",
        path = path.display()
    )]
    Static {
        /// The file.
        path: PathBuf,
    },
    /// There is no place for more.
    #[error("{path} has no place for placeholders: too much lies behind its code in memory", path = path.display())]
    NoPlace {
        /// The file.
        path: PathBuf,
    },
    /// A placeholder cannot be where the list says.
    #[error("the placeholder at {offset:#x} is not in the file; the list is of another file")]
    Outside {
        /// Where it should be in the file.
        offset: u64,
    },
}

impl Error {
    /// The file is damaged, and how.
    pub(crate) fn damaged(path: &Path, what: impl ToString) -> Error {
        Error::Image(ImageError::Damaged { path: path.to_owned(), what: what.to_string() })
    }
}
