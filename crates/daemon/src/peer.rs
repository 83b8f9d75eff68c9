//! The conversation with one process. Nothing that it says is trusted.

use crate::events::{Announced, Events};
use crate::walk::Steps;
use mote_ring::Geometry;
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Wait};
use mote_wire::{Hello, How, MESSAGE_MAX, Message, Ready, Refusal};

/// One process, or one of its libraries.
pub(crate) struct Peer {
    socket: Fd,
    /// Process id in our namespace, 0 when it has none here.
    pub(crate) pid: i32,
    /// What it said at first.
    pub(crate) hello: Option<Hello>,
    /// The answer to events that it has announced, until the metadata knows them.
    pub(crate) answer: Option<Vec<u8>>,
}

/// What a message came to.
pub(crate) enum Said {
    /// A process is here; it waits for its welcome when it has just started.
    Hello(Hello),
    /// It has announced events.
    Events {
        /// Those that nobody had announced before.
        new: Vec<u32>,
        /// The answer, to be sent once the metadata knows the new ones.
        words: Vec<u8>,
        /// Why some were not taken.
        wrong: Option<String>,
    },
    /// It has armed its sites.
    Ready(Ready),
    /// It has gone.
    Gone,
    /// It has said something that cannot be: the reason.
    Nonsense(String),
}

impl Peer {
    /// A peer behind a socket, of which nothing is known.
    pub(crate) fn new(socket: Fd) -> Peer {
        let pid = socket::peer(socket.raw()).map_or(0, |peer| peer.pid);
        Peer { socket, pid, hello: None, answer: None }
    }

    /// The descriptor to poll.
    pub(crate) fn raw(&self) -> i32 {
        self.socket.raw()
    }

    /// Sends the channel.
    pub(crate) fn welcome(&self, geometry: Geometry, memfd: &Fd) -> bool {
        self.send(&Message::Welcome(geometry), &[memfd.raw()])
    }

    /// Sends it away.
    pub(crate) fn refuse(&self) -> bool {
        self.send(&Message::Refused(Refusal::Ending), &[])
    }

    /// Tells it to switch everything off.
    pub(crate) fn stop(&self) -> bool {
        self.send(&Message::Stop, &[])
    }

    /// A peer that does not empty its socket is not waited for.
    fn send(&self, message: &Message<'_>, fds: &[i32]) -> bool {
        let mut buffer = vec![0; MESSAGE_MAX];
        message
            .encode(&mut buffer)
            .is_some_and(|bytes| socket::send(self.raw(), bytes, fds, Wait::No).is_ok())
    }

    /// Receives and serves one message; `None` when there is none. `learn` is called for each new event.
    pub(crate) fn serve(&mut self, events: &mut Events, learn: impl FnMut(Steps)) -> Option<Said> {
        let mut buffer = vec![0; MESSAGE_MAX + 1];
        let received = match socket::receive(self.raw(), &mut buffer, Wait::No) {
            Ok(received) if received.len == 0 => return Some(Said::Gone),
            Ok(received) => received,
            Err(mote_sys::Errno(libc::EAGAIN | libc::EINTR)) => return None,
            Err(_) => return Some(Said::Gone),
        };
        Some(self.understand(&buffer[..received.len], events, learn))
    }

    /// Understands a message that has been received.
    pub(crate) fn understand(&mut self, bytes: &[u8], events: &mut Events, learn: impl FnMut(Steps)) -> Said {
        match Message::decode(bytes) {
            Ok(Message::Hello(hello)) if self.hello.is_none() => {
                self.hello = Some(hello);
                Said::Hello(hello)
            }
            Ok(Message::Events { texts, .. }) if self.hello.is_some() => self.announced(texts, events, learn),
            Ok(Message::Ready(ready)) if self.hello.is_some() => Said::Ready(ready),
            Ok(_) => Said::Nonsense("message out of turn".to_owned()),
            Err(error) => Said::Nonsense(error.to_string()),
        }
    }

    fn announced(&self, texts: &[u8], events: &mut Events, mut learn: impl FnMut(Steps)) -> Said {
        let mut new = Vec::new();
        let mut words = Vec::new();
        let mut wrong = None;
        for text in mote_wire::texts(texts) {
            let word = match events.announce(text) {
                Announced::New(id) => {
                    new.push(id);
                    learn(events.description(id).map(|event| Steps::of(&event)).unwrap_or_default());
                    events.word(id)
                }
                Announced::Known(id) => events.word(id),
                Announced::Malformed(error) => {
                    wrong = Some(error.to_string());
                    0
                }
                Announced::TooMany => {
                    wrong =
                        Some("session has as many events as it can hold; choose fewer libraries".to_owned());
                    0
                }
            };
            words.extend(word.to_le_bytes());
        }
        Said::Events { new, words, wrong }
    }

    /// Sends the ids of announced events, if it waits for them.
    pub(crate) fn send_answer(&mut self) {
        if let Some(words) = self.answer.take() {
            self.send(&Message::Ids(&words), &[]);
        }
    }

    /// True for the connection that lives as long as its process.
    pub(crate) fn is_process(&self) -> bool {
        self.hello.is_some_and(|hello| hello.how != How::Library)
    }
}
