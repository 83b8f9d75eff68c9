//! Where processes say hello: a mailbox that they inherit, and a socket in the file system.

use crate::error::Error;
use crate::trust::{Guard, Trust};
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Credentials, Received, Wait};
use mote_sys::user;
use mote_wire::{ENVIRONMENT, PLACES_APART, VERSION};
use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Where the mailbox's number begins in the command: above what shells and daemons use for themselves.
const MAILBOX_NUMBER: i32 = 900;

/// How the directory of a recorder's socket begins; its process id follows.
const DIRECTORY: &str = "mote-";
/// The socket in it.
const SOCKET: &str = "session";

/// Both ways in.
pub(crate) struct Door {
    /// Our end of the mailbox.
    mailbox: Fd,
    /// A process has shut the mailbox for everybody; there still is the listener.
    shut: Cell<bool>,
    /// The end that the command inherits, until it has.
    theirs: Option<Fd>,
    /// The socket in the file system.
    pub(crate) listener: Fd,
    directory: PathBuf,
    trust: Trust,
}

/// What somebody has put into the mailbox.
pub(crate) struct Letter {
    pub(crate) len: usize,
    /// Who has sent it.
    pub(crate) sender: Credentials,
    /// The sender's socket, if it came with one.
    pub(crate) socket: Option<Fd>,
}

impl Door {
    /// Opens both.
    pub(crate) fn open() -> Result<Door, Error> {
        let session = |what| move |why| Error::Session { what, why };
        let (mailbox, theirs) = socket::pair().map_err(session("make a mailbox"))?;
        let theirs = fd::dup_from(theirs.raw(), MAILBOX_NUMBER)
            .or_else(|_| fd::dup_from(theirs.raw(), 64))
            .map_err(session("make a mailbox that the command inherits"))?;
        let (directory, listener) = listen()?;
        for socket in [&mailbox, &listener] {
            socket::pass_credentials(socket.raw()).map_err(session("ask who comes"))?;
        }
        let (shut, trust) = (Cell::new(false), Trust::find());
        Ok(Door { mailbox, shut, theirs: Some(theirs), listener, directory, trust })
    }

    /// The environment variable by which processes find the door, and those of the recordings that we run inside of.
    pub(crate) fn variable(&self) -> Result<(&'static str, String), Error> {
        let number = self.theirs.as_ref().map_or(-1, Fd::raw);
        let own = self.place_with(number, number)?;
        let value = match env::var(ENVIRONMENT) {
            Ok(others) if !others.is_empty() => format!("{own}{PLACES_APART}{others}"),
            _ => own,
        };
        Ok((ENVIRONMENT, value))
    }

    /// Our place for a process that gets the mailbox beside it; `None` when the mailbox was handed over.
    pub(crate) fn place(&self) -> Result<Option<(String, &Fd)>, Error> {
        self.theirs.as_ref().map(|theirs| Ok((self.place_with(theirs.raw(), -1)?, theirs))).transpose()
    }

    /// Our place, with a number for the mailbox that is our descriptor `mailbox`.
    fn place_with(&self, mailbox: i32, number: i32) -> Result<String, Error> {
        let what = "look at the mailbox";
        let identity = fd::identity(mailbox).map_err(|why| Error::Session { what, why })?;
        Ok(format!("{VERSION},{number},{},{}", identity.inode, self.directory.join(SOCKET).display()))
    }

    /// Lets a process of another user come to the socket, if we may.
    pub(crate) fn let_in(&self, pid: i32) {
        let Ok(process) = fs::metadata(format!("/proc/{pid}")) else { return };
        if fs::metadata(&self.directory).is_ok_and(|own| own.uid() != process.uid()) {
            let _ = chown(self.directory.join(SOCKET), Some(process.uid()), None);
            let _ = chown(&self.directory, Some(process.uid()), None);
        }
    }

    /// The sockets at which recorders whose directories are in `base` can be asked.
    pub(crate) fn all_below(base: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        let entries = fs::read_dir(base).into_iter().flatten().flatten();
        let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(DIRECTORY);
        entries.filter(is_ours).map(|entry| entry.path().join(crate::control::NAME))
    }

