//! Standard output, for all verbs, and how wide its lines may be.
//!
//! When the program that reads it has enough and goes (`mote view trace | head`), a verb stops, and that is an ordinary
//! end: what is printed here gives an error that `main` knows by [`is_closed`], and ends with success. SIGPIPE stays
//! ignored, as Rust has it, because a recording goes on without a reader of its summary.

use anyhow::Context;
use mote_words::COLUMNS_MIN;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, RawFd};

/// The reader of standard output is gone.
#[derive(Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed by the program that reads it")
    }
}

impl std::error::Error for Closed {}

/// Standard output, locked, whose errors [`is_closed`] can tell from those of other pipes and sockets.
pub(crate) fn lock() -> impl Write {
    Out(io::stdout().lock())
}

struct Out(io::StdoutLock<'static>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(known)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(known)
    }
}

fn known(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::BrokenPipe { io::Error::new(ErrorKind::BrokenPipe, Closed) } else { error }
}

/// Prints `text`, all of it.
///
/// # Errors
/// For a person, unless [`is_closed`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Where tables go that may not stand between the lines of a recorded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Standard output, which is ours alone.
    Output,
    /// Standard error: the command writes to standard output.
    Error,
}

impl Place {
    /// Where the tables of a recording go that runs a command, or not.
    pub(crate) fn beside(command: &[std::ffi::OsString]) -> Place {
        if command.is_empty() { Place::Output } else { Place::Error }
    }

    /// Writes `text` there. A recording goes on when nobody reads it any more.
    pub(crate) fn show(self, text: &str) {
        let _ = match self {
            Place::Output => io::stdout().write_all(text.as_bytes()),
            Place::Error => io::stderr().write_all(text.as_bytes()),
        };
    }

    /// Writes there what was asked for, all of it.
    ///
    /// # Errors
    /// As [`print`], where that is standard output.
    pub(crate) fn print(self, text: &str) -> anyhow::Result<()> {
        match self {
            Place::Output => print(text)?,
            Place::Error => self.show(text),
        }
        Ok(())
    }

    /// Columns of its lines, at least [`COLUMNS_MIN`]; `None` when neither a terminal says it nor the variable
    /// `COLUMNS`: it is a file, or another program's input, which any width suits.
    pub(crate) fn width(self) -> Option<usize> {
        match self {
            Place::Output => width_of(io::stdout().as_raw_fd()),
            Place::Error => width_of(io::stderr().as_raw_fd()),
        }
    }
}

/// Columns of lines of standard output, as [`Place::width`].
pub(crate) fn width() -> Option<usize> {
    Place::Output.width()
}

fn width_of(fd: RawFd) -> Option<usize> {
    let of_terminal = mote_sys::terminal::columns(fd).map(usize::from);
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    of_terminal.or_else(asked).map(|columns: usize| columns.max(COLUMNS_MIN))
}

/// Whether an error is that standard output has no reader any more.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let of = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<Closed>());
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_standard_output_without_a_reader_is_an_ordinary_end() {
        let error = |inner: io::Error| anyhow::Error::new(inner).context("cannot write the events");
        assert!(is_closed(&error(known(ErrorKind::BrokenPipe.into()))));
        assert!(!is_closed(&error(known(ErrorKind::StorageFull.into()))));
        assert!(!is_closed(&error(ErrorKind::BrokenPipe.into())), "of another pipe");
        assert!(!is_closed(&anyhow::anyhow!("no trace")));
    }
}
