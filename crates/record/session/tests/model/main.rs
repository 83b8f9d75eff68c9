//! Random sequences of everything that can happen to a session, against a small model of what has to come out.
//!
//! The world around the session here does what the event loop does: it performs each action at once and tells what came
//! of it, and some of that fails. What holds is checked at each action ([`World::perform`]) and at the end of a
//! sequence ([`World::end`]).

mod end;
mod step;

use end::{EndSeen, EndStep};
use mote_filter::{Rule, SharedNames};
use mote_ring::{Clock, Geometry, Mode};
use mote_session::layout::Layout;
use mote_session::trust::{Guard, Trust};
use mote_session::{
    Action, Change, Command, GroupId, Input, KernelChange, Left, Letter, MailboxId, Make, Now, Outlook,
    PeerId, Principal, Request, Seen, SendError, Session, Settings, Ticket,
};
use mote_sys::socket::Credentials;
use mote_wire::bundle::{PoolPlace, SHARED};
use mote_wire::{Hello, How, ID_ON, Message, Ready, Refusal, Whose};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use step::{Begun, Filter, Step, step};

const RINGS: Geometry =
    Geometry { cpus: 1, shared: 1, sub_bits: 14, count_bits: 4, mode: Mode::Overwrite, clock: Clock::Tsc };
/// Names of events, `provider:name`.
const EVENTS: [&str; 6] = ["net:in", "net:out", "disk:read", "disk:write", "net:drop", "cpu:idle"];
/// Patterns of rules.
const PATTERNS: [&str; 6] = ["net:*", "net:in", "disk:*", "disk:read", "*", "usb:*"];
/// Excluded from the beginning.
const EXCLUDED: &str = "cpu:idle";

/// A connection as the world sees it.
#[derive(Debug, Default)]
struct Link {
    sender: Option<Credentials>,
    principal: Option<Principal>,
    is_admitted: bool,
    has_said_hello: bool,
    wants_rings: bool,
    welcomed: u32,
    /// It was told that the recording ends.
    is_refused: bool,
    /// The rings that it writes to.
    rings: Option<GroupId>,
    /// The newest filters that it has taken, or cannot be told of.
    filters: u32,
    /// Since when there is no room for the newest ones, which are to come again.
    full_since: Option<Instant>,
    /// Descriptions that it waits for the ids of.
    announced: Option<Vec<usize>>,
    /// None of them occurs before others are announced, too.
    has_more: bool,
}

