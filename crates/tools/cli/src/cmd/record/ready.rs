//! `--ready-fd`: tells a script that recording has begun.

use anyhow::Context;
use mote_sys::fd::Fd;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The descriptor that a script gave us: a pipe, a file or a terminal.
pub(super) struct Ready(File);

impl Ready {
    /// Takes the descriptor over, so that the recorded command does not inherit it, and a script that reads until the
    /// end of a pipe does not wait for the command.
    ///
    /// # Errors
    /// For a person: it is not open, or cannot be written to.
    pub(super) fn open(number: i32) -> anyhow::Result<Ready> {
        let path = format!("/proc/self/fd/{number}");
        let file = OpenOptions::new().append(true).open(path).with_context(|| {
            format!("cannot write to descriptor {number}, which --ready-fd names; give it with {number}>FILE")
        })?;
        drop(Fd::from_raw(number));
        Ok(Ready(file))
    }

    /// Writes the recording's directory and a newline.
    pub(super) fn tell(mut self, directory: &Path) -> io::Result<()> {
        self.0.write_all(&[directory.as_os_str().as_bytes(), b"\n"].concat())
    }
}
