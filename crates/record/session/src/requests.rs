//! What persons and other recorders ask of a session. Each request is answered once, when everything that it takes is
//! done.

use crate::action::{Action, KernelChange, Letter};
use crate::filters::Filters;
use crate::input::{Request, Ticket};
use crate::peer::PeerId;
use crate::session::{Changing, FIGURES_PATIENCE, Forward, Inviting, Now, Session, Wanted};
use crate::settings::{NEEDS_KERNEL, NO_SNAPSHOTS};
use mote_filter::Rule;
use mote_words::counted;
use std::collections::HashSet;

/// Most joins that a recorder keeps in mind.
const FORWARDS_MAX: usize = 64;

impl Session {
    /// A person, or another recorder, asks for something.
    pub(crate) fn request(&mut self, ticket: Ticket, request: Request, now: Now) {
        match request {
            Request::Enable { rules, kernel } => self.enable(ticket, rules, kernel),
            Request::Disable { patterns, kernel } => self.disable(ticket, patterns, kernel),
            Request::Snapshot if !self.is_flight_recorder => {
                self.answer(ticket, false, NO_SNAPSHOTS.to_owned());
            }
            Request::Snapshot => {
                self.requests.asked.insert(ticket, Wanted::Snapshot);
                self.act(Action::AskSnapshot(ticket));
            }
            Request::Status => {
                self.requests.asked.insert(ticket, Wanted::Figures);
                self.requests.figures_since.get_or_insert(now.at);
                self.act(Action::AskFigures(ticket));
            }
            Request::Join { pid, place, mailbox } => match mailbox {
                Some(mailbox) => self.join(ticket, Forward { pids: HashSet::from([pid]), place, mailbox }),
                None => self.answer(
                    ticket,
                    false,
                    "the request to join came without the mailbox to join by".to_owned(),
                ),
            },
        }
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, done: bool, text: String) {
        self.act(Action::Answer { ticket, done, text });
    }

    pub(crate) fn enable(&mut self, ticket: Ticket, rules: Vec<Rule>, kernel: Vec<Rule>) {
        if let Err(why) = self.check(&rules, &kernel) {
            return self.answer(ticket, false, why);
        }
        if rules.iter().any(|rule| rule.names_shared_words(self.has_kernel)) {
            match self.words.made() {
                Some(Ok(())) => {}
                Some(Err(why)) => {
                    let text =
                        format!("no memory for the words that these rules share with processes: {why}");
                    return self.answer(ticket, false, text);
                }
                None => {
                    self.ask_for_words();
                    return self.requests.for_words.push((ticket, rules, kernel));
                }
            }
        }
        let count = rules.len() + kernel.len();
        if kernel.is_empty() {
            return self.enable_rules(ticket, rules, count);
        }
        self.requests.changes.insert(ticket, Changing::Enable(rules, count));
        self.act(Action::ChangeKernel { ticket, change: KernelChange::Enable(kernel) });
    }

    /// Whether rules can be added.
    fn check(&self, rules: &[Rule], kernel: &[Rule]) -> Result<(), String> {
        if rules.iter().chain(kernel).any(Rule::snapshots) && !self.is_flight_recorder {
            return Err(NO_SNAPSHOTS.to_owned());
        }
        if rules.iter().any(Rule::asks_kernel) && !self.has_kernel {
            return Err(NEEDS_KERNEL.to_owned());
        }
        Filters::check(rules, &self.events)
    }

    fn enable_rules(&mut self, ticket: Ticket, rules: Vec<Rule>, count: usize) {
        let before = self.problems.count();
        if !rules.is_empty() {
            self.change_rules(|filters, scope| filters.enable(rules, scope));
        }
        self.act(Action::BeginCooperation);
        let text = counted(count, "rule is", "rules are") + " in force";
        self.requests.concluding.push((ticket, before, text));
    }

    fn disable(&mut self, ticket: Ticket, patterns: Vec<String>, kernel: Vec<String>) {
        if kernel.is_empty() {
            return self.disable_rules(ticket, &patterns, 0);
        }
        self.requests.changes.insert(ticket, Changing::Disable(patterns));
        self.act(Action::ChangeKernel { ticket, change: KernelChange::Disable(kernel) });
    }

    /// Takes patterns back; `gone` are those of the kernel's side.
    fn disable_rules(&mut self, ticket: Ticket, patterns: &[String], gone: usize) {
        let mut meant = 0;
        if !patterns.is_empty() {
            self.change_rules(|filters, scope| meant = filters.disable(patterns, scope));
            if meant == 0 {
                let lines = self.filters.lines().join("\n  ");
                let text = format!(
                    "no rule has this pattern, and no recorded event matches it; the rules are\n  {lines}"
                );
                return self.answer(ticket, false, text);
            }
        }
        let text = counted(gone + meant, "pattern is", "patterns are") + " no longer recorded";
        self.answer(ticket, true, text);
    }

