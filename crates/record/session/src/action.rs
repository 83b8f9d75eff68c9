//! What a session wants done.

use crate::groups::{Change, GroupId, Make};
use crate::input::{MailboxId, Receipt, Ticket};
use crate::peer::PeerId;
use mote_filter::Rule;
use mote_journal::{Fact, Process};
use mote_ring::Geometry;
use mote_wire::{Refusal, Whose};

/// Something to be done, in the order in which the actions come out.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Look at the process behind a connection; answered by [`crate::Input::Looked`].
    Look {
        /// The connection.
        peer: PeerId,
        /// Its process, 0 when it is not visible here.
        pid: i32,
        /// Its user.
        uid: u32,
        /// How it came.
        how: mote_wire::How,
        /// The id by which it calls itself.
        said: u32,
    },
    /// Make rings, and have the consumer read them; answered by [`crate::Input::Rings`].
    MakeRings(Make),
    /// Make rings ahead, on a thread of their own.
    PrepareRings(Geometry),
    /// Tell the consumer what becomes of rings.
    Rings(Change),
    /// Let go of rings that are not read any more.
    DropRings(GroupId),
    /// Send something over a connection.
    Send(PeerId, Letter),
    /// Close a connection.
    Close(PeerId),
    /// A process was let in.
    Admitted {
        /// Its connection.
        peer: PeerId,
        /// The id by which it calls itself.
        pid: u32,
        /// Its connection lives as long as itself.
        is_process: bool,
    },
    /// A process has gone that was let in.
    Left {
        /// Its connection.
        peer: PeerId,
        /// The id by which it called itself.
        pid: u32,
    },
    /// Give a process what it shares with the kernel's programs, and with others.
    Cooperate(PeerId),
    /// Give a process words of the shared memory by their name.
    Share {
        /// Its connection.
        peer: PeerId,
        /// The name.
        name: String,
        /// How many.
        words: u32,
        /// Each thread has its own.
        each_thread: bool,
    },
    /// Give a process memory for the counts of a plan.
    GiveCounts {
        /// Its connection.
        peer: PeerId,
        /// The plan's number.
        number: u64,
    },
    /// A process has given us a socket that keeps what is sent to it.
    Keep(PeerId),
    /// The conversation with a program is over: its thread listens from now on.
    Listens(PeerId),
    /// Let readers of rings know how to walk the records of this event.
    KnowEvent(u32),
    /// Write where these events come from into the journal, then the metadata with all events.
    PublishEvents(Vec<u32>),
    /// Write a fact into the journal.
    Note(Fact),
    /// Write a process into the journal, with the build ids of its mappings.
    NoteProcess {
        /// Its id here, for the build ids.
        pid: i32,
        /// The process.
        process: Process,
    },
    /// The newest filters.
    Bundle {
        /// Their number.
        generation: u32,
        /// Encoded (`mote_wire::bundle`).
        bytes: Vec<u8>,
    },
    /// Rules speculate from now on.
    Speculate,
    /// Make the words that all processes share; answered by [`crate::Input::Words`].
    MakeWords,
    /// Change the rules on kernel events; answered by [`crate::Input::KernelChanged`].
    ChangeKernel {
        /// The request.
        ticket: Ticket,
        /// What is changed.
        change: KernelChange,
    },
    /// Attach what rules on kernel state need, if they do.
    BeginCooperation,
    /// Ask the consumer for a snapshot, for which this request waits.
    AskSnapshot(Ticket),
    /// Ask the consumer for figures, for which this request waits.
    AskFigures(Ticket),
    /// Let go of another recorder's mailbox.
    DropMailbox(MailboxId),
    /// Answer a request.
    Answer {
        /// The request.
        ticket: Ticket,
        /// It was done.
        done: bool,
        /// For a person.
        text: String,
    },
    /// Answer a request with how it is.
    AnswerStatus {
        /// The request.
        ticket: Ticket,
        /// To be put behind it.
        remark: &'static str,
    },
    /// Pass the signal of this number on to the command.
    PassOn(i32),
    /// The recording is over: end it. Comes once, and is answered by [`crate::Input::Ending`].
    End,
    /// Processes have switched off: let no more in, and read the rings to the end.
    ReadToEnd,
    /// Everything was read: write what is known now, and tell by [`crate::Input::Read`] when nothing more will be
    /// reported.
    WriteEnd,
    /// Nothing is left to wait for: write the last line, and say what the recording came to.
    Finish,
    /// Tell a person something good to know.
    Say(String),
    /// Report a problem: to a person, and in the journal.
    Report(String),
}

/// A change of the rules on kernel events.
#[derive(Clone, Debug)]
pub enum KernelChange {
    /// More rules.
    Enable(Vec<Rule>),
    /// No rule with one of these patterns.
    Disable(Vec<String>),
}

impl PartialEq for KernelChange {
    fn eq(&self, other: &KernelChange) -> bool {
        match (self, other) {
            (KernelChange::Enable(one), KernelChange::Enable(other)) => {
                one.iter().map(Rule::source).eq(other.iter().map(Rule::source))
            }
            (KernelChange::Disable(one), KernelChange::Disable(other)) => one == other,
            _ => false,
        }
    }
}

/// What is sent to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letter {
    /// Its rings, and the memory of filters if `with_maps`. Wants a receipt.
    Welcome {
        /// The group.
        group: GroupId,
        /// Which other users may have them.
        whose: Whose,
        /// The memory of filters goes with them.
        with_maps: bool,
    },
    /// Other rings. Wants a receipt.
    Renew {
        /// The group.
        group: GroupId,
        /// The group whose rings they replace.
        instead: Option<GroupId>,
        /// The memory of filters goes with them.
        with_maps: bool,
    },
    /// It is sent away. Wants a receipt when there was no memory.
    Refused(Refusal),
    /// The newest filters, with the memory of this group. Wants a receipt.
    Filters {
        /// The group.
        group: GroupId,
        /// Their number.
        generation: u32,
    },
    /// The ids of events that it has announced, as `mote_wire::Message::Ids` has them.
    Ids(Vec<u32>),
    /// Another recorder wants it, too. Wants a receipt.
    Invitation {
        /// Where that recorder is.
        place: String,
        /// Its mailbox.
        mailbox: MailboxId,
        /// The request that this comes from.
        ticket: Option<Ticket>,
    },
    /// Another copy of the library in the process replaces return addresses (`mote_wire::Message::Replaces`).
    Replaces(u64),
    /// It is to switch everything off.
    Stop,
}

impl Letter {
    /// The receipt that the session wants, if it wants one.
    pub fn receipt(&self) -> Option<Receipt> {
        match self {
            Letter::Welcome { .. } => Some(Receipt::Welcome),
            Letter::Renew { instead, .. } => Some(Receipt::Renew(*instead)),
            Letter::Refused(Refusal::Memory) => Some(Receipt::RefusedMemory),
            Letter::Filters { .. } => Some(Receipt::Filters),
            Letter::Invitation { ticket, .. } => Some(Receipt::Invitation(*ticket)),
            Letter::Refused(_) | Letter::Ids(_) | Letter::Replaces(_) | Letter::Stop => None,
        }
    }
}
