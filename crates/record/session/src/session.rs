//! The state of a session, and which part of it an input is for.

use crate::action::{Action, Letter};
use crate::ending::End;
use crate::events::Events;
use crate::filters::Filters;
use crate::groups::{Change, Groups};
use crate::input::Input;
use crate::invitations::Invitations;
use crate::known::Known;
use crate::layout::Layout;
use crate::memory::SharedWords;
use crate::peer::{Peer, PeerId};
use crate::peers::Peers;
use crate::problems::{Kind, Problems};
use crate::quota::Quota;
use crate::selection::Selection;
use crate::settings::{Capabilities, Settings};
use crate::stage::Stage;
use crate::unpublished::Unpublished;
use crate::waiting::Waiting;
use mote_journal::Fact;
use mote_ring::Geometry;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

/// When something happens.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// On the monotonic clock.
    pub at: Instant,
    /// On the trace clock.
    pub ticks: u64,
}

/// One recording's state.
pub struct Session {
    pub(crate) capabilities: Capabilities,
    pub(crate) peers: Peers,
    pub(crate) groups: Groups,
    pub(crate) known: Known,
    pub(crate) selection: Selection,
    pub(crate) unpublished: Unpublished,
    pub(crate) problems: Problems,
    pub(crate) waiting: Waiting,
    pub(crate) invitations: Invitations,
    pub(crate) end: End,
    pub(crate) stage: Stage,
    pub(crate) actions: VecDeque<Action>,
}

impl Session {
    /// A session that begins.
    ///
    /// # Errors
    /// An object with filters that cannot be used, and why.
    pub fn new(settings: Settings) -> Result<Session, (PathBuf, String)> {
        let mut session = Session {
            capabilities: settings.capabilities(),
            peers: Peers::new(Quota::new(settings.own, settings.descriptors)),
            groups: Groups::new(settings.rings, settings.many_groups),
            known: Known::default(),
            selection: Selection::new(settings)?,
            unpublished: Unpublished::default(),
            problems: Problems::default(),
            waiting: Waiting::default(),
            invitations: Invitations::default(),
            end: End::default(),
            stage: Stage::default(),
            actions: VecDeque::new(),
        };
        if session.selection.filters.names_shared_words() {
            session.ask_for_words();
        }
        Ok(session)
    }

    /// Takes in what has happened. What is to be done for it comes out of [`Session::next_action`].
    pub fn take(&mut self, input: Input<'_>, now: Now) {
        match input {
            Input::Connected { peer, way, sender, guard } => self.connected(peer, (way, sender, guard), now),
            Input::Message { peer, sender, bytes } => self.message(peer, sender, bytes, now),
            Input::HungUp { peer, runs } => self.hung_up(peer, runs, now),
            Input::Looked { peer, seen } => self.looked(peer, seen, now),
            Input::Rings { group, made } => self.rings(group, made, now),
            Input::NotAhead => self.groups.not_ahead(),
            Input::Sent { peer, receipt, done } => self.sent(peer, receipt, done, now),
            Input::RoundEnds => {
                self.publish();
                self.conclude();
            }
            Input::Tick => self.tick(now),
            Input::Request { ticket, request } => self.request(ticket, request, now),
            Input::KernelChanged { ticket, done } => self.kernel_changed(ticket, done),
            Input::Problem { kind, pid, text } => self.problem(kind, pid, text),
            Input::Thread { tid, pid, at, name } => {
                self.known.note_thread(tid);
                self.act(Action::Note(Fact::Thread { tid, pid, at, name }));
            }
            Input::Damaged(group) => self.damaged(group),
            Input::Ended(group) => {
                self.groups.forget(group);
                self.act(Action::DropRings(group));
            }
            Input::Asked { ticket, number } => self.waiting.asked(ticket, number),
            Input::Snapshot(number, came_to) => self.snapshot(number, &came_to),
            Input::Figures(number) => self.figures(number, ""),
            Input::Sample(patterns) => {
                self.change_rules(|filters, scope| filters.sample(patterns, scope));
            }
            Input::Words(made) => self.words_made(made),
            Input::Signal { signal, command } => self.signal(signal, command),
            Input::Outlook(outlook) => self.outlook(&outlook, now),
            Input::Ending => self.begin_to_end(now),
            Input::Left(left) => self.left(left, now),
            Input::Read => self.report_more(),
        }
    }

