//! The socket to a session: how to get one, and asking with a time limit.

use crate::environment::Place;
use crate::{stack, trust};
use core::sync::atomic::{AtomicBool, Ordering};
use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Received, Wait};
use mote_sys::{Errno, Result, process, time};
use mote_wire::{Hello, How, Message, Reason, SESSIONS_MAX};

/// How long a session may take to answer before the program goes on without it, in milliseconds: waited for in slices,
/// so that a machine that stood still takes one of them away and not all.
const PATIENCE_MS: i32 = 2000;
const SLICE_MS: i32 = 10;
/// The same when it was slow before, and for a child that needs no answer.
const HASTE_MS: i32 = 10;
/// After how many milliseconds at a full mailbox the path is tried, and again.
const CROWDED_MS: i32 = 50;
/// Where our descriptors' numbers begin: below are those that programs close, copy over, and count on.
const NUMBER: i32 = 900;

/// The session of this number was slow once.
static SLOW: [AtomicBool; SESSIONS_MAX] = [const { AtomicBool::new(false) }; SESSIONS_MAX];

fn patience(session: usize) -> i32 {
    let is_slow = SLOW.get(session).is_some_and(|slow| slow.load(Ordering::Relaxed));
    if is_slow { HASTE_MS } else { PATIENCE_MS }
}

/// Notes whether a session is slow.
pub(crate) fn note_slow(session: usize, is_slow: bool) {
    if let Some(slow) = SLOW.get(session) {
        slow.store(is_slow, Ordering::Relaxed);
    }
}

/// A connection to a session.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: Fd,
    /// The session's number.
    pub(crate) session: usize,
}

impl Link {
    /// Says hello through the mailbox if it still is there, else at the session's path.
    ///
    /// # Errors
    /// `ETIMEDOUT` when the session does not listen now; `EMFILE` when the process has no descriptors free; others when
    /// it is not there.
    pub(crate) fn open(place: &Place, how: How, session: usize) -> Result<Link> {
        let hello = Message::Hello(Hello {
            how,
            pid: process::pid() as u32,
            parent: process::parent() as u32,
            comm: process::comm(),
        });
        let mut buffer = [0; 64];
        let hello = hello.encode(&mut buffer).ok_or(Errno(libc::EINVAL))?;
        let patience = if how == How::Fork { HASTE_MS } else { patience(session) };
        let socket = match through_mailbox(place, hello, patience) {
            // The session is stopped: the path leads to the same one.
            Err(Errno(libc::ETIMEDOUT)) => {
                note_slow(session, true);
                Err(Errno(libc::ETIMEDOUT))
            }
            // A socket at the path would leave no number for the rings: the agent's thread has numbers of its own,
            // later.
            Err(Errno(libc::EMFILE)) => Err(Errno(libc::EMFILE)),
            Err(_) => at_path(place, hello),
            done => done,
        };
        let socket = socket?;
        stack::known_as(process::pid() as u32);
        Ok(Link { socket, session })
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &Message<'_>, buffer: &mut [u8]) -> Result<()> {
        let bytes = message.encode(buffer).ok_or(Errno(libc::EMSGSIZE))?;
        socket::send(self.socket.raw(), bytes, &[], Wait::Yes)
    }

    /// Waits for an answer, but not forever.
    ///
    /// # Errors
    /// `ETIMEDOUT`; `EPERM` when what has answered is no session that this process believes, which it is told.
    pub(crate) fn answer(&self, buffer: &mut [u8]) -> Result<Received> {
        for _ in 0..patience(self.session) / SLICE_MS {
            if socket::wait_readable(self.socket.raw(), SLICE_MS)? {
                let received = socket::receive(self.socket.raw(), buffer, Wait::No)?;
                // The end has no sender.
                if received.len == 0 || trust::is_from(self.session, &received) {
                    return Ok(received);
                }
                let _ = self.send(&Message::Declined(Reason::Stranger), buffer);
                return Err(Errno(libc::EPERM));
            }
        }
        note_slow(self.session, true);
        Err(Errno(libc::ETIMEDOUT))
    }
}

/// Sends one end of a new pair through the mailbox, which all processes of the session share.
fn through_mailbox(place: &Place, hello: &[u8], patience_ms: i32) -> Result<Fd> {
    let identity = fd::identity(place.mailbox)?;
    if !identity.is_socket || identity.inode != place.inode {
        return Err(Errno(libc::EBADF));
    }
    let (ours, theirs) = socket::pair()?;
    // The process that has made a pair need not be the one that answers.
    socket::pass_credentials(ours.raw())?;
    let ours = fd::move_above(ours, NUMBER);
    for tried in 1..=patience_ms {
        match socket::send(place.mailbox, hello, &[theirs.raw()], Wait::No) {
            // The session is slow, or stopped: the program must not hang for it.
            Err(Errno(libc::EAGAIN)) => drop(time::sleep(1_000_000)),
            sent => return sent.map(|()| ours),
        }
        // Or another process fills the mailbox, which cannot come to the path.
        if tried % CROWDED_MS == 0
            && let Ok(socket) = at_path(place, hello)
        {
            return Ok(socket);
        }
    }
    Err(Errno(libc::ETIMEDOUT))
}

fn at_path(place: &Place, hello: &[u8]) -> Result<Fd> {
    let files = place.files().ok_or(Errno(libc::EINVAL))?;
    if !trust::is_place(files.directory(), files.socket()) {
        return Err(Errno(libc::EPERM));
    }
    let socket = match socket::connect(place.path()) {
        // Too many wait there already.
        Err(Errno(libc::EAGAIN)) => return Err(Errno(libc::ETIMEDOUT)),
        connected => fd::move_above(connected?, NUMBER),
    };
    if !trust::believes(socket::peer(socket.raw())?.uid) {
        return Err(Errno(libc::EPERM));
    }
    socket::pass_credentials(socket.raw())?;
    socket::send(socket.raw(), hello, &[], Wait::No)?;
    Ok(socket)
}

/// The sockets of the sessions, by their number.
#[derive(Debug, Default)]
pub(crate) struct Links(pub(crate) [Option<Fd>; SESSIONS_MAX]);

impl Links {
    /// Adds a session's socket.
    pub(crate) fn put(&mut self, link: Link) {
        if let Some(place) = self.0.get_mut(link.session) {
            *place = Some(link.socket);
        }
    }

    /// Takes a session's socket out.
    pub(crate) fn take(&mut self, session: usize) -> Option<Link> {
        Some(Link { socket: self.0.get_mut(session)?.take()?, session })
    }

    /// Whether there is one of this session.
    pub(crate) fn has(&self, session: usize) -> bool {
        self.0.get(session).is_some_and(Option::is_some)
    }

    /// The descriptors' numbers, -1 for none.
    pub(crate) fn raw(&self) -> [i32; SESSIONS_MAX] {
        let mut all = [-1; SESSIONS_MAX];
        all.iter_mut().zip(&self.0).for_each(|(to, from)| *to = from.as_ref().map_or(-1, Fd::raw));
        all
    }
}
