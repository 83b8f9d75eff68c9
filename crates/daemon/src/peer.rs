//! The conversation with one process. Nothing that it says is trusted.

use crate::events::Announced;
use crate::trace::Trace;
use mote_ring::Geometry;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Wait};
use mote_wire::{Hello, How, ID_ON, MESSAGE_MAX, Message, Ready, Reason, Refusal};

/// One process, or one of its libraries.
pub(crate) struct Peer {
    socket: Fd,
    /// Process id in our namespace, 0 when it has none here.
    pub(crate) pid: i32,
    /// What it said at first.
    pub(crate) hello: Option<Hello>,
    /// It has said that its sites are armed.
    is_ready: bool,
    /// The ids of events that it has announced, until the metadata knows them; `None` for one that was not taken.
    pub(crate) answer: Option<Vec<Option<u32>>>,
    /// The newest filters that it was sent.
    generation: u32,
    /// It was sent what it shares with the kernel's side and with others.
    pub(crate) cooperates: bool,
    /// Number of its process's area.
    pub(crate) area: Option<u32>,
    /// Words that it wants.
    pub(crate) wish: Option<Wish>,
}

/// Words of the shared memory that a process has asked for.
pub(crate) struct Wish {
    pub(crate) name: String,
    pub(crate) words: u32,
    pub(crate) each_thread: bool,
}

/// What a message came to.
pub(crate) enum Said {
    /// A process is here; it waits for its welcome when it has just started.
    Hello(Hello),
    /// It has announced events.
    Events {
        /// Those that nobody had announced before.
        new: Vec<u32>,
        /// The ids of all, to be sent once the metadata knows the new ones; `None` for one that was not taken.
        ids: Vec<Option<u32>>,
        /// Why some were not taken.
        wrong: Option<String>,
    },
    /// It wants words of the shared memory.
    Wish(Wish),
    /// It has armed its sites.
    Ready(Ready),
    /// It has loaded filters.
    Installed {
        /// Events with a filter that is interpreted.
        interpreted: u32,
        /// Events that stay off because their filter was refused.
        refused: u32,
        /// Why the first of them was.
        why: String,
    },
    /// It does not want to be recorded, because it is in too many sessions.
    Declined,
    /// It has gone.
    Gone,
    /// It has said something that cannot be: the reason.
    Nonsense(String),
}

