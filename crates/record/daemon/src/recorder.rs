//! The recorder around a session (`mote_session`): what has happened goes in there, and what comes out is done here,
//! with sockets, rings, files and the kernel.
//!
//! | module | job |
//! |---|---|
//! | `round` | one round of the event loop |
//! | `arrivals` | processes that connect, and what they say |
//! | `perform` | what the session wants done |
//! | `post` | letters to processes |
//! | `requests` | what persons and other recorders ask |
//! | `notices` | what the consumer has noticed |
//! | `attach` | running processes that are to be recorded, too |
//! | `agents` | processes that have locked themselves in, or of which only the agent's thread is left |
//! | `facts` | metadata and journal, and whether they are still there |
//! | `aggregates` | counts and histograms of filters: shown and written |
//! | `snapshots` | snapshots of a flight recorder, made whole |
//! | `ownership` | whose the recording is to be |
//! | `finish` | the end |

mod agents;
mod aggregates;
mod arrivals;
mod attach;
mod cooperation;
mod facts;
mod finish;
pub(crate) mod group_areas;
mod kernel;
mod notices;
mod ownership;
mod perform;
mod post;
mod requests;
pub(crate) mod rings;
mod round;
mod snapshots;
mod spare;

use crate::command::Command;
use crate::consumer::{ConsumerThread, Notice, Shared};
use crate::control::Answer;
use crate::cooperation::Cooperation;
use crate::kernel::Kernel;
use crate::options::Options;
use crate::output::owner::Owner;
use crate::recorder::group_areas::GroupAreas;
use crate::recorder::rings::Rings;
use crate::registration::attached::Attached;
use crate::registration::awaited::Awaited;
use crate::registration::backlog::Backlog;
use crate::registration::connection::Connection;
use crate::registration::turns::Turns;
use crate::samples::Samples;
use crate::trace::Trace;
use crate::watch::Watch;
use mote_clock::Source;
use mote_session::{Kind, MailboxId, PeerId, Session, Ticket};
use mote_symbol::collect::BuildIds;
use mote_sys::fd::Fd;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

pub(crate) use round::{TICK, TICK_SOON};

/// A recording, with everything that it holds.
pub(crate) struct Recorder<'w> {
    /// The thread that empties the rings. First: it ends before directories are given up.
    pub(crate) consumer: ConsumerThread,
    pub(crate) hear: Receiver<Notice>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
    pub(crate) watch: &'w mut dyn Watch,
    pub(crate) session: Session,
    /// Actions are being done.
    pub(crate) performs: bool,
    pub(crate) connections: BTreeMap<PeerId, Connection>,
    /// Connections so far.
    pub(crate) accepted: u64,
    /// Whose turn is the first.
    pub(crate) first: PeerId,
    /// A connection has more to say than there was time for.
    pub(crate) pressed: bool,
    /// Hellos that came through a mailbox and wait for their turn.
    pub(crate) backlog: Backlog,
    pub(crate) turns: Turns,
    pub(crate) rings: Rings,
    /// What groups of processes share beside their rings.
    pub(crate) areas: GroupAreas,
    /// The newest filters.
    pub(crate) bundle: Option<Fd>,
    /// Mailboxes of other recorders.
    pub(crate) mailboxes: BTreeMap<MailboxId, Fd>,
    /// Answers to requests that are still to be given.
    pub(crate) answers: Vec<(Ticket, Answer)>,
    /// Columns of the terminals of those who ask how it is.
    pub(crate) columns: BTreeMap<Ticket, usize>,
    pub(crate) source: Source,
    pub(crate) samples: Samples,
    /// The kernel's side, if its events were asked for. Before `trace`: of two directories the inner one goes first.
    pub(crate) kernel: Option<Kernel>,
    /// What the processes write.
    pub(crate) trace: Trace,
    pub(crate) cooperation: Cooperation,
    /// Running processes that are recorded, too.
    pub(crate) attached: Attached,
    /// Those of them that other recordings have promised.
    pub(crate) awaited: Awaited,
    pub(crate) build_ids: BuildIds,
    /// Who is to have the recording.
    pub(crate) owner: Owner,
    pub(crate) began: Instant,
    /// When counts and histograms were last shown.
    pub(crate) shown: Instant,
    pub(crate) command: Option<Command>,
    /// The session has said that the recording is over.
    pub(crate) is_over: bool,
}

impl Recorder<'_> {
    /// How the command is.
    pub(crate) fn command_state(&mut self) -> mote_session::Command {
        match self.command.as_mut().map(Command::has_ended) {
            None => mote_session::Command::None,
            Some(false) => mote_session::Command::Runs,
            Some(true) => mote_session::Command::Ended,
        }
    }

    /// Reports a problem of the recorder itself.
    pub(crate) fn problem(&mut self, text: String) {
        self.problem_of(Kind::Recorder, 0, text);
    }

    /// Reports a problem that a process has caused, or has; of a process that causes too many, no more of that kind are
    /// reported.
    pub(crate) fn problem_of(&mut self, kind: Kind, pid: i32, text: String) {
        self.take(mote_session::Input::Problem { kind, pid, text });
    }
}
