//! The recorder and its rules: what becomes of new events, what processes are sent, what a person changes.

use crate::aggregates;
use crate::control::{Answer, Given, Request};
use crate::cooperate::NEEDS_KERNEL;
use crate::desk::Ticket;
use crate::events::{Announced, Events};
use crate::filters::{Filters, Scene, Weight};
use crate::flow::Flow;
use crate::options::Mode;
use crate::peer::Peer;
use crate::problems::Kind;
use crate::recorder::Recorder;
use crate::trace;
use mote_filter::Rule;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use std::sync::atomic::Ordering;

/// What is said of a recording that holds no snapshots.
pub(crate) const NO_SNAPSHOTS: &str = "only a flight recorder has snapshots: record with --mode overwrite";

impl Recorder<'_> {
    /// Decides what becomes of new events. Those that rules emit are added to `new`.
    pub(crate) fn decide(&mut self, new: &mut Vec<u32>) {
        if new.is_empty() {
            return;
        }
        let known = new.clone();
        let emitted =
            self.with_filters(|filters, scene| known.iter().for_each(|id| filters.decide(*id, scene)));
        new.extend(emitted);
    }

    /// Lets the filters work on the session; returns the events that they have declared.
    fn with_filters(&mut self, work: impl FnOnce(&mut Filters, &mut Scene<'_>)) -> Vec<u32> {
        let mut said = Vec::new();
        let mut emitted = Vec::new();
        let (shared, flow) = (self.session.shared, &self.trace.flow);
        let mut declare = |events: &mut Events, text: &[u8]| declare(events, flow, text, &mut emitted);
        let areas = &mut self.session.areas;
        let mut scene = Scene {
            place: &mut |maps, speculates| areas.extend(maps, speculates),
            events: &mut self.trace.events,
            declare: &mut declare,
            say: &mut |text, weight| said.push((text, weight)),
        };
        work(&mut self.filters, &mut scene);
        if self.filters.speculates() {
            shared.speculates.store(true, Ordering::Release);
        }
        for (text, weight) in said {
            match weight {
                Weight::Remark => self.watch.say(&text),
                // Processes name their events as they like.
                Weight::Problem => self.problem_of(Kind::Rules, 0, text),
            }
        }
        emitted
    }

    /// Puts new events into journal and metadata, before anyone can record them.
    pub(crate) fn learn(&mut self, new: &[u32]) {
        let noted = self.trace.note_events(new);
        self.check_journal(noted);
        if !new.is_empty() {
            self.renew_metadata();
        }
    }

    /// Returns those peers that wait for ids. They get the filters first.
    pub(crate) fn answer(&mut self, peers: &mut [Peer]) {
        for peer in peers.iter_mut().filter(|peer| peer.answer.is_some()) {
            if self.send_filters(peer) {
                peer.send_answer(|id| self.filters.is_on(id));
            }
        }
    }

    /// Sends a peer the newest filters, if there are any. Without them nothing of it may be recorded.
    pub(crate) fn send_filters(&mut self, peer: &mut Peer) -> bool {
        // Filters may name the words that are shared.
        self.cooperate(peer);
        let group = peer.group.or_else(|| self.session.groups.of_process(peer.pid));
        let (generation, bundle) = match self.filters.bundle(&self.session.areas) {
            Ok(None) => return true,
            Ok(Some(bundle)) => bundle,
            Err(why) => {
                self.problem(why.to_string());
                return false;
            }
        };
        let area = match group {
            Some(group) => self.session.areas.of(group),
            None => Err("it shares no buffers".to_owned()),
        };
        let sent = match area {
            Ok(area) => peer.send_filters(generation, area.memfd(), bundle),
            Err(why) => {
                let pid = peer.pid;
                let text = format!(
                    "no memory for what the filters of process {pid} keep: {why}; its events with filters are recorded as before, or stay off"
                );
                self.problem_of(Kind::Filters, pid, text);
                return false;
            }
        };
        match sent {
            Ok(()) => true,
            // It has ended: nothing of it is missing.
            Err(Errno(libc::EPIPE | libc::ECONNRESET)) => false,
            Err(Errno(libc::EACCES)) => {
                let pid = peer.pid;
                let text = format!(
                    "process {pid} has locked itself in (seccomp, all threads), and cannot be told of other rules: it is recorded as before"
                );
                self.problem_of(Kind::Filters, pid, text);
                false
            }
            Err(why) => {
                let pid = peer.pid;
                let text =
                    format!("process {pid} cannot be sent its filters: {why}; it is recorded as before");
                self.problem_of(Kind::Filters, pid, text);
                false
            }
        }
    }

    /// A process has loaded filters, or not.
    pub(crate) fn installed(&mut self, peer: &Peer, interpreted: u32, refused: u32, why: &str) {
        if refused > 0 || !why.is_empty() {
            let text = format!(
                "events of process {} stay off ({refused}), because their filters could not be loaded: {why}",
                peer.pid
            );
            self.problem_of(Kind::Filters, peer.pid, text);
        }
        if interpreted > 0 {
            self.watch.say(&format!(
                "{interpreted} filters of process {} are interpreted, because machine code could not be made there; \
                 `mote doctor` may say why",
                peer.pid
            ));
        }
    }

    /// Does what a person has asked for. Without an answer now, that is put into `late` under its ticket.
    pub(crate) fn requested(
        &mut self,
        ticket: Ticket,
        request: Request,
        beside: Option<Fd>,
    ) -> Option<Answer> {
        let answer = match request {
            Request::Enable { rules, kernel } => self.enable(&rules, &kernel),
            Request::Disable { patterns, kernel } => self.disable(&patterns, &kernel),
            Request::Snapshot => match self.ask_for_snapshot() {
                Ok(number) => {
                    self.later.wait_for_snapshot(number, ticket);
                    return None;
                }
                Err(why) => Err(why.to_owned()),
            },
            Request::Status => {
                let number = self.session.shared.figures.ask();
                self.later.wait_for_figures(number, ticket);
                return None;
            }
            Request::Join { pid, place } => return Some(self.pass_on(pid, place, beside)),
        };
        Some(match answer {
            Ok(text) => Answer { done: true, text },
            Err(text) => Answer { done: false, text },
        })
    }

    fn enable(&mut self, rules: &[Given], kernel: &[Given]) -> Result<String, String> {
        let rules: Vec<Rule> = rules.iter().map(Given::rule).collect::<Result<_, _>>()?;
        let kernel: Vec<Rule> = kernel.iter().map(Given::rule).collect::<Result<_, _>>()?;
        if rules.iter().chain(&kernel).any(Rule::snapshots) && self.options.mode != Mode::Overwrite {
            return Err(NO_SNAPSHOTS.to_owned());
        }
        if rules.iter().any(Rule::asks_kernel) && self.kernel.is_none() {
            return Err(NEEDS_KERNEL.to_owned());
        }
        let count = rules.len() + kernel.len();
        Filters::check(&rules, &self.trace.events)?;
        self.enable_kernel(kernel)?;
        let before = self.problems.count();
        if !rules.is_empty() {
            self.change(|filters, scene| filters.enable(rules, scene));
        }
        self.begin_cooperation();
        if self.problems.count() == before {
            Ok(told(count, "rule is", "rules are") + " in force")
        } else {
            Err(self.problems.newest().to_owned())
        }
    }

    fn disable(&mut self, patterns: &[String], kernel: &[String]) -> Result<String, String> {
        let mut gone = if kernel.is_empty() { 0 } else { self.disable_kernel(kernel)? };
        if !patterns.is_empty() {
            let before = gone;
            self.change(|filters, scene| gone += filters.disable(patterns, scene));
            if gone == before {
                let lines = self.filters.lines().join("\n  ");
                return Err(format!(
                    "no rule has this pattern, and no event that is recorded; there are\n  {lines}"
                ));
            }
        }
        Ok(told(gone, "pattern is", "patterns are") + " recorded no more")
    }

    /// Changes the rules, and sends them to all processes.
    fn change(&mut self, work: impl FnOnce(&mut Filters, &mut Scene<'_>)) {
        let emitted = self.with_filters(work);
        self.learn(&emitted);
        let mut peers = std::mem::take(&mut self.peers);
        for peer in peers.iter_mut().filter(|peer| peer.is_process()) {
            self.send_filters(peer);
        }
        self.peers.append(&mut peers);
    }

    /// Has the consumer write down what the flight recorder holds. Returns the number of the request.
    pub(crate) fn ask_for_snapshot(&mut self) -> Result<u64, &'static str> {
        if self.options.mode != Mode::Overwrite {
            return Err(NO_SNAPSHOTS);
        }
        Ok(self.session.shared.snapshots.ask())
    }

    /// How it is, for a person.
    pub(crate) fn status(&self) -> String {
        let now = self.figures_of_processes();
        let on = (0..self.trace.events.len()).filter(|id| self.filters.is_on(*id)).count();
        let processes = self.peers.iter().filter(|peer| peer.is_process()).count();
        let mut text = format!(
            "recording for {:.1} s: {now}, {}, {on} of {} kinds of events on",
            self.began.elapsed().as_secs_f64(),
            told(processes, "process", "processes"),
            self.trace.events.len(),
        );
        for line in self.filters.lines() {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        if let Some(kernel) = &self.kernel {
            text.push_str(&kernel.status());
        }
        let counted = aggregates::text(&self.aggregates());
        if !counted.is_empty() {
            text.push_str("\n\n");
            text.push_str(counted.trim_end());
        }
        text
    }
}

/// Takes in an event that a rule emits, and returns its id.
fn declare(events: &mut Events, flow: &Flow, text: &[u8], emitted: &mut Vec<u32>) -> Result<u16, String> {
    match trace::announce(events, flow, text) {
        Announced::New(id) => {
            events.note_emitted(id);
            emitted.push(id);
            Ok(id as u16)
        }
        Announced::Known(id) => Ok(id as u16),
        Announced::Malformed(why) => Err(why.to_string()),
        Announced::TooMany => Err("session has as many events as it can hold".to_owned()),
    }
}
/// `1 rule is`, `2 rules are`.
fn told(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
