//! What is wrong with a file.

use std::io;

/// Why a file of perf cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It begins otherwise.
    #[error("it is no file of perf: it does not begin with `PERFILE2`")]
    NoPerfData,
    /// It is of a version that nobody writes any more.
    #[error("it is a file of perf before Linux 3.0 (`PERFFILE`), which is not read")]
    Old,
    /// It is from a machine with the other byte order.
    #[error("it is from a big-endian machine; no such machine has Intel PT")]
    BigEndian,
    /// A part of it is not there.
    #[error("it ends at byte {len}, in its {what}: the file is cut")]
    Cut {
        /// How many bytes there are.
        len: u64,
        /// Which part.
        what: &'static str,
    },
    /// The size of an attribute, or of the header, cannot be.
    #[error("its {what} has {size} bytes, which cannot be: the file is damaged")]
    Size {
        /// The part of the file that the size is of.
        what: &'static str,
        /// The size, in bytes.
        size: u64,
    },
    /// A record has a size that cannot be; what follows is not known.
    #[error(
        "the record at byte {offset} has a size of {size}, which cannot be: the file is damaged from there on"
    )]
    Record {
        /// The offset of the record in the file.
        offset: u64,
        /// Its size.
        size: u16,
    },
    /// Records were compressed, and are damaged.
    #[error("the compressed records at byte {offset} cannot be unpacked: {why}; none behind them is known")]
    Compressed {
        /// The offset of the record in the file.
        offset: u64,
        /// What is wrong with them.
        why: String,
    },
    /// A record is too long to be written.
    #[error("a record of kind {kind} would have {size} bytes; it can have 65,535")]
    TooLong {
        /// Its kind.
        kind: u32,
        /// How many bytes it would have.
        size: usize,
    },
}
