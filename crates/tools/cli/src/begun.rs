//! What is told when a recording has begun: to a script (`--ready-fd`), and to a person.

use anyhow::Context;
use mote_sys::fd::Fd;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The flag.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ReadyArgs {
    /// Write the recording's directory and a newline to this descriptor when recording has begun, then close it
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(3..))]
    ready_fd: Option<i32>,
}

/// Whom to tell, and of what.
pub(crate) struct Begun<'a> {
    ready: Option<Ready>,
    command: &'a [OsString],
    pids: &'a [i32],
}

impl<'a> Begun<'a> {
    /// Of a recording of this command, of these processes, or, without both, of the whole system.
    ///
    /// # Errors
    /// For a person: `--ready-fd` cannot be written to.
    pub(crate) fn new(
        args: &ReadyArgs,
        command: &'a [OsString],
        pids: &'a [i32],
    ) -> anyhow::Result<Begun<'a>> {
        Ok(Begun { ready: args.ready_fd.map(Ready::open).transpose()?, command, pids })
    }

    /// Tells the script.
    ///
    /// # Errors
    /// For a person.
    pub(crate) fn tell(&mut self, directory: &Path) -> Result<(), String> {
        let written = self.ready.take().map_or(Ok(()), |ready| ready.tell(directory));
        written.map_err(|why| format!("cannot write to the descriptor of --ready-fd: {why}"))
    }

    /// What is recorded, for a person.
    pub(crate) fn subject(&self) -> String {
        match (self.command.first(), self.pids) {
            (Some(command), _) => command.to_string_lossy().into_owned(),
            (None, []) => "the whole system".to_owned(),
            (None, [pid]) => format!("process {pid}"),
            (None, several) => format!("{} processes", several.len()),
        }
    }
}

/// The descriptor that a script gave us: a pipe, a file or a terminal.
struct Ready(File);

impl Ready {
    /// Takes the descriptor over, so that the recorded command does not inherit it, and a script that reads until the
    /// end of a pipe does not wait for the command.
    ///
    /// # Errors
    /// For a person: it is not open, or cannot be written to.
    fn open(number: i32) -> anyhow::Result<Ready> {
        let path = format!("/proc/self/fd/{number}");
        let file = OpenOptions::new().append(true).open(path).with_context(|| {
            format!("descriptor {number} of --ready-fd is not open for writing; have the shell open it: {number}>FILE")
        })?;
        drop(Fd::from_raw(number));
        Ok(Ready(file))
    }

    /// Writes the recording's directory and a newline.
    fn tell(mut self, directory: &Path) -> io::Result<()> {
        self.0.write_all(&[directory.as_os_str().as_bytes(), b"\n"].concat())
    }
}
