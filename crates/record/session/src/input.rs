//! What happens to a session.

use crate::ending::{Command, Outlook, Signal};
use crate::groups::GroupId;
use crate::peer::{PeerId, Seen, Way};
use crate::stage::Left;
use crate::trust::Guard;
use mote_filter::Rule;
use mote_sys::Errno;
use mote_sys::socket::Credentials;

/// Something that has happened, or the answer to an [`crate::Action`].
#[derive(Debug)]
pub enum Input<'i> {
    /// A connection was made.
    Connected {
        /// Its number, which no other one has had.
        peer: PeerId,
        /// Through the mailbox or the listener.
        way: Way,
        /// The process that has made it.
        sender: Credentials,
        /// Which processes may come this way.
        guard: Guard,
    },
    /// A message has come.
    Message {
        /// Over which connection.
        peer: PeerId,
        /// The process that has sent it, as the kernel says.
        sender: Option<Credentials>,
        /// The message (`mote_wire::Message`).
        bytes: &'i [u8],
    },
    /// A connection was closed at the other end.
    HungUp {
        /// The connection.
        peer: PeerId,
        /// Its process still runs.
        runs: bool,
    },
    /// Answer to [`crate::Action::Look`].
    Looked {
        /// The connection.
        peer: PeerId,
        /// What was seen.
        seen: Seen,
    },
    /// Answer to [`crate::Action::MakeRings`].
    Rings {
        /// The group whose processes share the rings.
        group: GroupId,
        /// True when the rings were made.
        made: bool,
    },
    /// Rings cannot be made ahead ([`crate::Action::PrepareRings`]).
    NotAhead,
    /// Answer to a letter that wants one ([`crate::Action::Send`]).
    Sent {
        /// To which connection.
        peer: PeerId,
        /// Which letter.
        receipt: Receipt,
        /// It was taken.
        done: Result<(), SendError>,
    },
    /// All messages that have come in this round of the event loop were given in.
    RoundEnds,
    /// Time has passed.
    Tick,
    /// A person asks for something.
    Request {
        /// What the answer will name.
        ticket: Ticket,
        /// What is asked.
        request: Request,
    },
    /// Answer to [`crate::Action::ChangeKernel`]: how many patterns it meant, or why it was not done.
    KernelChanged {
        /// The request.
        ticket: Ticket,
        /// What came of it.
        done: Result<usize, String>,
    },
    /// Something is wrong that others than the session have noticed.
    Problem {
        /// What it is about.
        kind: crate::Kind,
        /// The process that has caused it, or 0.
        pid: i32,
        /// For a person.
        text: String,
    },
    /// A thread has introduced itself.
    Thread {
        /// Its id.
        tid: u32,
        /// Its process.
        pid: u32,
        /// When, in ticks of the trace clock.
        at: u64,
        /// Its name.
        name: String,
    },
    /// Something is in the rings of a group that no event can be.
    Damaged(GroupId),
    /// The rings of a group are not read any more.
    Ended(GroupId),
    /// Answer to [`crate::Action::AskSnapshot`] and [`crate::Action::AskFigures`]: the number to wait for.
    Asked {
        /// The request.
        ticket: Ticket,
        /// What the consumer will name.
        number: u64,
    },
    /// The snapshots that were asked for up to this number are one; its path, or why there is none.
    Snapshot(u64, Result<String, String>),
    /// What was in the rings when this number was asked for is in the figures.
    Figures(u64),
    /// Rules have functions sampled from now on: those of these patterns, and no others.
    Sample(Vec<String>),
    /// Answer to [`crate::Action::MakeWords`]: the words are there, or why not, for a person.
    Words(Result<(), String>),
    /// A signal has arrived that asks for the end.
    Signal {
        /// What the signal asks for.
        signal: Signal,
        /// How the command is.
        command: Command,
    },
    /// A round of the event loop is over, and so it looks around the session.
    Outlook(Outlook),
    /// The recording ends ([`crate::Action::End`]): all processes are to switch off, and no more are let in.
    Ending,
    /// A round of the event loop while the recording ends.
    Left(Left),
    /// Everything that was recorded has been read: nothing more will be reported.
    Read,
}

/// A request, by which its answer is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a person can ask of a session.
#[derive(Clone, Debug)]
pub enum Request {
    /// These rules from now on, too.
    Enable {
        /// About events of processes.
        rules: Vec<Rule>,
        /// About events of the kernel.
        kernel: Vec<Rule>,
    },
    /// No rule with one of these patterns any more; where there is none, no rule about their events.
    Disable {
        /// The patterns.
        patterns: Vec<String>,
        /// Those of kernel events.
        kernel: Vec<String>,
    },
    /// A snapshot of the flight recorder.
    Snapshot,
    /// How it is.
    Status,
    /// Another recorder wants a process of this session, too.
    Join {
        /// The process.
        pid: i32,
        /// Where the other recorder is (`mote_wire::ENVIRONMENT`).
        place: String,
        /// Its mailbox; `None` when none came with the request.
        mailbox: Option<MailboxId>,
    },
}

/// A mailbox of another recorder, which the event loop holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxId(pub u64);

/// A message of which the session has to know whether it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The welcome.
    Welcome,
    /// Other rings; `Some` is the group whose rings they replace.
    Renew(Option<GroupId>),
    /// That it is not admitted, for want of memory.
    RefusedMemory,
    /// The newest filters.
    Filters,
    /// Another recorder's invitation, on this request.
    Invitation(Option<Ticket>),
}

/// Why a letter was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The process has ended, or the connection is closed.
    Gone,
    /// The process has locked itself in (seccomp), and would be killed for listening.
    Locked,
    /// There is no memory for what goes with it: why, for a person.
    Memory(String),
    /// As send(2).
    System(Errno),
}
