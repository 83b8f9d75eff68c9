//! Where processes say hello: a mailbox that they inherit, and a socket in the file system.

use crate::error::Error;
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Received, Wait};
use mote_wire::{ENVIRONMENT, VERSION};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::{env, fs, process};

/// Where the mailbox's number begins in the command: above what shells and daemons use for themselves.
const MAILBOX_NUMBER: i32 = 900;

/// Both ways in.
pub(crate) struct Door {
    /// Our end of the mailbox.
    pub(crate) mailbox: Fd,
    /// The end that the command inherits.
    theirs: Fd,
    /// The socket in the file system.
    pub(crate) listener: Fd,
    directory: PathBuf,
}

impl Door {
    /// Opens both.
    pub(crate) fn open() -> Result<Door, Error> {
        let session = |what| move |why| Error::Session { what, why };
        let (mailbox, theirs) = socket::pair().map_err(session("make a mailbox"))?;
        let theirs = fd::dup_from(theirs.raw(), MAILBOX_NUMBER)
            .or_else(|_| fd::dup_from(theirs.raw(), 64))
            .map_err(session("make a mailbox that the command inherits"))?;
        let directory = runtime_directory();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(|why| Error::Output(directory.clone(), why))?;
        let path = directory.join("session");
        let listener = socket::listen(path.as_os_str().as_bytes()).map_err(session("listen on a socket"))?;
        Ok(Door { mailbox, theirs, listener, directory })
    }

    /// The environment variable by which processes find the door.
    pub(crate) fn variable(&self) -> Result<(&'static str, String), Error> {
        let identity = fd::identity(self.theirs.raw())
            .map_err(|why| Error::Session { what: "look at the mailbox", why })?;
        let path = self.directory.join("session");
        let value = format!("{VERSION},{},{},{}", self.theirs.raw(), identity.inode, path.display());
        Ok((ENVIRONMENT, value))
    }

    /// Takes one hello out of the mailbox: its bytes in `into`, and the sender's socket.
    pub(crate) fn receive(&self, into: &mut [u8]) -> Option<(usize, Fd)> {
        let Received { len, fds, .. } = socket::receive(self.mailbox.raw(), into, Wait::No).ok()?;
        Some((len, fds.into_iter().flatten().next()?))
    }

    /// Takes one connection from the listener.
    pub(crate) fn accept(&self) -> Option<Fd> {
        socket::accept(&self.listener).ok()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A directory of our own where the socket lies; short, because a socket's path has 107 bytes.
fn runtime_directory() -> PathBuf {
    let base = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let base = base.filter(|path| path.as_os_str().len() < 60).unwrap_or_else(|| PathBuf::from("/tmp"));
    let stamp = mote_sys::time::clock_gettime(mote_sys::time::ClockId::Monotonic);
    base.join(format!("mote-{}-{stamp:x}", process::id()))
}