    /// The recorder's own directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Closes our copy of what the command has inherited, so that we see when nobody holds it any more.
    pub(crate) fn hand_over(&mut self) {
        self.theirs = None;
    }

    /// Nobody holds the other end of the mailbox.
    pub(crate) fn is_deserted(&self) -> bool {
        self.shut.get() || self.has_hung_up()
    }

    /// The mailbox's descriptor to poll; -1, which poll(2) passes over, when it is shut.
    pub(crate) fn polled_mailbox(&self) -> i32 {
        if self.shut.get() { -1 } else { self.mailbox.raw() }
    }

    /// Who may come in.
    pub(crate) fn guard(&self) -> Guard {
        Guard { trust: self.trust, only: None }
    }

    /// Takes one letter out of the mailbox, its bytes into `into`.
    pub(crate) fn receive(&self, into: &mut [u8]) -> Option<Letter> {
        if self.shut.get() {
            return None;
        }
        let Received { len, fds, sender, .. } = socket::receive(self.mailbox.raw(), into, Wait::No).ok()?;
        let socket = fds.into_iter().flatten().next();
        if len == 0 && socket.is_none() && self.has_hung_up() {
            self.shut.set(true);
            return None;
        }
        let nobody = user::overflow();
        let sender = sender.unwrap_or(Credentials { pid: 0, uid: nobody, gid: nobody });
        Some(Letter { len, sender, socket })
    }

    fn has_hung_up(&self) -> bool {
        let mut polled = [libc::pollfd { fd: self.mailbox.raw(), events: libc::POLLRDHUP, revents: 0 }];
        let answered = socket::wait_any(&mut polled, 0).is_ok();
        answered && polled[0].revents & (libc::POLLRDHUP | libc::POLLHUP) != 0
    }

    /// Takes one connection from the listener, and who has made it.
    pub(crate) fn accept(&self) -> Option<(Fd, Credentials)> {
        let socket = socket::accept(&self.listener).ok()?;
        let who = socket::peer(socket.raw()).ok()?;
        Some((socket, who))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Listens at a path, in a directory of our own: where the user's sockets belong, or else in `/tmp`.
fn listen() -> Result<(PathBuf, Fd), Error> {
    let user = env::var("XDG_RUNTIME_DIR").ok().map(PathBuf::from);
    // A socket's path has 107 bytes, and a relative one would mean something else to a command elsewhere.
    let plain = |path: &Path| !path.as_os_str().as_bytes().contains(&(PLACES_APART as u8));
    let user = user.filter(|path| path.is_absolute() && path.as_os_str().len() < 60 && plain(path));
    let mut refused = None;
    for base in user.into_iter().chain([PathBuf::from("/tmp")]) {
        sweep(&base);
        match listen_in(&base) {
            Ok(listening) => return Ok(listening),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or(Error::Session { what: "listen on a socket", why: mote_sys::Errno(libc::ENOENT) }))
}

fn listen_in(base: &Path) -> Result<(PathBuf, Fd), Error> {
    let stamp = mote_sys::time::clock_gettime(mote_sys::time::ClockId::Monotonic);
    let directory = base.join(format!("{DIRECTORY}{}-{stamp:x}", process::id()));
    let made = fs::DirBuilder::new().mode(0o700).create(&directory);
    made.map_err(|why| Error::Loop { what: "make a directory for a socket", why })?;
    match socket::listen(directory.join(SOCKET).as_os_str().as_bytes()) {
        Ok(listener) => Ok((directory, listener)),
        Err(why) => {
            let _ = fs::remove_dir_all(&directory);
            Err(Error::Session { what: "listen on a socket", why })
        }
    }
}

/// Removes the directories of recorders that were killed.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY));
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let gone = pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists());
        // Others' directories cannot be removed, and are not.
        let _ = gone.then(|| fs::remove_file(entry.path().join(crate::control::NAME)));
        if gone && fs::remove_file(entry.path().join(SOCKET)).is_ok() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
