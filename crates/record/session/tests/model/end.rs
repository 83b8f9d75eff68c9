//! When a session is over, by the rules as a person would tell them.

use crate::World;
use crate::step::Begun;
use mote_session::{Command, Input, Left, Outlook, PeerId, Signal, Stage};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What is known of the end, and what has been said of it.
pub(crate) struct EndSeen {
    pub(crate) command: Command,
    pub(crate) attaches: bool,
    pub(crate) signals: i32,
    /// A signal has asked for the end while the command ran.
    pub(crate) is_asked: bool,
    /// The end was asked for so that nothing is waited for.
    pub(crate) is_cut: bool,
    /// The rounds so far, one after the other, in which neither command nor process was left: when, and whether no
    /// process could come any more.
    pub(crate) alone: Vec<(Instant, bool)>,
    /// Since when only the command's children are left, and whether a person was told.
    pub(crate) left_since: Option<Instant>,
    pub(crate) is_told: bool,
    /// Signals that were passed on.
    pub(crate) passed_on: Vec<i32>,
    /// The session has said that it is over; the event loop has begun to end it.
    pub(crate) is_over: bool,
    pub(crate) is_ending: bool,
    pub(crate) stopped: BTreeSet<PeerId>,
    /// What has come of the end, in this order, and since when it was waited for the next.
    done: Vec<EndStep>,
    since: Instant,
    /// Rounds in which it was waited for processes.
    rounds: u32,
}

/// What the session has done to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndStep {
    ReadToEnd,
    Write,
    TellOfCommand,
    Finish,
}

impl EndSeen {
    pub(crate) fn ended(&mut self, step: EndStep) {
        self.done.push(step);
    }

    pub(crate) fn new(begun: Begun) -> EndSeen {
        EndSeen {
            command: if begun.command { Command::Runs } else { Command::None },
            attaches: begun.attaches,
            signals: 0,
            is_asked: false,
            is_cut: false,
            alone: Vec::new(),
            left_since: None,
            is_told: false,
            passed_on: Vec::new(),
            is_over: false,
            is_ending: false,
            stopped: BTreeSet::new(),
            done: Vec::new(),
            since: Instant::now(),
            rounds: 0,
        }
    }
}

impl World {
    /// The command gets it, unless it has it from the terminal. Without a command that runs it is the end; else the
    /// second one is that is no Ctrl-C.
    pub(crate) fn signal(&mut self, from_terminal: bool, is_interrupt: bool) {
        self.end.signals += 1;
        let (number, command) = (self.end.signals, self.end.command);
        let passed_on = self.end.passed_on.len();
        self.take(Input::Signal { signal: Signal { number, from_terminal, is_interrupt }, command });
        let expected = (command == Command::Runs && !from_terminal).then_some(number);
        assert!(
            self.end.passed_on.iter().skip(passed_on).copied().eq(expected),
            "passed on to a command that runs"
        );
        self.end.is_cut |= command != Command::Runs || self.end.is_asked && !is_interrupt;
        self.end.is_asked = true;
    }

    /// Whether a round with this outlook is the last one.
    fn is_last(&mut self, outlook: &Outlook) -> bool {
        let left = self.session.processes().max(outlook.threads);
        if outlook.is_cut || self.end.is_cut {
            return true;
        }
        match outlook.command {
            Command::Runs => false,
            Command::None => outlook.attached == Some(true) && left == 0,
            Command::Ended if left > 0 && outlook.attached.is_none() => {
                self.end.alone.clear();
                self.end.left_since.get_or_insert(self.now.at);
                false
            }
            Command::Ended => {
                let before = self.end.alone.last().map(|(_, is_deserted)| *is_deserted);
                self.end.alone.push((self.now.at, outlook.is_deserted));
                let is_long = self.now.at - self.end.alone[0].0 >= Duration::from_secs(1);
                before.is_some_and(|was_deserted| was_deserted || is_long && self.end.alone.len() >= 5)
            }
        }
    }

    pub(crate) fn outlook(&mut self, outlook: Outlook) {
        if self.end.is_over {
            // The event loop ends the recording, and looks no more; if it did, nothing would come of it.
            return self.take(Input::Outlook(outlook));
        }
        let is_last = self.is_last(&outlook);
        let (was_told, since) = (self.end.is_told, self.end.left_since);
        let in_company = !is_last && outlook.command == Command::Ended && self.end.alone.is_empty();
        self.take(Input::Outlook(outlook));
        assert_eq!(self.end.is_over, is_last, "{outlook:?} after {:?}", self.end.alone);
        let is_long = since.is_some_and(|since| self.now.at - since >= Duration::from_millis(200));
        assert_eq!(
            self.end.is_told,
            was_told || in_company && is_long,
            "told once, when it has taken a moment"
        );
    }

    /// What the event loop does when the session is over.
    pub(crate) fn begin_to_end(&mut self) {
        (self.end.is_ending, self.end.since) = (true, self.now.at);
        let greeted: Vec<PeerId> =
            self.session.peers().filter(|(_, peer)| peer.has_said_hello()).map(|(id, _)| id).collect();
        self.take(Input::Ending);
        let told = |id: &PeerId| self.end.stopped.contains(id) || !self.open.contains_key(id);
        assert!(greeted.iter().all(told), "a process is not told that it is over");
        let told = self.end.stopped.len();
        self.take(Input::Ending);
        assert_eq!(self.end.stopped.len(), told, "it ends once");
    }

    /// Processes are waited for, half a second and 500 rounds; then the reading, however long; then the command,
    /// however long, and threads of the recorder, 2 seconds.
    pub(crate) fn left(&mut self, left: Left) {
        let before = self.end.done.len();
        let waited = self.now.at - self.end.since;
        self.end.rounds += u32::from(self.end.is_ending && self.end.done.is_empty());
        let is_late = waited >= Duration::from_millis(500) && self.end.rounds >= 500;
        let runs = left.command == Command::Runs;
        let expected: &[EndStep] = match self.end.done.last() {
            None if self.end.is_ending && (!left.processes || is_late) => &[EndStep::ReadToEnd],
            Some(EndStep::ReadToEnd) if left.is_read && runs => &[EndStep::Write, EndStep::TellOfCommand],
            Some(EndStep::ReadToEnd) if left.is_read => &[EndStep::Write],
            Some(EndStep::Write | EndStep::TellOfCommand)
                if !runs && (!left.helpers || waited >= Duration::from_secs(2)) =>
            {
                &[EndStep::Finish]
            }
            _ => &[],
        };
        self.take(Input::Left(left));
        assert_eq!(&self.end.done[before..], expected, "{left:?} after {:?}", self.end.done);
        if !expected.is_empty() {
            self.end.since = self.now.at;
        }
    }

    /// Whatever does not end, the recording does, once all is read and the command has ended.
    pub(crate) fn end_in_time(&mut self) {
        self.end.command = Command::Ended;
        for round in 0..504 {
            self.now.at += Duration::from_millis(if round < 500 { 1 } else { 2000 });
            self.left(Left { processes: true, is_read: true, helpers: true, command: Command::Ended });
        }
        assert_eq!(self.session.stage(), Stage::Ended);
    }
}
