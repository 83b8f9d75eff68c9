//! The socket of one connection, and what the recorder holds for the process behind it. What the process says is the
//! session's (`mote_session`).

use crate::registration::sandbox::Sandbox;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Credentials, Wait};
use mote_wire::{MESSAGE_MAX, Message};

/// One connection.
pub(crate) struct Connection {
    socket: Fd,
    /// Process id in our namespace, 0 when it has none here. This and the user are what the kernel says of the sender
    /// of its hello; before that, of the process that has connected.
    pub(crate) pid: i32,
    /// Its real user.
    pub(crate) uid: u32,
    /// The session has let it in, and the connection lives as long as its process.
    pub(crate) is_process: bool,
    /// It was sent what it shares with the kernel's side and with others.
    pub(crate) cooperates: bool,
    /// Number of its process's area.
    pub(crate) area: Option<u32>,
    /// Whether it may be spoken to.
    pub(crate) sandbox: Sandbox,
    /// The descriptor that came with the last message.
    pub(crate) beside: Option<Fd>,
}

/// What has come over a connection.
pub(crate) enum Received {
    /// A message of so many bytes, and the credentials of the process that has sent it.
    Message(usize, Option<Credentials>),
    /// Nothing so far.
    Nothing,
    /// It was closed at the other end.
    Closed,
}

impl Connection {
    /// A connection over a socket that a process has sent us, or has made.
    ///
    /// # Errors
    /// What is wrong with the socket, for a person.
    pub(crate) fn new(socket: Fd, sender: Credentials) -> Result<Connection, String> {
        // A socket of another kind would not tell which process has sent what.
        if !socket::is_messages(socket.raw()) || socket::pass_credentials(socket.raw()).is_err() {
            return Err(format!(
                "process {} has sent a malformed first message: no socket came with it",
                sender.pid
            ));
        }
        Ok(Connection {
            socket,
            pid: sender.pid,
            uid: sender.uid,
            is_process: false,
            cooperates: false,
            area: None,
            sandbox: Sandbox::default(),
            beside: None,
        })
    }

    /// The descriptor to poll.
    pub(crate) fn raw(&self) -> i32 {
        self.socket.raw()
    }

    /// The other end was closed.
    pub(crate) fn has_hung_up(&self) -> bool {
        let mut polled = [libc::pollfd { fd: self.raw(), events: libc::POLLRDHUP, revents: 0 }];
        let answered = socket::wait_any(&mut polled, 0).is_ok();
        answered && polled[0].revents & (libc::POLLRDHUP | libc::POLLHUP) != 0
    }

    /// Receives a message into `buffer`, if there is one.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        match socket::receive(self.raw(), buffer, Wait::No) {
            Ok(received) if received.len == 0 => Received::Closed,
            Ok(received) => {
                self.beside = received.fds.into_iter().flatten().next();
                Received::Message(received.len, received.sender)
            }
            Err(Errno(libc::EAGAIN | libc::EINTR)) => Received::Nothing,
            Err(_) => Received::Closed,
        }
    }

    /// Sends a message. A process that does not empty its socket is not waited for.
    ///
    /// # Errors
    /// As send(2); `EACCES` when the process has locked itself in, and would be killed for listening.
    pub(crate) fn send(&self, message: &Message<'_>, fds: &[i32]) -> Result<(), Errno> {
        if self.sandbox.is_locked(self.pid) {
            return Err(Errno(libc::EACCES));
        }
        let mut buffer = vec![0; MESSAGE_MAX];
        let bytes = message.encode(&mut buffer).ok_or(Errno(libc::EMSGSIZE))?;
        socket::send(self.raw(), bytes, fds, Wait::No)
    }

    /// Keeps the socket that came with the last message: what is sent there stays open as long as the process lives.
    pub(crate) fn keep(&mut self) {
        self.sandbox.keep_by(self.beside.take());
    }

    /// Whether the process leaves when it is asked to.
    pub(crate) fn can_leave(&self) -> bool {
        self.is_process && !self.sandbox.is_locked(self.pid)
    }

    /// Sees to it that a process that has locked itself in sleeps on when we are gone.
    pub(crate) fn let_be(&mut self) {
        let connection = self.raw();
        if self.sandbox.is_locked(self.pid) {
            self.sandbox.leave_behind(connection);
        }
    }
}
