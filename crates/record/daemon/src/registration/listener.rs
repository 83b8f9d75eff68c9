//! One way into a session: a mailbox that processes inherit or are sent, and a socket in the file system.

use crate::error::Error;
use crate::registration::sockets::{self, Sockets};
use mote_session::trust::{Guard, Trust};
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Credentials, Received, Wait};
use mote_sys::{Errno, user};
use mote_wire::VERSION;
use std::cell::Cell;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the mailbox's number begins in the command: above what shells and daemons use for themselves.
const MAILBOX_NUMBER: i32 = 900;
/// How long no process is let in when there was no descriptor left for it.
const REST: Duration = Duration::from_millis(20);

/// A mailbox, a socket, and which users' processes may come.
pub(crate) struct Listener {
    guard: Guard,
    /// Our end of the mailbox.
    mailbox: Fd,
    /// A process has shut the mailbox for all others; there still is the socket.
    shut: Cell<bool>,
    /// The other end, until it has been handed over.
    theirs: Option<Fd>,
    /// Which file that was, once it was handed over: places are known by it.
    handed_over: u64,
    /// The socket in the file system.
    socket: Fd,
    /// The socket is not asked before.
    rests_until: Cell<Option<Instant>>,
    sockets: Sockets,
}

/// A message that a process has put into the mailbox.
pub(crate) struct Letter {
    pub(crate) len: usize,
    /// The process that has sent it.
    pub(crate) sender: Credentials,
    /// The sender's socket, if it came with one.
    pub(crate) socket: Option<Fd>,
}

/// Which file a mailbox is.
fn inode(mailbox: &Fd) -> Result<u64, Error> {
    let what = "look at the mailbox";
    fd::identity(mailbox.raw()).map(|file| file.inode).map_err(|why| Error::Session { what, why })
}

impl Listener {
    /// Opens one for the recorder's own processes, and, where it is root's, for those that inherit its mailbox.
    pub(crate) fn open(trust: Trust) -> Result<Listener, Error> {
        Listener::open_in(Sockets::make(trust)?, Guard { trust, only: None })
    }

    /// Opens one for another user's processes only. Root does this.
    pub(crate) fn open_for(trust: Trust, uid: u32) -> Result<Listener, Error> {
        let opened = Listener::open_in(Sockets::make_for_others(trust)?, Guard { trust, only: Some(uid) })?;
        let given = opened.sockets.give(sockets::SESSION, uid);
        given.map_err(|why| Error::Loop { what: "give another user access to a socket", why })?;
        Ok(opened)
    }

    fn open_in(sockets: Sockets, guard: Guard) -> Result<Listener, Error> {
        let session = |what| move |why| Error::Session { what, why };
        let (mailbox, theirs) = socket::pair().map_err(session("make a mailbox"))?;
        let theirs = fd::dup_from(theirs.raw(), MAILBOX_NUMBER)
            .or_else(|_| fd::dup_from(theirs.raw(), 64))
            .map_err(session("make a mailbox that the command inherits"))?;
        let listen = |path: &Path| socket::listen(path.as_os_str().as_bytes()).map_err(of_errno);
        let socket = sockets.listen(sockets::SESSION, listen);
        let socket = socket.map_err(|why| Error::Loop { what: "listen on a socket", why })?;
        for socket in [&mailbox, &socket] {
            socket::pass_credentials(socket.raw()).map_err(session("ask for credentials"))?;
        }
        let (shut, rests_until) = (Cell::new(false), Cell::new(None));
        Ok(Listener {
            guard,
            mailbox,
            shut,
            theirs: Some(theirs),
            handed_over: 0,
            socket,
            rests_until,
            sockets,
        })
    }

    /// Which users' processes may come in through the mailbox.
    pub(crate) fn guard(&self) -> Guard {
        self.guard
    }

    /// Who may come to the socket: only the user whose way in it is. Others inherit the mailbox or do not come.
    pub(crate) fn guard_of_path(&self) -> Guard {
        Guard { only: self.guard.only.or(Some(self.guard.trust.own())), ..self.guard }
    }

    /// The sockets' directory.
    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The end of the mailbox that processes get, until it is handed over.
    pub(crate) fn theirs(&self) -> Option<&Fd> {
        self.theirs.as_ref()
    }

    /// This place, for a process that has the mailbox as its descriptor `number`.
    pub(crate) fn place(&self, number: i32) -> Result<String, Error> {
        let inode = match (&self.theirs, self.handed_over) {
            (Some(theirs), _) => inode(theirs)?,
            (None, inode) => inode,
        };
        let path = self.sockets.path().join(sockets::SESSION);
        Ok(format!("{VERSION},{number},{inode},{}", path.display()))
    }

    /// Closes our copy of what processes have got, so that we see when no process holds it any more.
    pub(crate) fn hand_over(&mut self) {
        let theirs = self.theirs.take();
        self.handed_over = theirs.and_then(|theirs| inode(&theirs).ok()).unwrap_or(self.handed_over);
    }

    /// No process holds the other end of the mailbox.
    pub(crate) fn is_deserted(&self) -> bool {
        self.shut.get() || self.has_hung_up()
    }

    /// The descriptors to poll; -1, which poll(2) passes over, for a mailbox that is shut, and for a socket that rests.
    pub(crate) fn polled(&self) -> [i32; 2] {
        if self.rests_until.get().is_some_and(|until| until <= Instant::now()) {
            self.rests_until.set(None);
        }
        let mailbox = if self.shut.get() { -1 } else { self.mailbox.raw() };
        [mailbox, if self.rests_until.get().is_some() { -1 } else { self.socket.raw() }]
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

    /// Takes one connection from the socket, and the credentials of the process that has made it.
    pub(crate) fn accept(&self) -> Option<(Fd, Credentials)> {
        if self.rests_until.get().is_some() || socket::wait_readable(self.socket.raw(), 0) != Ok(true) {
            return None;
        }
        let Ok(socket) = socket::accept(&self.socket) else {
            // Most likely out of descriptors: a later try may do better.
            self.rests_until.set(Some(Instant::now() + REST));
            return None;
        };
        let peer = socket::peer(socket.raw()).ok()?;
        Some((socket, peer))
    }
}

fn of_errno(why: Errno) -> io::Error {
    io::Error::from_raw_os_error(why.0)
}
