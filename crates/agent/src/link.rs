//! The socket to the session: how to get one, and asking with a time limit.

use crate::environment::Place;
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Received, Wait};
use mote_sys::{Errno, Result, process, time};
use mote_wire::{Hello, How, Message};

/// How long a session may take to answer before the program goes on without it, in milliseconds.
const PATIENCE_MS: i32 = 2000;

/// A connection to the session.
#[derive(Debug)]
pub(crate) struct Link(pub(crate) Fd);

impl Link {
    /// Says hello through the mailbox if it still is there, else at the session's path.
    pub(crate) fn open(place: &Place, how: How) -> Result<Link> {
        let hello = Message::Hello(Hello {
            how,
            pid: process::pid() as u32,
            parent: process::parent() as u32,
            comm: process::comm(),
        });
        let mut buffer = [0; 64];
        let hello = hello.encode(&mut buffer).ok_or(Errno(libc::EINVAL))?;
        through_mailbox(place, hello).or_else(|_| at_path(place, hello))
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &Message<'_>, buffer: &mut [u8]) -> Result<()> {
        let bytes = message.encode(buffer).ok_or(Errno(libc::EMSGSIZE))?;
        socket::send(self.0.raw(), bytes, &[], Wait::Yes)
    }

    /// Waits for an answer, but not forever.
    pub(crate) fn answer(&self, buffer: &mut [u8]) -> Result<Received> {
        loop {
            match socket::wait_readable(self.0.raw(), PATIENCE_MS) {
                Ok(true) => return socket::receive(self.0.raw(), buffer, Wait::No),
                Ok(false) => return Err(Errno(libc::ETIMEDOUT)),
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Sends one end of a new pair through the mailbox, which all processes of the session share.
fn through_mailbox(place: &Place, hello: &[u8]) -> Result<Link> {
    let identity = fd::identity(place.mailbox)?;
    if !identity.is_socket || identity.inode != place.inode {
        return Err(Errno(libc::EBADF));
    }
    let (ours, theirs) = socket::pair()?;
    for _ in 0..PATIENCE_MS {
        match socket::send(place.mailbox, hello, &[theirs.raw()], Wait::No) {
            // The session is slow, or stopped: the program must not hang for it.
            Err(Errno(libc::EAGAIN)) => time::sleep(1_000_000)?,
            sent => return sent.map(|()| Link(ours)),
        }
    }
    Err(Errno(libc::ETIMEDOUT))
}

fn at_path(place: &Place, hello: &[u8]) -> Result<Link> {
    let link = Link(socket::connect(place.path())?);
    socket::send(link.0.raw(), hello, &[], Wait::Yes)?;
    Ok(link)
}
