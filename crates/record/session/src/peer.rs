//! One connection: a process, or one of its libraries. Nothing that it says is trusted.

use crate::groups::{GroupId, Principal, Rings};
use crate::trust::Guard;
use mote_sys::socket::Credentials;
use mote_wire::{Hello, How};
use std::time::Instant;

/// Number of a connection; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// How a connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its hello came through the mailbox, with its socket.
    Mailbox,
    /// It has connected to the listening socket.
    Listener,
}

/// What the session knows of a connection.
#[derive(Debug)]
pub struct Peer {
    pub(crate) guard: Guard,
    pub(crate) way: Way,
    /// Process id in our namespace, 0 when it has none here. This, the user and the group are what the kernel says of
    /// the sender of its hello; before that, of the process that has connected.
    pub(crate) pid: i32,
    /// Its real user.
    pub(crate) uid: u32,
    /// Since when there is a connection.
    pub(crate) since: Instant,
    /// What it said at first.
    pub(crate) hello: Option<Hello>,
    /// What was found out about its process.
    pub(crate) seen: Option<Seen>,
    /// The ids of events that it has announced, until the metadata has them; `None` for one that was not taken.
    pub(crate) announced: Option<Vec<Option<u32>>>,
    /// It has more events to announce before any of them occurs.
    pub(crate) has_more: bool,
    /// The newest filters that it was sent.
    pub(crate) generation: u32,
    /// Since when its connection has had no room for these.
    pub(crate) full_since: Option<Instant>,
    /// The group that it shares rings with.
    pub(crate) group: Option<GroupId>,
    /// The rings that are made for it, and what happens when they are there.
    pub(crate) awaits: Option<(Rings, Awaits)>,
    /// The session has taken it in: rings, journal.
    pub(crate) is_admitted: bool,
    /// It has said that its sites are armed.
    pub(crate) is_ready: bool,
    /// Its program goes on although it is not ready.
    pub(crate) goes_on: bool,
}

/// What happens to a connection when the rings of its group are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// It is welcomed.
    Welcome,
    /// It goes on in them, instead of those that it has inherited.
    Others,
    /// It goes on in them, instead of those of this group, which were damaged.
    Instead(GroupId),
}

/// What `/proc` says of a process that has said hello.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// It has ended, or is about to: nothing of it is missing from now on.
    pub has_ended: bool,
    /// Its id as it sees it itself; `None` when it has ended, or that cannot be known here.
    pub own_id: Option<u32>,
    /// Whose its memory is.
    pub principal: Principal,
    /// The same if it shares with no other process.
    pub alone: Principal,
    /// Path of its executable.
    pub exe: String,
    /// Its executable mappings.
    pub maps: Vec<mote_journal::Map>,
}

impl Peer {
    /// A connection that was just made.
    pub(crate) fn new(way: Way, sender: Credentials, guard: Guard, now: Instant) -> Peer {
        Peer {
            guard,
            way,
            pid: sender.pid,
            uid: sender.uid,
            since: now,
            hello: None,
            seen: None,
            announced: None,
            has_more: false,
            generation: 0,
            full_since: None,
            group: None,
            awaits: None,
            is_admitted: false,
            is_ready: false,
            goes_on: false,
        }
    }

    /// A process that was let in, and of which nothing can be recorded yet.
    pub(crate) fn is_unready(&self) -> bool {
        self.hello.is_some_and(|hello| hello.how != How::Apart && hello.how.wants_rings()) && !self.is_ready
    }

    /// Whether its thread listens by now. Before, it expects answers only, and a message out of turn would end its
    /// handshake. A child of fork listens from its hello on.
    pub fn listens(&self) -> bool {
        self.is_process() && (self.is_ready || self.hello.is_some_and(|hello| hello.how.is_child()))
    }

    /// Whether the connection lives as long as its process.
    pub fn is_process(&self) -> bool {
        self.hello.is_some_and(|hello| hello.how != How::Library)
    }

    /// Its process id in our namespace.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The user whose process it is, as the socket tells.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The group that it shares rings with.
    pub fn group(&self) -> Option<GroupId> {
        self.group
    }

    /// Whether it has said hello.
    pub fn has_said_hello(&self) -> bool {
        self.hello.is_some()
    }
}
