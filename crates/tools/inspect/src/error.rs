//! Why something could not be looked at, and what to do.

use std::io;
use std::path::PathBuf;

/// Why something could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such command or file.
    #[error("cannot find {0}: neither a command in PATH, nor a file, nor the id of a process")]
    NotFound(String),
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// A script.
    #[error("{} is a script for {interpreter}, and only compiled programs carry events: list the program that it starts", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// What runs it.
        interpreter: String,
    },
    /// No ELF file.
    #[error("{} is not an ELF file: give a program, a shared library or the id of a process", .0.display())]
    NotElf(PathBuf),
    /// An ELF file that mote cannot be in.
    #[error("{} is an ELF file for {machine}, and mote is for {} only", path.display(), crate::arch::MACHINE_NAME)]
    Machine {
        /// The file.
        path: PathBuf,
        /// The processor that the file is for.
        machine: String,
    },
    /// An ELF file that is not linked.
    #[error("{} is not linked yet: give the program or the shared library that it becomes part of", .0.display())]
    NotLinked(PathBuf),
    /// A broken file.
    #[error("{} is damaged: {what}; build or install it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No such process.
    #[error("there is no process {0}; `mote list` without an argument shows those that carry events")]
    NoProcess(u32),
    /// Not allowed.
    #[error(
        "may not inspect process {0}: it belongs to another user or is protected; run mote as its user or as root"
    )]
    Forbidden(u32),
}

impl Error {
    /// What an error of a file in `/proc/PID` means.
    pub(crate) fn of_process(pid: u32, path: PathBuf, error: io::Error) -> Error {
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::NotFound, _) | (_, Some(libc::ESRCH)) => Error::NoProcess(pid),
            (io::ErrorKind::PermissionDenied, _) => Error::Forbidden(pid),
            _ => Error::Unreadable { path, error },
        }
    }
}