    /// The kernel's side has changed its rules, or not.
    pub(crate) fn kernel_changed(&mut self, ticket: Ticket, done: Result<usize, String>) {
        let Some(changing) = self.requests.changes.remove(&ticket) else { return };
        match (done, changing) {
            (Err(why), _) => self.answer(ticket, false, why),
            (Ok(_), Changing::Enable(rules, count)) => self.enable_rules(ticket, rules, count),
            (Ok(gone), Changing::Disable(patterns)) => self.disable_rules(ticket, &patterns, gone),
        }
    }

    /// Answers the requests whose actions are done by now: a change is in force unless it brought problems.
    pub(crate) fn conclude(&mut self) {
        for (ticket, before, text) in std::mem::take(&mut self.requests.concluding) {
            if self.problems.count() == before {
                self.answer(ticket, true, text);
            } else {
                let newest = self.problems.newest().to_owned();
                self.answer(ticket, false, newest);
            }
        }
    }

    /// The consumer was asked, under this number.
    pub(crate) fn asked(&mut self, ticket: Ticket, number: u64, _now: Now) {
        match self.requests.asked.remove(&ticket) {
            Some(Wanted::Snapshot) => self.requests.snapshots.push((number, ticket)),
            Some(Wanted::Figures) => self.requests.figures.push((number, ticket)),
            None => {}
        }
    }

    /// The snapshots that were asked for up to this number are one, or there is none.
    pub(crate) fn snapshot(&mut self, number: u64, came_to: &Result<String, String>) {
        let (done, text) = match came_to {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        for ticket in due(&mut self.requests.snapshots, number) {
            self.answer(ticket, done, text.clone());
        }
    }

    /// What was in the rings when this number was asked for is counted.
    pub(crate) fn figures(&mut self, number: u64, remark: &'static str) {
        for ticket in due(&mut self.requests.figures, number) {
            self.act(Action::AnswerStatus { ticket, remark });
        }
        if self.requests.figures.is_empty() {
            self.requests.figures_since = None;
        }
    }

    /// Answers requests that have waited long enough for figures, with what is known.
    pub(crate) fn answer_old_figures(&mut self, now: Now) {
        let since = self.requests.figures_since;
        if since.is_some_and(|since| now.at.saturating_duration_since(since) > FIGURES_PATIENCE) {
            self.figures(u64::MAX, "\nthe disk is slow: these figures are a few seconds old");
        }
    }

    /// Passes another recording's invitation on to a process of this one. The answer has no text when the process is
    /// not ours.
    fn join(&mut self, ticket: Ticket, forward: Forward) {
        // One that is still joining us can be asked in a moment. A process has several connections when several of its
        // libraries have a copy of mote each.
        let is_it =
            |(_, peer): &(&PeerId, &crate::peer::Peer)| forward.pids.contains(&peer.pid) && peer.listens();
        let peers: Vec<PeerId> = self.peers.iter().filter(is_it).map(|(id, _)| *id).collect();
        if peers.is_empty() {
            self.act(Action::DropMailbox(forward.mailbox));
            return self.answer(ticket, false, String::new());
        }
        for peer in &peers {
            let (place, mailbox) = (forward.place.clone(), forward.mailbox);
            self.send(*peer, Letter::Invitation { place, mailbox, ticket: Some(ticket) });
        }
        self.requests.inviting.insert(ticket, Inviting { forward, receipts: peers.len(), taken: 0 });
    }

    /// An invitation was taken by one connection, or not.
    pub(crate) fn invited(&mut self, ticket: Option<Ticket>, taken: bool) {
        let Some(ticket) = ticket else { return };
        let Some(inviting) = self.requests.inviting.get_mut(&ticket) else { return };
        inviting.taken += usize::from(taken);
        inviting.receipts = inviting.receipts.saturating_sub(1);
        if inviting.receipts > 0 {
            return;
        }
        let Some(Inviting { forward, taken, .. }) = self.requests.inviting.remove(&ticket) else { return };
        if taken == 0 {
            self.act(Action::DropMailbox(forward.mailbox));
            return self.answer(ticket, false, "the process does not answer".to_owned());
        }
        if self.forwards.len() >= FORWARDS_MAX
            && let Some(oldest) = self.forwards.pop_front()
        {
            self.act(Action::DropMailbox(oldest.mailbox));
        }
        self.forwards.push_back(forward);
        self.answer(ticket, true, String::new());
    }

    /// A process is ready to be spoken to: it is told of the recordings that its parent, or the program before it, has
    /// joined.
    pub(crate) fn forward(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id).filter(|peer| peer.is_process()) else { return };
        let Some(hello) = peer.hello else { return };
        let mut letters = Vec::new();
        for forward in &mut self.forwards {
            if forward.pids.contains(&peer.pid) || forward.pids.contains(&(hello.parent as i32)) {
                forward.pids.insert(peer.pid);
                let (place, mailbox) = (forward.place.clone(), forward.mailbox);
                letters.push(Letter::Invitation { place, mailbox, ticket: None });
            }
        }
        letters.into_iter().for_each(|letter| self.send(id, letter));
    }
}

/// Takes out those that wait for a number up to this one.
fn due(waiting: &mut Vec<(u64, Ticket)>, number: u64) -> Vec<Ticket> {
    waiting.extract_if(.., |(wanted, _)| *wanted <= number).map(|(_, ticket)| ticket).collect()
}
