//! The recorder around a session (`mote_session`): what has happened goes in there, and what comes out is done here,
//! with sockets, rings, files and the kernel.
//!
//! | module | job |
//! |---|---|
//! | `round`, `arrivals`, `notices` | what has happened: one round of the event loop, what processes say, what the consumer has noticed |
//! | `perform` | what the session wants done |
//! | `sampled` | functions that are sampled when rules ask for that |
//! | `kernel`, `hardware`, `written`, `snapshots`, `status` | what concerns several of the parts below |
//! | `finish`, `outcome` | the end, and what the recording came to |
//! | `ways_in` | the ways in |
//! | `peers`, `post` | connections of processes; letters to them |
//! | `group_memory`, `rings`, `spare`, `group_areas` | what groups of processes are given |
//! | `requests` | what persons and other recorders ask |
//! | `subjects` | the command, and running processes that are recorded |
//! | `kernel_side`, `cooperation` | the kernel's trace and programs, and what processes share with them |
//! | `output`, `aggregates` | what is written beside the streams |
//! | `screen` | what a person is told meanwhile |
//! | `clock` | the recording's time |

mod aggregates;
mod arrivals;
pub(crate) mod clock;
mod cooperation;
mod finish;
pub(crate) mod group_areas;
pub(crate) mod group_memory;
mod hardware;
mod kernel;
pub(crate) mod kernel_side;
mod notices;
pub(crate) mod outcome;
pub(crate) mod output;
pub(crate) mod peers;
mod perform;
mod post;
pub(crate) mod requests;
pub(crate) mod rings;
mod round;
pub(crate) mod sampled;
pub(crate) mod screen;
mod snapshots;
mod spare;
mod status;
pub(crate) mod subjects;
pub(crate) mod ways_in;
mod written;

use crate::consumer::ConsumerThread;
use crate::hardware::Hardware;
use crate::options::Options;
use crate::profile::Profile;
use crate::recorder::clock::Clock;
use crate::recorder::group_memory::GroupMemory;
use crate::recorder::kernel_side::KernelSide;
use crate::recorder::outcome::Outcome;
use crate::recorder::output::Output;
use crate::recorder::peers::Peers;
use crate::recorder::requests::Requests;
use crate::recorder::sampled::Sampled;
use crate::recorder::screen::Screen;
use crate::recorder::subjects::Subjects;
use crate::recorder::ways_in::WaysIn;
use mote_session::{Kind, Session};

/// A recording, with everything that it holds: the session, and the parts that serve it.
pub(crate) struct Recorder<'w> {
    /// The thread that empties the rings. First: it ends before directories are given up.
    pub(crate) consumer: ConsumerThread,
    pub(crate) session: Session,
    /// Actions are being done.
    pub(crate) performs: bool,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    /// Closed at the end, when processes have switched off.
    pub(crate) ways_in: Option<WaysIn>,
    pub(crate) peers: Peers,
    pub(crate) memory: GroupMemory,
    pub(crate) requests: Requests,
    pub(crate) subjects: Subjects,
    /// Before `output`: of two directories the inner one goes first.
    pub(crate) kernel: KernelSide,
    /// The same of samples.
    pub(crate) profile: Option<Profile>,
    /// Functions that are sampled when rules ask for that.
    pub(crate) sampled: Option<Sampled>,
    /// The hardware trace.
    pub(crate) hardware: Option<Hardware>,
    pub(crate) output: Output,
    pub(crate) screen: Screen<'w>,
    pub(crate) outcome: Outcome,
}

impl Recorder<'_> {
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