impl Peer {
    /// A peer behind a socket, of which nothing is known.
    pub(crate) fn new(socket: Fd) -> Peer {
        let pid = socket::peer(socket.raw()).map_or(0, |peer| peer.pid);
        Peer {
            socket,
            pid,
            hello: None,
            is_ready: false,
            answer: None,
            generation: 0,
            cooperates: false,
            area: None,
            wish: None,
        }
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

    /// The other end was closed.
    pub(crate) fn has_hung_up(&self) -> bool {
        let mut polled = [libc::pollfd { fd: self.raw(), events: libc::POLLRDHUP, revents: 0 }];
        let answered = socket::wait_any(&mut polled, 0).is_ok();
        answered && polled[0].revents & (libc::POLLRDHUP | libc::POLLHUP) != 0
    }

    /// Tells it of another session that wants it, too.
    pub(crate) fn invite(&self, place: &str, mailbox: &Fd) -> bool {
        self.send(&Message::Join { place: place.as_bytes() }, &[mailbox.raw()])
    }

    /// A peer that does not empty its socket is not waited for.
    pub(crate) fn send(&self, message: &Message<'_>, fds: &[i32]) -> bool {
        self.try_send(message, fds).is_ok()
    }

    fn try_send(&self, message: &Message<'_>, fds: &[i32]) -> Result<(), Errno> {
        let mut buffer = vec![0; MESSAGE_MAX];
        let bytes = message.encode(&mut buffer).ok_or(Errno(libc::EMSGSIZE))?;
        socket::send(self.raw(), bytes, fds, Wait::No)
    }

    /// Receives and serves one message; `None` when there is none. New events are announced to `trace`.
    pub(crate) fn serve(&mut self, trace: &mut Trace) -> Option<Said> {
        let mut buffer = vec![0; MESSAGE_MAX + 1];
        let received = match socket::receive(self.raw(), &mut buffer, Wait::No) {
            Ok(received) if received.len == 0 => return Some(Said::Gone),
            Ok(received) => received,
            Err(mote_sys::Errno(libc::EAGAIN | libc::EINTR)) => return None,
            Err(_) => return Some(Said::Gone),
        };
        Some(self.understand(&buffer[..received.len], trace))
    }

    /// Understands a message that has been received.
    pub(crate) fn understand(&mut self, bytes: &[u8], trace: &mut Trace) -> Said {
        match Message::decode(bytes) {
            Ok(Message::Hello(hello)) if self.hello.is_none() => {
                self.hello = Some(hello);
                Said::Hello(hello)
            }
            Ok(Message::Events { texts, .. }) if self.hello.is_some() => self.announced(texts, trace),
            Ok(Message::Installed(done)) if self.hello.is_some() => Said::Installed {
                interpreted: done.interpreted,
                refused: done.refused,
                why: String::from_utf8_lossy(done.why).replace(char::is_control, "?"),
            },
            Ok(Message::Share { words, each_thread, name }) if self.hello.is_some() => {
                let name = String::from_utf8_lossy(name).into_owned();
                Said::Wish(Wish { name, words, each_thread })
            }
            Ok(Message::Ready(ready)) if self.hello.is_some() => {
                self.is_ready = true;
                Said::Ready(ready)
            }
            Ok(Message::Declined(Reason::Full)) if self.hello.is_some() => Said::Declined,
            Ok(_) => Said::Nonsense("message out of turn".to_owned()),
            Err(error) => Said::Nonsense(error.to_string()),
        }
    }

    fn announced(&self, texts: &[u8], trace: &mut Trace) -> Said {
        let mut new = Vec::new();
        let mut ids = Vec::new();
        let mut wrong = None;
        for text in mote_wire::texts(texts) {
            let id = match trace.announce(text) {
                Announced::New(id) => {
                    new.push(id);
                    Some(id)
                }
                Announced::Known(id) => Some(id),
                Announced::Malformed(error) => {
                    wrong = Some(error.to_string());
                    None
                }
                Announced::TooMany => {
                    wrong =
                        Some("session has as many events as it can hold; choose fewer libraries".to_owned());
                    None
                }
            };
            ids.push(id);
        }
        Said::Events { new, ids, wrong }
    }

    /// Sends the newest filters, if it does not have them.
    ///
    /// # Errors
    /// As send(2), most often because it has ended.
    pub(crate) fn send_filters(&mut self, generation: u32, maps: &Fd, bundle: &Fd) -> Result<(), Errno> {
        if self.generation >= generation {
            return Ok(());
        }
        self.generation = generation;
        self.try_send(&Message::Filters { generation }, &[maps.raw(), bundle.raw()])
    }

    /// Sends the ids of announced events, if it waits for them. Before that it must have the filters.
    pub(crate) fn send_answer(&mut self, is_on: impl Fn(u32) -> bool) {
        let Some(ids) = self.answer.take() else { return };
        let word = |id: Option<u32>| id.map_or(0, |id| id | if is_on(id) { ID_ON } else { 0 });
        let words: Vec<u8> = ids.into_iter().flat_map(|id| word(id).to_le_bytes()).collect();
        self.send(&Message::Ids(&words), &[]);
    }

    /// True for a process whose thread listens by now: before, it expects answers only, and a word out of turn would end its handshake. A child of fork listens from its hello on.
    pub(crate) fn listens(&self) -> bool {
        self.is_process() && (self.is_ready || self.hello.is_some_and(|hello| hello.how == How::Fork))
    }

    /// True for the connection that lives as long as its process.
    pub(crate) fn is_process(&self) -> bool {
        self.hello.is_some_and(|hello| hello.how != How::Library)
    }
}
