//! The socket to the session: how to get one, and asking with a time limit.

use crate::environment::Place;
use core::sync::atomic::{AtomicBool, Ordering};
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Received, Wait};
use mote_sys::{Errno, Result, process, time};
use mote_wire::{Hello, How, Message};

/// How long a session may take to answer before the program goes on without it, in milliseconds.
const PATIENCE_MS: i32 = 2000;
/// The same when it was slow before, and for a child that needs no answer.
const HASTE_MS: i32 = 10;
/// Where our descriptors' numbers begin: below are those that programs close, copy over, and count on.
const NUMBER: i32 = 900;

/// The session was slow once.
static SLOW: AtomicBool = AtomicBool::new(false);

fn patience() -> i32 {
    if SLOW.load(Ordering::Relaxed) { HASTE_MS } else { PATIENCE_MS }
}

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
        let patience = if how == How::Fork { HASTE_MS } else { patience() };
        match through_mailbox(place, hello, patience) {
            // The session is stopped: the path leads to the same one.
            Err(Errno(libc::ETIMEDOUT)) => {
                SLOW.store(true, Ordering::Relaxed);
                Err(Errno(libc::ETIMEDOUT))
            }
            Err(_) => at_path(place, hello),
            done => done,
        }
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &Message<'_>, buffer: &mut [u8]) -> Result<()> {
        let bytes = message.encode(buffer).ok_or(Errno(libc::EMSGSIZE))?;
        socket::send(self.0.raw(), bytes, &[], Wait::Yes)
    }

    /// Waits for an answer, but not forever.
    pub(crate) fn answer(&self, buffer: &mut [u8]) -> Result<Received> {
        match socket::wait_readable(self.0.raw(), patience()) {
            Ok(true) => socket::receive(self.0.raw(), buffer, Wait::No),
            Ok(false) => {
                SLOW.store(true, Ordering::Relaxed);
                Err(Errno(libc::ETIMEDOUT))
            }
            Err(errno) => Err(errno),
        }
    }
}

/// Sends one end of a new pair through the mailbox, which all processes of the session share.
fn through_mailbox(place: &Place, hello: &[u8], patience_ms: i32) -> Result<Link> {
    let identity = fd::identity(place.mailbox)?;
    if !identity.is_socket || identity.inode != place.inode {
        return Err(Errno(libc::EBADF));
    }
    let (ours, theirs) = socket::pair()?;
    let ours = fd::move_above(ours, NUMBER);
    for _ in 0..patience_ms {
        match socket::send(place.mailbox, hello, &[theirs.raw()], Wait::No) {
            // The session is slow, or stopped: the program must not hang for it.
            Err(Errno(libc::EAGAIN)) => drop(time::sleep(1_000_000)),
            sent => return sent.map(|()| Link(ours)),
        }
    }
    Err(Errno(libc::ETIMEDOUT))
}

fn at_path(place: &Place, hello: &[u8]) -> Result<Link> {
    let link = Link(fd::move_above(socket::connect(place.path())?, NUMBER));
    socket::send(link.0.raw(), hello, &[], Wait::No)?;
    Ok(link)
}
