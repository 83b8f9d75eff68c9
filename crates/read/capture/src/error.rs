//! What is wrong with a capture.

use std::io;
use std::path::PathBuf;

/// Why a capture, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}: {why}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The directory has no packets.
    #[error(
        "{path} is no capture of Intel PT, and no recording that has one: it has no file `sideband.jsonl`; make one with \
         `mote pt synth -o DIR -- CMD`, or `mote record --pt`",
        path = path.display()
    )]
    NoCapture {
        /// The directory.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {why}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A capture cannot become a file of perf.
    #[error("cannot write {path}: {why}", path = path.display())]
    NotExported {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file of perf cannot be read.
    #[error("cannot read {path}: {why}", path = path.display())]
    Perf {
        /// The file.
        path: PathBuf,
        /// Why.
        why: mote_perfdata::Error,
    },
    /// A file of perf has no packets.
    #[error("{path}: {why}", path = path.display())]
    NoPt {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file has no packets, and nothing else that could be read.
    #[error("{path} has no PSB packet: it is no trace of Intel PT, or too short a part of one", path = path.display())]
    NoPackets {
        /// The file.
        path: PathBuf,
    },
    /// A line is not what it should be.
    #[error("line {line} of {path} is not understood: {why}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// There is no such stream.
    #[error("the capture has no packets of {wanted}; it has those of {known}")]
    NoStream {
        /// What was asked for.
        wanted: String,
        /// The threads or processors that the capture has, as text.
        known: String,
    },
    /// Reading cannot begin anywhere.
    #[error(
        "{bytes} bytes from offset {offset:#x} on have no PSB, where reading could begin; no processor writes so few"
    )]
    NoPsb {
        /// Where the bytes begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
}
