//! The state of a session, and which part of it an input is for.

use crate::action::{Action, Letter};
use crate::ending::End;
use crate::events::Events;
use crate::filters::Filters;
use crate::groups::{Change, Groups};
use crate::input::{Input, MailboxId, Ticket};
use crate::layout::Layout;
use crate::memory::SharedWords;
use crate::peer::{Peer, PeerId};
use crate::problems::{Kind, Problems};
use crate::quota::Quota;
use crate::settings::Settings;
use crate::stage::Stage;
use mote_filter::Rule;
use mote_journal::Fact;
use mote_ring::Geometry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
    pub(crate) is_flight_recorder: bool,
    pub(crate) has_kernel: bool,
    pub(crate) peers: BTreeMap<PeerId, Peer>,
    pub(crate) groups: Groups,
    pub(crate) quota: Quota,
    pub(crate) events: Events,
    pub(crate) filters: Filters,
    pub(crate) layout: Layout,
    pub(crate) words: SharedWords,
    /// Events that were announced in this round.
    pub(crate) new: Vec<u32>,
    /// Events that metadata and journal do not have yet.
    pub(crate) unpublished: Vec<u32>,
    /// The event loop knows that rules keep records aside.
    pub(crate) speculates: bool,
    pub(crate) problems: Problems,
    /// How many times events were lost of processes that came late or never; how many events is unknown.
    pub(crate) missing: u64,
    /// Whose processes have which ids, as they see them themselves.
    pub(crate) ids: HashMap<u32, u32>,
    /// The processes that were seen, and the mappings of each that the journal has.
    pub(crate) maps: HashMap<u32, HashSet<(u64, String)>>,
    pub(crate) threads: BTreeSet<u32>,
    pub(crate) patterns_reported: bool,
    /// Other recordings that have joined processes of this one.
    pub(crate) forwards: VecDeque<Forward>,
    pub(crate) requests: Requests,
    pub(crate) end: End,
    pub(crate) stage: Stage,
    /// No more processes are let in.
    pub(crate) is_ending: bool,
    pub(crate) actions: VecDeque<Action>,
}

/// Another recording that processes of this one are in, too.
pub(crate) struct Forward {
    pub(crate) pids: HashSet<i32>,
    pub(crate) place: String,
    pub(crate) mailbox: MailboxId,
}

/// Requests that were not answered yet.
#[derive(Default)]
pub(crate) struct Requests {
    /// Rules on events of processes that go into force when the kernel's side has taken its own.
    pub(crate) changes: BTreeMap<Ticket, Changing>,
    /// Changes that are made, with the number of problems before: what comes of them is known when all actions are
    /// done.
    pub(crate) concluding: Vec<(Ticket, u64, String)>,
    /// Snapshots that are waited for, by the consumer's numbers.
    pub(crate) snapshots: Vec<(u64, Ticket)>,
    /// Figures that are waited for.
    pub(crate) figures: Vec<(u64, Ticket)>,
    /// Asked, and no number yet.
    pub(crate) asked: BTreeMap<Ticket, Wanted>,
    /// Since when the first figures are waited for.
    pub(crate) figures_since: Option<Instant>,
    /// Invitations on the way: receipts that are to come, and how many were taken.
    pub(crate) inviting: BTreeMap<Ticket, Inviting>,
    /// Rules to add that name words which all processes share, and are being made.
    pub(crate) for_words: Vec<(Ticket, Vec<Rule>, Vec<Rule>)>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Snapshot,
    Figures,
}

/// A change of rules that waits for the kernel's side.
pub(crate) enum Changing {
    /// Rules to add, and how many in all.
    Enable(Vec<Rule>, usize),
    /// Patterns to take back.
    Disable(Vec<String>),
}

/// An invitation on the way.
pub(crate) struct Inviting {
    pub(crate) forward: Forward,
    pub(crate) receipts: usize,
    pub(crate) taken: usize,
}

impl Session {
    /// A session that begins.
    ///
    /// # Errors
    /// An object with filters that cannot be used, and why.
    pub fn new(settings: Settings) -> Result<Session, (PathBuf, String)> {
        let filters = Filters::new(&settings)?;
        let mut session = Session {
            is_flight_recorder: settings.is_flight_recorder,
            has_kernel: settings.has_kernel,
            peers: BTreeMap::new(),
            groups: Groups::new(settings.rings, settings.many_groups),
            quota: Quota::new(settings.own, settings.descriptors),
            events: Events::default(),
            filters,
            layout: settings.layout,
            words: SharedWords::default(),
            new: Vec::new(),
            unpublished: Vec::new(),
            speculates: false,
            problems: Problems::default(),
            missing: 0,
            ids: HashMap::new(),
            maps: HashMap::new(),
            threads: BTreeSet::new(),
            patterns_reported: false,
            forwards: VecDeque::new(),
            requests: Requests::default(),
            end: End::default(),
            stage: Stage::default(),
            is_ending: false,
            actions: VecDeque::new(),
        };
        if session.filters.names_shared_words() {
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
                self.threads.insert(tid);
                self.act(Action::Note(Fact::Thread { tid, pid, at, name }));
            }
            Input::Damaged(group) => self.damaged(group),
            Input::Ended(group) => {
                self.groups.forget(group);
                self.act(Action::DropRings(group));
            }
            Input::Asked { ticket, number } => self.asked(ticket, number, now),
            Input::Snapshot(number, came_to) => self.snapshot(number, &came_to),
            Input::Figures(number) => self.figures(number, ""),
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
        self.missing += 1;
        self.problem(Kind::Missing, pid, format!("process {pid} is not recorded: it {why}"));
    }

    /// Has the words made that all processes share, once.
    pub(crate) fn ask_for_words(&mut self) {
        if self.words.ask() {
            self.act(Action::MakeWords);
        }
    }

    /// The words that all processes share are there, or cannot be: then no rule that names them is in force.
    fn words_made(&mut self, made: Result<(), String>) {
        if let Err(why) = &made
            && self.filters.names_shared_words()
        {
            self.filters.forget_shared_words();
            let text = format!(
                "no memory for the words that rules share with processes: {why}; rules with them are not in force"
            );
            self.problem(Kind::Rules, 0, text);
        }
        self.words = SharedWords::Made(made);
        for (ticket, rules, kernel) in std::mem::take(&mut self.requests.for_words) {
            self.enable(ticket, rules, kernel);
        }
    }

    fn tick(&mut self, now: Now) {
        self.publish_all();
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
        self.peers.get(&peer)
    }

    /// All connections.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.peers.iter().map(|(id, peer)| (*id, peer))
    }

    /// How many connections of processes there are.
    pub fn processes(&self) -> usize {
        self.peers.values().filter(|peer| peer.is_process()).count()
    }

    /// Whether a process is in the session, with the events on that it has to have on.
    pub fn is_recorded(&self, pid: i32) -> bool {
        self.peers.values().any(|peer| peer.pid == pid && peer.is_ready)
    }

    /// Processes and threads that were seen so far.
    pub fn seen(&self) -> (usize, usize) {
        (self.maps.len(), self.threads.len())
    }

    /// How many times an unknown number of events was lost of processes that came late or never.
    pub fn missed(&self) -> u64 {
        self.missing
    }

    /// The events, and their ids.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The rules, and what they make of events.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Where the maps of filters lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
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

/// How long figures are waited for: a consumer that stands before a slow disk is worth knowing about now.
pub(crate) const FIGURES_PATIENCE: Duration = Duration::from_secs(1);
