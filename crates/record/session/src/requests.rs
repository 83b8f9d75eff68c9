//! What persons and other recorders ask of a session. Each request is answered once, when everything that it takes is
//! done.

use crate::action::{Action, KernelChange, Letter};
use crate::filters::Filters;
use crate::input::{Request, Ticket};
use crate::invitations::{Forward, Invited};
use crate::peer::PeerId;
use crate::session::{Now, Session};
use crate::settings::NO_SNAPSHOTS;
use crate::waiting::{Changing, Wanted};
use mote_filter::Rule;
use mote_words::counted;
use std::collections::HashSet;

impl Session {
    /// A person, or another recorder, asks for something.
    pub(crate) fn request(&mut self, ticket: Ticket, request: Request, now: Now) {
        match request {
            Request::Enable { rules, kernel } => self.enable(ticket, rules, kernel),
            Request::Disable { patterns, kernel } => self.disable(ticket, patterns, kernel),
            Request::Snapshot if !self.capabilities.is_flight_recorder => {
                self.answer(ticket, false, NO_SNAPSHOTS.to_owned());
            }
            Request::Snapshot => {
                self.waiting.ask(ticket, Wanted::Snapshot, now.at);
                self.act(Action::AskSnapshot(ticket));
            }
            Request::Status => {
                self.waiting.ask(ticket, Wanted::Figures, now.at);
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
        if rules.iter().any(|rule| rule.names_shared_words(self.capabilities.has_kernel)) {
            match self.selection.words.made() {
                Some(Ok(())) => {}
                Some(Err(why)) => {
                    let text =
                        format!("no memory for the words that these rules share with processes: {why}");
                    return self.answer(ticket, false, text);
                }
                None => {
                    self.ask_for_words();
                    return self.waiting.for_words.push((ticket, rules, kernel));
                }
            }
        }
        let count = rules.len() + kernel.len();
        if kernel.is_empty() {
            return self.enable_rules(ticket, rules, count);
        }
        self.waiting.changes.insert(ticket, Changing::Enable(rules, count));
        self.act(Action::ChangeKernel { ticket, change: KernelChange::Enable(kernel) });
    }

    /// Whether rules can be added.
    fn check(&self, rules: &[Rule], kernel: &[Rule]) -> Result<(), String> {
        self.capabilities.check(rules, kernel)?;
        Filters::check(rules, &self.selection.events)
    }

    fn enable_rules(&mut self, ticket: Ticket, rules: Vec<Rule>, count: usize) {
        let before = self.problems.count();
        if !rules.is_empty() {
            self.change_rules(|filters, scope| filters.enable(rules, scope));
        }
        self.act(Action::BeginCooperation);
        let text = counted(count, "rule is", "rules are") + " in force";
        self.waiting.concluding.push((ticket, before, text));
    }

    fn disable(&mut self, ticket: Ticket, patterns: Vec<String>, kernel: Vec<String>) {
        if kernel.is_empty() {
            return self.disable_rules(ticket, &patterns, 0);
        }
        self.waiting.changes.insert(ticket, Changing::Disable(patterns));
        self.act(Action::ChangeKernel { ticket, change: KernelChange::Disable(kernel) });
    }

    /// Takes patterns back; `gone` are those of the kernel's side.
    fn disable_rules(&mut self, ticket: Ticket, patterns: &[String], gone: usize) {
        let mut meant = 0;
        if !patterns.is_empty() {
            self.change_rules(|filters, scope| meant = filters.disable(patterns, scope));
            if meant == 0 {
                let lines = self.selection.filters.lines().join("\n  ");
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
        let Some(changing) = self.waiting.changes.remove(&ticket) else { return };
        match (done, changing) {
            (Err(why), _) => self.answer(ticket, false, why),
            (Ok(_), Changing::Enable(rules, count)) => self.enable_rules(ticket, rules, count),
            (Ok(gone), Changing::Disable(patterns)) => self.disable_rules(ticket, &patterns, gone),
        }
    }

    /// Answers the requests whose actions are done by now: a change is in force unless it brought problems.
    pub(crate) fn conclude(&mut self) {
        for (ticket, before, text) in std::mem::take(&mut self.waiting.concluding) {
            if self.problems.count() == before {
                self.answer(ticket, true, text);
            } else {
                let newest = self.problems.newest().to_owned();
                self.answer(ticket, false, newest);
            }
        }
    }

    /// The snapshots that were asked for up to this number are one, or there is none.
    pub(crate) fn snapshot(&mut self, number: u64, came_to: &Result<String, String>) {
        let (done, text) = match came_to {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        for ticket in self.waiting.take_snapshots(number) {
            self.answer(ticket, done, text.clone());
        }
    }

    /// What was in the rings when this number was asked for is counted.
    pub(crate) fn figures(&mut self, number: u64, remark: &'static str) {
        for ticket in self.waiting.take_figures(number) {
            self.act(Action::AnswerStatus { ticket, remark });
        }
    }

    /// Answers requests that have waited long enough for figures, with what is known.
    pub(crate) fn answer_old_figures(&mut self, now: Now) {
        if self.waiting.are_figures_late(now.at) {
            self.figures(u64::MAX, "\nthe disk is slow: these figures are a few seconds old");
        }
    }

    /// Passes another recording's invitation on to a process of this one. The answer has no text when the process is
    /// not ours.
    fn join(&mut self, ticket: Ticket, forward: Forward) {
        // One that is still joining us can be asked in a moment. A process has several connections when several of its
        // libraries have a copy of mote each.
        let peers = self.peers.that(|peer| forward.pids.contains(&peer.pid) && peer.listens());
        if peers.is_empty() {
            self.act(Action::DropMailbox(forward.mailbox));
            return self.answer(ticket, false, String::new());
        }
        for peer in &peers {
            let (place, mailbox) = (forward.place.clone(), forward.mailbox);
            self.send(*peer, Letter::Invitation { place, mailbox, ticket: Some(ticket) });
        }
        self.invitations.begin(ticket, forward, peers.len());
    }

    /// An invitation was taken by one connection, or not.
    pub(crate) fn invited(&mut self, ticket: Option<Ticket>, taken: bool) {
        let Some(ticket) = ticket else { return };
        match self.invitations.receipt(ticket, taken) {
            None => {}
            Some(Invited::Refused(mailbox)) => {
                self.act(Action::DropMailbox(mailbox));
                self.answer(ticket, false, "the process does not answer".to_owned());
            }
            Some(Invited::Taken { given_up }) => {
                self.actions.extend(given_up.map(Action::DropMailbox));
                self.answer(ticket, true, String::new());
            }
        }
    }

    /// A process is ready to be spoken to: it is told of the recordings that its parent, or the program before it, has
    /// joined.
    pub(crate) fn forward(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(id).filter(|peer| peer.is_process()) else { return };
        let Some(hello) = peer.hello else { return };
        for (place, mailbox) in self.invitations.of_process(peer.pid, hello) {
            self.send(id, Letter::Invitation { place, mailbox, ticket: None });
        }
    }
}