    /// The next thing to do. What came of it has to be taken in before the next one.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn send(&mut self, peer: PeerId, letter: Letter) {
        self.act(Action::Send(peer, letter));
    }

    pub(crate) fn change_rings(&mut self, changes: Vec<Change>) {
        self.actions.extend(changes.into_iter().map(Action::Rings));
    }

    /// Reports a problem, within the budget of its kind and process.
    pub(crate) fn problem(&mut self, kind: Kind, pid: i32, text: String) {
        if self.problems.take(kind, pid, &text) {
            self.act(Action::Report(text));
        }
    }

    /// Events of a process are missing; how many is unknown.
    pub(crate) fn missing(&mut self, pid: i32, why: &str) {
        self.problems.note_missing();
        self.problem(Kind::Missing, pid, format!("process {pid} is not recorded: it {why}"));
    }

    /// Has the words made that all processes share, once.
    pub(crate) fn ask_for_words(&mut self) {
        if self.selection.words.ask() {
            self.act(Action::MakeWords);
        }
    }

    /// The words that all processes share are there, or cannot be: then no rule that names them is in force.
    fn words_made(&mut self, made: Result<(), String>) {
        if let Err(why) = &made
            && self.selection.filters.names_shared_words()
        {
            self.selection.filters.forget_shared_words();
            let text = format!(
                "no memory for the words that rules share with processes: {why}; rules with them are not in force"
            );
            self.problem(Kind::Rules, 0, text);
        }
        self.selection.words = SharedWords::Made(made);
        for (ticket, rules, kernel) in std::mem::take(&mut self.waiting.for_words) {
            self.enable(ticket, rules, kernel);
        }
    }

    fn tick(&mut self, now: Now) {
        self.publish_all();
        self.send_filters_again();
        self.conclude();
        self.close_silent(now);
        self.answer_old_figures(now);
        let mut changes = Vec::new();
        let ahead = self.groups.prepare(&mut changes);
        self.change_rings(changes);
        ahead.into_iter().for_each(|sizes| self.act(Action::PrepareRings(sizes)));
    }

    /// Whether the next round may be the last, and is not to be waited for.
    pub fn is_last_round(&self) -> bool {
        self.end.is_last_round()
    }

    /// The connection of this number.
    pub fn peer(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.get(peer)
    }

    /// All connections.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter()
    }

    /// How many connections of processes there are.
    pub fn processes(&self) -> usize {
        self.peers.processes()
    }

    /// Whether a process is in the session, with the events on that it has to have on.
    pub fn is_recorded(&self, pid: i32) -> bool {
        self.peers.any(|peer| peer.pid == pid && peer.is_ready)
    }

    /// Processes and threads that were seen so far.
    pub fn seen(&self) -> (usize, usize) {
        self.known.count()
    }

    /// How many times an unknown number of events was lost of processes that came late or never.
    pub fn missed(&self) -> u64 {
        self.problems.missing()
    }

    /// The events, and their ids.
    pub fn events(&self) -> &Events {
        &self.selection.events
    }

    /// The rules, and what they make of events.
    pub fn filters(&self) -> &Filters {
        &self.selection.filters
    }

    /// Where the maps of filters lie.
    pub fn layout(&self) -> &Layout {
        &self.selection.layout
    }

    /// The groups of processes, and their rings.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The problems so far.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Sizes of the rings for the first group, which are to be made before any process comes.
    pub fn first_rings(&self) -> Option<Geometry> {
        self.groups.ahead()
    }
}
