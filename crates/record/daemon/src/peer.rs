//! The conversation with one process. Nothing that it says is trusted.

use crate::events::Announced;
use crate::locked::Lock;
use crate::trace::Trace;
use crate::trust::Guard;
use mote_ring::reader::Channel;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::socket::{self, Credentials, Wait};
use mote_wire::{Hello, How, ID_ON, MESSAGE_MAX, Message, Ready, Reason, Refusal, Whose};
use std::time::Instant;

/// One process, or one of its libraries.
pub(crate) struct Peer {
    socket: Fd,
    guard: Guard,
    /// Process id in our namespace, 0 when it has none here. This, the user and the group are what the kernel says of the sender of its hello; before that, of who
    /// has connected.
    pub(crate) pid: i32,
    /// Its real user.
    pub(crate) uid: u32,
    /// Its real group.
    pub(crate) gid: u32,
    /// Since when there is a connection.
    pub(crate) since: Instant,
    /// What it said at first.
    pub(crate) hello: Option<Hello>,
    /// The ids of events that it has announced, until the metadata knows them; `None` for one that was not taken.
    pub(crate) answer: Option<Vec<Option<u32>>>,
    /// The newest filters that it was sent.
    generation: u32,
    /// It was sent what it shares with the kernel's side and with others.
    pub(crate) cooperates: bool,
    /// The group that it shares rings with.
    pub(crate) group: Option<u64>,
    /// It has said that its sites are armed.
    is_ready: bool,
    /// Its program goes on although it is not ready.
    pub(crate) goes_on: bool,
    /// Number of its process's area.
    pub(crate) area: Option<u32>,
    /// Words that it wants.
    pub(crate) wish: Option<Wish>,
    /// Whether it may be spoken to.
    pub(crate) lock: Lock,
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
    /// It writes to its new rings only.
    Renewed,
    /// It does not wait for its welcome any more.
    GoesOn,
    /// It has loaded filters.
    Installed {
        /// Events with a filter that is interpreted.
        interpreted: u32,
        /// Events that stay off because their filter was refused.
        refused: u32,
        /// Why the first of them was.
        why: String,
    },
    /// It does not want to be recorded.
    Declined(Reason),
    /// It cannot be recorded, for the reason of this error number.
    Failed(Errno),
    /// It has given us a socket that keeps what is sent to it.
    Keeper,
    /// It has gone.
    Gone,
    /// It has said something that cannot be: the reason.
    Nonsense(String),
}

impl Peer {
    /// A peer behind a socket that it has sent us, or connected.
    ///
    /// # Errors
    /// Why it is not let in, for a person.
    pub(crate) fn new(socket: Fd, who: Credentials, guard: Guard) -> Result<Peer, String> {
        guard.admit(who)?;
        // A socket of another kind would say of nobody who has sent what.
        if !socket::is_messages(socket.raw()) || socket::pass_credentials(socket.raw()).is_err() {
            return Err(format!("process {} said nonsense at the door: it has sent no socket", who.pid));
        }
        Ok(Peer {
            socket,
            guard,
            pid: who.pid,
            uid: who.uid,
            gid: who.gid,
            since: Instant::now(),
            hello: None,
            answer: None,
            generation: 0,
            cooperates: false,
            group: None,
            is_ready: false,
            goes_on: false,
            area: None,
            wish: None,
            lock: Lock::default(),
        })
    }

    /// The descriptor to poll.
    pub(crate) fn raw(&self) -> i32 {
        self.socket.raw()
    }

    /// Sends a channel, and the maps that go with it if there are some.
    pub(crate) fn welcome(&self, whose: Whose, channel: &Channel, maps: Option<&Fd>) -> bool {
        self.send_channel(&Message::Welcome(whose, channel.geometry()), channel, maps)
    }

    /// Sends another channel to be used from now on, and the maps that go with it if there are some.
    pub(crate) fn renew(&self, channel: &Channel, maps: Option<&Fd>) -> bool {
        self.send_channel(&Message::Renew(channel.geometry()), channel, maps)
    }

    fn send_channel(&self, message: &Message<'_>, channel: &Channel, maps: Option<&Fd>) -> bool {
        let fds: Vec<i32> = std::iter::once(channel.memfd()).chain(maps).map(Fd::raw).collect();
        self.send(message, &fds)
    }

