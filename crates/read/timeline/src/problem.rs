//! What can be wrong with a recording.

use mote_clock::Disorder;
use mote_ctf::{DecodeError, MetadataError, MetadataWarning};
use mote_words::{counted, size};
use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a recording cannot be opened at all.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory or file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file, or something else.
    #[error("{} is not a directory; give the directory that holds the trace", .path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Nothing that looks like a trace.
    #[error("no trace in {}: no file called `metadata` in it or below it; {has}", .dir.display())]
    NoTrace {
        /// Where it was looked for.
        dir: PathBuf,
        /// What is there, in words.
        has: String,
    },
    /// It would take too long to look for traces there.
    #[error(
        "{} is not a recording, and is too large to search ({looked} directories were searched); give the directory of a recording{found}",
        .dir.display()
    )]
    TooMuch {
        /// Where it was looked for.
        dir: PathBuf,
        /// Directories that were looked at.
        looked: usize,
        /// Traces that were found by then, in words.
        found: String,
    },
    /// The metadata of the only trace is broken.
    #[error("cannot understand {}: {error}", .path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: MetadataError,
    },
}

/// Something wrong with a part of a recording; the rest is readable.
#[derive(Debug)]
pub struct Problem {
    /// The file in which it is.
    pub path: PathBuf,
    /// Where in it, in bytes; `None`: as a whole.
    pub offset: Option<u64>,
    /// What is wrong there.
    pub fault: Fault,
    /// Bytes passed over because of it, where known.
    pub skipped: u64,
}

/// What can be wrong with a trace that can be read all the same.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// A packet or event that cannot be decoded.
    #[error("{}", .0.kind)]
    Packet(DecodeError),
    /// The file ends before its last packet does.
    #[error("the file ends inside a packet: {} missing", counted(*.missing, "byte of it is", "bytes of it are"))]
    CutShort {
        /// Bytes that are not there.
        missing: u64,
    },
    /// The file ends inside an event, in a stream whose packets do not tell their size.
    #[error("the file ends inside an event, which is left out")]
    CutEvent,
    /// Times that do not fit into 64 bits of nanoseconds since 1970.
    #[error("times in this packet are too late to show; the year 2262 is shown instead")]
    TimeTooLate,
    /// A packet that would take too much memory.
    #[error("a packet of {} is larger than the limit of {}", size(*.bytes), size(crate::window::MAX_PACKET_BYTES))]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// An event is later than the end of its packet: LTTng before 2.12 wrote such.
    #[error("an event is later than the end of its packet; times in this packet may be wrong")]
    LateEvent,
    /// An event is earlier than the one before it in the stream.
    #[error(
        "an event is earlier than the one before it; events of this stream are shown as they stand in the file"
    )]
    EarlyEvent,
    /// A packet whose end was never written: it was taken from the memory of a program that crashed.
    #[error("a packet has no end, as `lttng-crash` leaves it; the events in it are shown")]
    NoEnd,
    /// A packet with the UUID of another trace.
    #[error("packets have the UUID of another trace; they are read as if they were of this one")]
    ForeignUuid,
    /// Metadata that are odd, and read.
    #[error("{0}")]
    OddMetadata(MetadataWarning),
    /// A packet begins before the one before it, or ends before it begins.
    #[error(
        "packets are not in the order of time; events of this stream are shown as they stand in the file"
    )]
    Disorder,
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// The metadata of one of several traces is broken.
    #[error("the metadata cannot be understood, so this trace is left out: {0}")]
    Metadata(MetadataError),
    /// Clock samples of the journal do not fit together.
    #[error("{0}; later times are less exact")]
    Clock(Disorder),
    /// The journal is of another trace.
    #[error("this journal belongs to another trace, and is not used")]
    ForeignJournal,
    /// Lines of the journal that mean nothing.
    #[error("{} not used: broken, or written by a newer mote", counted(*.lines, "line is", "lines are"))]
    Journal {
        /// How many.
        lines: usize,
    },
}

impl Fault {
    /// Whether all is read in spite of it: a person should know, but nothing is missing.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        use Fault::{Disorder, EarlyEvent, ForeignUuid, LateEvent, NoEnd, OddMetadata};
        matches!(self, LateEvent | EarlyEvent | NoEnd | Disorder | ForeignUuid | OddMetadata(_))
    }
}

impl Problem {
    /// Whether it is the same problem at the same place; of warnings about packets, the same in the same stream.
    fn is(&self, other: &Problem) -> bool {
        let kind = |problem: &Problem| std::mem::discriminant(&problem.fault);
        let everywhere = self.fault.is_warning();
        self.offset.is_some()
            && (everywhere || self.offset == other.offset)
            && kind(self) == kind(other)
            && self.path == other.path
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.fault.is_warning() { "warning: " } else { "" };
        write!(f, "{warning}{}", self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        write!(f, ": {}", self.fault)?;
        if self.skipped > 0 {
            write!(f, "; {} could not be read", counted(self.skipped, "byte", "bytes"))?;
        }
        Ok(())
    }
}

/// Problems, as many as a person would read; of the others the number.
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    more: u64,
    is_broken: bool,
}

impl Problems {
    const KEPT: usize = 100;

    /// Notes a problem, unless it is known: a place can be read more than once.
    pub(crate) fn note(&mut self, problem: Problem) {
        if self.list.iter().any(|known| known.is(&problem)) {
            return;
        }
        self.is_broken |= !problem.fault.is_warning();
        if self.list.len() < Problems::KEPT {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// The first hundred problems, in the order in which they were found.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many others there were.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Whether something could not be read; if not, all problems are warnings ([`Fault::is_warning`]).
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// True when no problem was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