/// Rules as a person gave them.
#[derive(Debug)]
enum Said {
    Record(&'static str),
    Not(&'static str),
}

struct World {
    session: Session,
    now: Now,
    connections: u64,
    tickets: u64,
    open: BTreeMap<PeerId, Link>,
    rings: BTreeSet<GroupId>,
    retired: BTreeSet<GroupId>,
    /// Users whose processes share no more.
    distrusted: Vec<Principal>,
    /// Ids by event, as they have to come: in the order of announcing.
    ids: BTreeMap<usize, u32>,
    known: u32,
    published: BTreeSet<u32>,
    generation: u32,
    said: Vec<Said>,
    waiting: BTreeSet<Ticket>,
    asked: (u64, u64),
    mailboxes: BTreeSet<MailboxId>,
    rings_fail: bool,
    send_fails: u8,
    words_fail: bool,
    /// Whether the words that rules share could be made, once they were asked for.
    words: Option<bool>,
    /// What was answered to requests.
    answers: BTreeMap<Ticket, bool>,
    end: EndSeen,
}

fn matches(pattern: &str, event: usize) -> bool {
    let (provider, name) = EVENTS[event].split_once(':').expect("it has both");
    mote_pattern::Pattern::new(pattern).matches(provider, name)
}

fn description(event: usize) -> String {
    match EVENTS.get(event) {
        Some(name) => format!("mote1\n{name}\n6 f:1\n\nlen u32\0"),
        None => "mote1\nmalformed\0".to_owned(),
    }
}

fn principal(uid: u32, pid: i32) -> Principal {
    // Users 0 and 3 could become others.
    match uid {
        0 | 3 => Principal::Process { pid, started: 1 },
        _ => Principal::User { uid, namespace: 7 },
    }
}

impl World {
    fn new(begun: Begun) -> World {
        let settings = Settings {
            rules: vec![Rule::record("net:*")],
            objects: Vec::new(),
            exclude: vec![EXCLUDED.to_owned()],
            keeps_on_fault: false,
            is_flight_recorder: true,
            keeps_last_packets: true,
            is_profiled: true,
            functions: Vec::new(),
            has_kernel: true,
            own: 0,
            descriptors: 1024,
            rings: RINGS,
            many_groups: true,
            layout: Layout::new(1 << 20, PoolPlace::NONE),
            names: SharedNames::default(),
        };
        let session =
            Session::new(settings).unwrap_or_else(|(path, why)| panic!("{}: {why}", path.display()));
        World {
            session,
            now: Now { at: Instant::now(), ticks: 1 },
            connections: 0,
            tickets: 0,
            open: BTreeMap::new(),
            rings: BTreeSet::new(),
            retired: BTreeSet::new(),
            distrusted: Vec::new(),
            ids: BTreeMap::new(),
            known: 0,
            published: BTreeSet::new(),
            generation: 0,
            said: vec![Said::Record("net:*")],
            waiting: BTreeSet::new(),
            asked: (0, 0),
            mailboxes: BTreeSet::new(),
            rings_fail: false,
            send_fails: 0,
            words_fail: false,
            words: None,
            answers: BTreeMap::new(),
            end: EndSeen::new(begun),
        }
    }

    fn take(&mut self, input: Input<'_>) {
        self.session.take(input, self.now);
        while let Some(action) = self.session.next_action() {
            self.perform(action);
        }
        assert!(self.session.groups().taken() <= RINGS.ring_bytes(), "more memory than was given");
        let names_words = self.session.layout().maps().iter().any(|(_, place)| place.offset == SHARED);
        assert!(!names_words || self.words == Some(true), "a filter names words that are not there");
    }

    fn peer(&self, index: usize) -> Option<PeerId> {
        self.open.keys().nth(index % self.open.len().max(1)).copied()
    }

    /// Whether an event is recorded, by what persons have said.
    fn is_on(&self, event: usize) -> bool {
        let taken_back = |said: &Said| matches!(said, Said::Not(pattern) if matches(pattern, event));
        let from = self.said.iter().rposition(taken_back).map_or(0, |at| at + 1);
        let records = |said: &Said| matches!(said, Said::Record(pattern) if matches(pattern, event));
        EVENTS[event] != EXCLUDED && self.said[from..].iter().any(records)
    }

    fn step(&mut self, step: Step) {
        self.now.ticks += 1;
        if self.end.is_over && !self.end.is_ending {
            self.begin_to_end();
        }
        match step {
            Step::Connect { pid, user, way } => {
                self.connections += 1;
                let peer = PeerId(self.connections);
                let sender = Credentials { pid, uid: user, gid: user };
                let guard = Guard { trust: Trust::new(0, 65534), only: None };
                self.open.insert(peer, Link { sender: Some(sender), ..Link::default() });
                self.take(Input::Connected { peer, way, sender, guard });
            }
            Step::Hello { peer, how, lies } => self.hello(peer, how, lies),
            Step::Announce { peer, events, has_more } => self.announce(peer, events, has_more),
            Step::Ready { peer, failed } => {
                let ready = Ready { sites: 3, armed: 3 - failed, failed, errno: 0, late_ms: 0, replaces: 0 };
                self.says(peer, &Message::Ready(ready));
            }
            Step::GoesOn { peer } => self.says(peer, &Message::GoesOn),
            Step::Fails { peer } => self.says(peer, &Message::Failed(12)),
            Step::Garbage { peer, bytes } => {
                let Some(peer) = self.peer(peer) else { return };
                let sender = self.open[&peer].sender;
                self.take(Input::Message { peer, sender, bytes: &bytes });
            }
            Step::OfAnother { peer } => {
                let Some(peer) = self.peer(peer) else { return };
                let sender = Some(Credentials { pid: 99, uid: 0, gid: 0 });
                self.take(Input::Message { peer, sender, bytes: b"" });
                assert!(!self.open.contains_key(&peer), "a message of another process closes the connection");
            }
            Step::HangUp { peer, runs } => {
                let Some(peer) = self.peer(peer) else { return };
                self.take(Input::HungUp { peer, runs });
                assert!(!self.open.contains_key(&peer) && self.session.peer(peer).is_none());
            }
            Step::Round => self.take(Input::RoundEnds),
            Step::Tick { ms } => {
                self.now.at += Duration::from_millis(ms);
                self.take(Input::Tick);
                let is_full = |link: &Link| {
                    link.full_since.is_some() && link.rings.is_some() && link.announced.is_none()
                };
                assert!(self.send_fails > 0 || !self.open.values().any(is_full), "filters do not come again");
            }
            other => self.step_of_others(other),
        }
    }

    /// What persons, the consumer and the machine do.
    fn step_of_others(&mut self, step: Step) {
        match step {
            Step::Enable { pattern, filter, kernel } => self.enable(PATTERNS[pattern], filter, kernel),
            Step::Disable { pattern } => self.disable(PATTERNS[pattern]),
            Step::Snapshot => self.ask(Request::Snapshot),
            Step::Status => self.ask(Request::Status),
            Step::Join { pid, mailbox } => {
                let mailbox = mailbox.then_some(MailboxId(self.tickets + 1));
                self.mailboxes.extend(mailbox);
                self.ask(Request::Join { pid, place: "1,-1,7,/run/x".to_owned(), mailbox });
            }
            Step::Damaged { group } => self.damaged(group),
            Step::Ended { group } => {
                // The consumer ends what has no process only.
                if self.session.groups().iter().any(|(id, _, members)| id == group && members.is_empty()) {
                    self.take(Input::Ended(group));
                }
            }
            Step::Consumer { snapshot, figures } => {
                self.take(Input::Snapshot(snapshot.min(self.asked.0), Ok("written".to_owned())));
                self.take(Input::Figures(figures.min(self.asked.1)));
            }
            Step::Trouble { rings, send, words } => {
                (self.rings_fail, self.send_fails, self.words_fail) = (rings, send, words);
            }
            Step::Signal { from_terminal, is_interrupt } => self.signal(from_terminal, is_interrupt),
            Step::CommandEnds if self.end.command == Command::Runs => self.end.command = Command::Ended,
            Step::CommandEnds => {}
            Step::Left { ms, processes, is_read, helpers } => {
                self.now.at += Duration::from_millis(ms);
                self.left(Left { processes, is_read, helpers, command: self.end.command });
            }
            Step::Outlook { ms, is_cut, is_deserted, threads, are_gone } => {
                self.now.at += Duration::from_millis(ms);
                let (command, attached) = (self.end.command, self.end.attaches.then_some(are_gone));
                self.outlook(Outlook { command, is_cut, is_deserted, threads, attached });
            }
            other => unreachable!("{other:?} is of processes"),
        }
    }

    fn says(&mut self, peer: usize, message: &Message<'_>) {
        let Some(peer) = self.peer(peer) else { return };
        let mut buffer = [0; 4096];
        let bytes = message.encode(&mut buffer).expect("it fits").to_vec();
        let sender = self.open[&peer].sender;
        let out_of_turn = !self.open[&peer].has_said_hello;
        self.take(Input::Message { peer, sender, bytes: &bytes });
        assert!(
            !(out_of_turn && self.open.contains_key(&peer)),
            "a message before the hello closes the connection"
        );
    }

    fn hello(&mut self, peer: usize, how: How, lies: bool) {
        let Some(id) = self.peer(peer) else { return };
        let pid = self.open[&id].sender.map_or(0, |sender| sender.pid) as u32;
        let said = if lies { pid + 100 } else { pid };
        let hello = Hello { how, pid: said, parent: 1, comm: [b'x'; 16] };
        let again = self.open[&id].has_said_hello;
        if let Some(link) = self.open.get_mut(&id) {
            link.wants_rings |= how.wants_rings() && !again;
            link.has_said_hello = true;
        }
        let mut buffer = [0; 256];
        let bytes = Message::Hello(hello).encode(&mut buffer).expect("it fits").to_vec();
        let sender = self.open[&id].sender;
        self.take(Input::Message { peer: id, sender, bytes: &bytes });
        assert!(
            !((again || lies && !self.end.is_ending) && self.open.contains_key(&id)),
            "a lie, or a second hello, closes the connection"
        );
        let is_refused = |link: &Link| link.is_refused && !link.is_admitted && link.welcomed == 0;
        assert!(
            again || !self.end.is_ending || self.open.get(&id).is_some_and(is_refused),
            "a process that comes when it is over learns so"
        );
    }

    fn announce(&mut self, peer: usize, events: Vec<usize>, has_more: bool) {
        let Some(id) = self.peer(peer) else { return };
        if self.open[&id].has_said_hello {
            // The next ids, in the order of the texts.
            for event in events.iter().filter(|event| **event < EVENTS.len()) {
                let next = self.ids.len() as u32;
                self.ids.entry(*event).or_insert(next);
            }
            if let Some(link) = self.open.get_mut(&id) {
                link.announced = Some(events.clone());
                link.has_more = has_more;
            }
        }
        let texts: String = events.iter().map(|event| description(*event)).collect();
        let count = events.len() as u32;
        self.says(peer, &Message::Events { count, has_more, texts: texts.as_bytes() });
    }

    fn ask(&mut self, request: Request) {
        self.tickets += 1;
        self.waiting.insert(Ticket(self.tickets));
        self.take(Input::Request { ticket: Ticket(self.tickets), request });
    }

    fn enable(&mut self, pattern: &'static str, filter: Filter, kernel: bool) {
        // As the event loop: requests come when all messages of a round were given in.
        self.take(Input::RoundEnds);
        let rule = match filter {
            Filter::None => Ok(Rule::record(pattern)),
            Filter::OfFields => Rule::filter(pattern, "len > 3"),
            Filter::OfSharedWords => Rule::filter(pattern, "len > $shared.most[0]"),
        };
        let rule = rule.expect("a rule");
        let kernel = if kernel { vec![Rule::record("sched:*")] } else { Vec::new() };
        let has_words = self.words.unwrap_or(!self.words_fail);
        let is_refused = matches!(filter, Filter::OfSharedWords) && !has_words;
        if !is_refused {
            self.said.push(Said::Record(pattern));
        }
        self.ask(Request::Enable { rules: vec![rule], kernel });
        self.take(Input::Tick);
        assert!(!self.waiting.contains(&Ticket(self.tickets)), "answered when everything is done");
        let is_done = self.answers.get(&Ticket(self.tickets)) == Some(&true);
        assert!(!(is_refused && is_done), "rules are in force without the words that they name");
        assert!(!matches!(filter, Filter::OfSharedWords) || self.words.is_some(), "words are made first");
    }

    fn disable(&mut self, pattern: &'static str) {
        self.take(Input::RoundEnds);
        let before = self.said.len();
        self.said.retain(|said| !matches!(said, Said::Record(known) if *known == pattern));
        let are_on = |event: &usize| matches(pattern, *event) && self.is_on(*event);
        if self.said.len() == before && self.ids.keys().any(are_on) {
            self.said.push(Said::Not(pattern));
        }
        self.ask(Request::Disable { patterns: vec![pattern.to_owned()], kernel: Vec::new() });
        assert!(!self.waiting.contains(&Ticket(self.tickets)), "answered at once");
    }

    fn damaged(&mut self, group: GroupId) {
        let owner =
            self.session.groups().iter().find(|(id, ..)| *id == group).map(|(_, principal, _)| principal);
        let is_shared = owner.is_some_and(Principal::is_shared);
        self.distrusted.extend(owner.filter(|owner| owner.is_shared()));
        let missed = self.session.missed();
        self.take(Input::Damaged(group));
        if !is_shared || !self.retired.insert(group) {
            return;
        }
        let stay =
            self.session.peers().filter(|(_, peer)| peer.listens() && peer.group() == Some(group)).count();
        assert!(
            stay as u64 <= self.session.missed() - missed,
            "processes that stay in damaged rings are reported"
        );
    }

    /// What the event loop does, and what must hold of it.
    fn perform(&mut self, action: Action) {
        match action {
            Action::Look { peer, pid, uid, said, .. } => {
                let own_id = Some(if said > 100 { pid as u32 } else { said });
                let (principal, alone) = (principal(uid, pid), Principal::Process { pid, started: 1 });
                if let Some(link) = self.open.get_mut(&peer) {
                    link.principal = Some(principal);
                }
                let seen =
                    Seen { has_ended: false, own_id, principal, alone, exe: String::new(), maps: Vec::new() };
                self.session.take(Input::Looked { peer, seen }, self.now);
            }
            Action::MakeRings(Make { group, sizes, .. }) => {
                assert!(!self.rings.contains(&group), "made twice");
                assert!(sizes.sub_count() >= 2);
                let made = !self.rings_fail;
                self.rings.extend(made.then_some(group));
                self.session.take(Input::Rings { group, made }, self.now);
            }
            Action::PrepareRings(_) if self.rings_fail => self.session.take(Input::NotAhead, self.now),
            Action::Rings(Change::Left(group) | Change::Evict(group)) => {
                let is_used = self.session.peers().any(|(_, peer)| peer.group() == Some(group));
                assert!(!is_used, "rings of a process are let go of");
            }
            Action::DropRings(group) => drop(self.rings.remove(&group)),
            Action::Send(peer, letter) => self.send(peer, letter),
            Action::Close(peer) => {
                let closed = self.open.remove(&peer);
                assert!(
                    closed.is_some_and(|link| !link.is_admitted),
                    "closed twice, or without being told that it left"
                );
            }
            Action::Admitted { peer, .. } => {
                assert!(!self.end.is_ending, "let in after the end");
                let link = self.open.get_mut(&peer).expect("it is open");
                assert!(!link.is_admitted && (!link.wants_rings || link.welcomed == 1));
                // Libraries leave without a word.
                link.is_admitted = self.session.peer(peer).is_some_and(mote_session::Peer::is_process);
            }
            Action::Left { peer, .. } => {
                let link = self.open.get_mut(&peer).expect("it is open");
                assert!(std::mem::take(&mut link.is_admitted), "it had not been admitted");
            }
            other => self.perform_for_events_and_requests(other),
        }
    }

    fn perform_for_events_and_requests(&mut self, action: Action) {
        match action {
            Action::KnowEvent(id) => {
                assert_eq!(id, self.known, "readers of rings learn events in order");
                self.known += 1;
            }
            Action::PublishEvents(new) => {
                for id in new {
                    assert!(id < self.known && self.published.insert(id), "unknown, or published twice");
                }
            }
            Action::Bundle { generation, .. } => {
                assert_eq!(generation, self.generation + 1);
                self.generation = generation;
            }
            Action::ChangeKernel { ticket, change } => {
                let done = match change {
                    KernelChange::Enable(_) if self.rings_fail => Err("no right".to_owned()),
                    KernelChange::Enable(_) => Ok(0),
                    KernelChange::Disable(patterns) => Ok(patterns.len()),
                };
                if done.is_err() {
                    // What was refused changes nothing.
                    self.said.pop();
                }
                self.session.take(Input::KernelChanged { ticket, done }, self.now);
            }
            Action::AskSnapshot(ticket) => {
                self.asked.0 += 1;
                self.session.take(Input::Asked { ticket, number: self.asked.0 }, self.now);
            }
            Action::AskFigures(ticket) => {
                self.asked.1 += 1;
                self.session.take(Input::Asked { ticket, number: self.asked.1 }, self.now);
            }
            Action::Answer { ticket, done, .. } => {
                assert!(self.waiting.remove(&ticket), "answered twice");
                self.answers.insert(ticket, done);
            }
            Action::AnswerStatus { ticket, .. } => assert!(self.waiting.remove(&ticket), "answered twice"),
            Action::MakeWords => {
                assert_eq!(self.words, None, "made twice");
                let made = if self.words_fail { Err("none".to_owned()) } else { Ok(()) };
                self.words = Some(made.is_ok());
                self.session.take(Input::Words(made), self.now);
            }
            Action::PassOn(number) => self.end.passed_on.push(number),
            Action::End => assert!(!std::mem::replace(&mut self.end.is_over, true), "over twice"),
            Action::ReadToEnd => self.end.ended(EndStep::ReadToEnd),
            Action::WriteEnd => self.end.ended(EndStep::Write),
            Action::Finish => self.end.ended(EndStep::Finish),
            Action::Say(text) if text.starts_with("recording has ended") => {
                assert_eq!(self.end.command, Command::Runs, "a command is waited for that does not run");
                self.end.ended(EndStep::TellOfCommand);
            }
            Action::Say(text) if text.starts_with("the command has ended") => {
                assert!(!std::mem::replace(&mut self.end.is_told, true), "told twice");
            }
            Action::DropMailbox(mailbox) => assert!(self.mailboxes.remove(&mailbox), "dropped twice"),
            _ => {}
        }
    }

    fn send(&mut self, peer: PeerId, letter: Letter) {
        let done = match self.send_fails {
            1 => Err(SendError::Gone),
            2 => Err(SendError::Locked),
            3 => Err(SendError::Memory("none".to_owned())),
            4 => Err(SendError::System(mote_sys::Errno(11))),
            _ => Ok(()),
        };
        let current = self.generation;
        let owners: BTreeMap<GroupId, Principal> =
            self.session.groups().iter().map(|(id, principal, _)| (id, principal)).collect();
        let link = self.open.get_mut(&peer).expect("it is open");
        assert!(link.has_said_hello, "nothing is sent to a process that has not said hello");
        if let Letter::Welcome { group, .. } | Letter::Renew { group, .. } = &letter {
            let is_distrusted = link.principal.is_some_and(|whose| self.distrusted.contains(&whose));
            assert!(
                !(is_distrusted && owners[group].is_shared()),
                "it shares rings again that could be damaged again"
            );
        }
        match &letter {
            Letter::Replaces(_) => panic!("no process of this test has said that it does"),
            Letter::Welcome { group, whose, .. } => {
                assert!(self.rings.contains(group) && link.wants_rings && link.welcomed == 0);
                let is_shared = link.principal.is_some_and(Principal::is_shared);
                assert!(*whose == Whose::Own || is_shared, "it could become another user");
                if done.is_ok() {
                    link.welcomed += 1;
                    link.rings = Some(*group);
                }
            }
            Letter::Renew { group, .. } => {
                assert!(self.rings.contains(group));
                if done.is_ok() {
                    link.rings = Some(*group);
                }
            }
            Letter::Filters { group, generation } => {
                assert_eq!(*generation, current, "only the newest filters are sent");
                assert!(self.session.groups().iter().any(|(id, ..)| id == *group));
                if matches!(done, Ok(()) | Err(SendError::Locked | SendError::Gone)) {
                    link.filters = *generation;
                }
                let full_since = link.full_since.unwrap_or(self.now.at);
                let comes_again = self.now.at - full_since < Duration::from_secs(5);
                link.full_since =
                    (matches!(done, Err(SendError::System(_))) && comes_again).then_some(full_since);
            }
            Letter::Ids(words) => self.check_ids(peer, words),
            Letter::Invitation { mailbox, .. } => assert!(self.mailboxes.contains(mailbox)),
            Letter::Refused(why) => link.is_refused |= *why == Refusal::Ending,
            Letter::Stop => {
                assert!(self.end.is_ending, "nothing is switched off before the end");
                assert!(self.end.stopped.insert(peer), "told twice that it is over");
            }
        }
        if let Some(receipt) = letter.receipt() {
            self.session.take(Input::Sent { peer, receipt, done }, self.now);
        }
        self.check_sharing();
    }

    /// Ids answer what was announced, in order; the events are in the metadata, and the process has the filters.
    fn check_ids(&mut self, peer: PeerId, words: &[u32]) {
        let link = self.open.get_mut(&peer).expect("it is open");
        let announced = link.announced.take().expect("it waits for ids");
        let may_wait = link.has_more;
        assert!(self.generation == 0 || link.filters == self.generation, "ids before the newest filters");
        assert_eq!(announced.len(), words.len());
        for (event, word) in announced.into_iter().zip(words) {
            let expected = match self.ids.get(&event) {
                Some(id) if self.is_on(event) => id | ID_ON,
                Some(id) => *id,
                None => 0,
            };
            assert_eq!(*word, expected, "{}", EVENTS.get(event).unwrap_or(&"malformed"));
            let is_published = self.ids.get(&event).is_none_or(|id| self.published.contains(id));
            assert!(is_published || may_wait, "an id is told before the metadata has the event");
        }
    }

    /// Processes write to the same rings only if they are one user's, who could be no other.
    fn check_sharing(&self) {
        for (one, first) in &self.open {
            for (other, second) in self.open.range(one..) {
                let (Some(rings), Some(whose)) = (first.rings, first.principal) else { continue };
                let pid = |link: &Link| link.sender.map(|sender| sender.pid);
                let may_share =
                    whose.is_shared() && second.principal == Some(whose) || pid(first) == pid(second);
                assert!(second.rings != Some(rings) || may_share || one == other, "{first:?} and {second:?}");
            }
        }
    }

    /// Nothing is left undone.
    fn end(mut self) {
        (self.rings_fail, self.send_fails) = (false, 0);
        self.take(Input::RoundEnds);
        self.take(Input::RoundEnds);
        assert_eq!(self.known as usize, self.ids.len());
        for (id, link) in &self.open {
            let waits = link.announced.is_some() && self.session.peer(*id).is_some();
            let can_be_served = link.rings.is_some() || self.generation == 0;
            assert!(!(waits && can_be_served && link.is_admitted), "a process waits for ids: {link:?}");
        }
        self.take(Input::Snapshot(self.asked.0, Ok("written".to_owned())));
        self.now.at += Duration::from_secs(2);
        self.take(Input::Tick);
        assert_eq!(self.published.len() as u32, self.known, "all events are in the metadata");
        assert!(self.waiting.is_empty(), "requests without an answer: {:?}", self.waiting);
        let is_cut = true;
        let command = self.end.command;
        self.outlook(Outlook { command, is_cut, is_deserted: true, threads: 0, attached: None });
        if !self.end.is_ending {
            self.begin_to_end();
        }
        self.take(Input::Read);
        self.end_in_time();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn what_comes_out_is_right_whatever_happens(
        (command, attaches) in any::<(bool, bool)>(), steps in vec(step(), 1..120)
    ) {
        let mut world = World::new(Begun { command, attaches });
        steps.into_iter().for_each(|step| world.step(step));
        world.end();
    }
}