    /// Sends it away.
    pub(crate) fn refuse(&self, why: Refusal) -> bool {
        self.send(&Message::Refused(why), &[])
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

    /// # Errors
    /// As send(2); `EACCES` when the process has locked itself in, and would be killed for listening.
    fn try_send(&self, message: &Message<'_>, fds: &[i32]) -> Result<(), Errno> {
        if self.lock.is_locked(self.pid) {
            return Err(Errno(libc::EACCES));
        }
        let mut buffer = vec![0; MESSAGE_MAX];
        let bytes = message.encode(&mut buffer).ok_or(Errno(libc::EMSGSIZE))?;
        socket::send(self.raw(), bytes, fds, Wait::No)
    }

    /// Receives and serves one message; `None` when there is none. New events are announced to `trace`, at most `room`.
    pub(crate) fn serve(&mut self, trace: &mut Trace, room: usize) -> Option<Said> {
        let mut buffer = vec![0; MESSAGE_MAX + 1];
        let received = match socket::receive(self.raw(), &mut buffer, Wait::No) {
            Ok(received) if received.len == 0 => return Some(Said::Gone),
            Ok(received) => received,
            Err(mote_sys::Errno(libc::EAGAIN | libc::EINTR)) => return None,
            Err(_) => return Some(Said::Gone),
        };
        let Some(sender) = received.sender.filter(|sender| sender.pid == self.pid) else {
            let other = received.sender.map_or(0, |sender| sender.pid);
            return Some(Said::Nonsense(format!("a message of process {other} came in its place")));
        };
        let bytes = buffer.get(..received.len).unwrap_or(&[]);
        if self.hello.is_some() && Message::decode(bytes) == Ok(Message::Keeper) {
            self.lock.keep_by(received.fds.into_iter().flatten().next());
            return Some(Said::Keeper);
        }
        Some(self.understand(bytes, sender, trace, room))
    }

    /// Understands a message that has been received from `sender`.
    pub(crate) fn understand(
        &mut self,
        bytes: &[u8],
        sender: Credentials,
        trace: &mut Trace,
        room: usize,
    ) -> Said {
        match Message::decode(bytes) {
            Ok(Message::Hello(hello)) if self.hello.is_none() => {
                if let Err(why) = self.guard.admit(sender) {
                    return Said::Nonsense(why);
                }
                (self.pid, self.uid, self.gid) = (sender.pid, sender.uid, sender.gid);
                self.hello = Some(hello);
                self.lock.begin(self.pid, hello.how);
                Said::Hello(hello)
            }
            Ok(Message::Events { texts, .. }) if self.hello.is_some() => self.announced(texts, trace, room),
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
                self.lock.listens();
                Said::Ready(ready)
            }
            Ok(Message::GoesOn) if self.hello.is_some() => {
                self.goes_on = true;
                self.lock.listens();
                Said::GoesOn
            }
            Ok(Message::Renewed) if self.hello.is_some() => Said::Renewed,
            Ok(Message::Failed(errno)) if self.hello.is_some() => Said::Failed(Errno(errno as i32)),
            Ok(Message::Declined(why)) if self.hello.is_some() => Said::Declined(why),
            Ok(_) => Said::Nonsense("message out of turn".to_owned()),
            Err(error) => Said::Nonsense(error.to_string()),
        }
    }

    fn announced(&self, texts: &[u8], trace: &mut Trace, room: usize) -> Said {
        let mut new = Vec::new();
        let mut ids = Vec::new();
        let mut wrong = None;
        for text in mote_wire::texts(texts) {
            let known = trace.events.id_of(text).map(Announced::Known);
            let announced = known.unwrap_or_else(|| match new.len() < room {
                true => trace.announce(text),
                false => Announced::TooMany,
            });
            ids.push(match announced {
                Announced::New(id) => {
                    new.push(id);
                    Some(id)
                }
                Announced::Known(id) => Some(id),
                Announced::Malformed(error) => {
                    wrong.get_or_insert_with(|| error.to_string());
                    None
                }
                Announced::TooMany => {
                    wrong.get_or_insert_with(|| match room {
                        usize::MAX => {
                            "session has as many events as it can hold; choose fewer libraries".to_owned()
                        }
                        _ => format!("processes of user {} have announced as many as they may", self.uid),
                    });
                    None
                }
            });
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

    /// A process that was let in, and of which nothing can be recorded yet.
    pub(crate) fn is_unready(&self) -> bool {
        self.hello.is_some_and(|hello| hello.how != How::Apart && hello.how.wants_rings()) && !self.is_ready
    }

    /// True for a process that leaves when it is asked to.
    pub(crate) fn can_leave(&self) -> bool {
        self.is_process() && !self.lock.is_locked(self.pid)
    }

    /// True for a process whose thread listens by now: before, it expects answers only, and a word out of turn would end its handshake. A child of fork listens from its hello on.
    pub(crate) fn listens(&self) -> bool {
        self.is_process() && (self.is_ready || self.hello.is_some_and(|hello| hello.how.is_child()))
    }

    /// True for the connection that lives as long as its process.
    pub(crate) fn is_process(&self) -> bool {
        self.hello.is_some_and(|hello| hello.how != How::Library)
    }
}
