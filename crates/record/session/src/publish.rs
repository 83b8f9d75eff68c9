//! New events: decided by the rules, written into journal and metadata, then their ids are told. A recording that is
//! cut anywhere can be read up to there.

use crate::action::{Action, Letter};
use crate::filters::{Filters, Scope, Weight};
use crate::input::SendError;
use crate::peer::{Peer, PeerId};
use crate::problems::Kind;
use crate::selection::Decided;
use crate::session::{Now, Session};
use mote_sys::Errno;
use mote_wire::ID_ON;
use std::time::Duration;

/// For how long a process may leave its connection full before that is said.
const FULL_MAX: Duration = Duration::from_secs(5);

impl Session {
    /// Publishes the events that were announced in this round, and answers the processes that wait for ids. Those of a
    /// process that has more to announce wait, but not for longer than a tick: all metadata are written each time.
    pub(crate) fn publish(&mut self) {
        let new = self.unpublished.take_announced();
        let mut is_urgent = false;
        if !new.is_empty() {
            let emitted =
                self.with_filters(|filters, scope| new.iter().for_each(|id| filters.decide(*id, scope)));
            self.unpublished.decided(new);
            // Rules that emit others may do so at once.
            is_urgent = !emitted.is_empty();
            self.unpublished.decided(emitted);
        }
        let waits_for_all = |peer: &Peer| peer.announced.is_some() && !peer.has_more;
        is_urgent |= self.peers.any(waits_for_all) || !self.peers.any(|peer| peer.has_more);
        if is_urgent {
            self.publish_all();
        }
        for id in self.peers.that(|peer| peer.announced.is_some()) {
            if self.send_filters(id) {
                self.send_ids(id);
            }
        }
    }

    /// Publishes all events that are not.
    pub(crate) fn publish_all(&mut self) {
        let events = self.unpublished.take_decided();
        if !events.is_empty() {
            self.act(Action::PublishEvents(events));
        }
    }

    /// Lets the filters work on the session; returns the events that they have declared.
    pub(crate) fn with_filters(&mut self, work: impl FnOnce(&mut Filters, &mut Scope<'_>)) -> Vec<u32> {
        let Decided { emitted, begins_to_speculate, reports } = self.selection.decide(work);
        self.actions.extend(emitted.iter().map(|id| Action::KnowEvent(*id)));
        if begins_to_speculate {
            self.act(Action::Speculate);
        }
        for (text, weight) in reports {
            match weight {
                Weight::Remark => self.act(Action::Say(text)),
                // Processes name their events as they like.
                Weight::Problem => self.problem(Kind::Rules, 0, text),
            }
        }
        emitted
    }

    /// Changes the rules, and sends them to all processes.
    pub(crate) fn change_rules(&mut self, work: impl FnOnce(&mut Filters, &mut Scope<'_>)) {
        let emitted = self.with_filters(work);
        if !emitted.is_empty() {
            self.act(Action::PublishEvents(emitted));
        }
        for id in self.peers.that(|peer| peer.is_process() && peer.is_admitted) {
            self.send_filters(id);
        }
    }

    /// Sends a process the newest filters. Returns true when it has them, or needs none; else it is known later whether
    /// it has got them ([`Session::filters_sent`]). Without them no event of it may be recorded.
    pub(crate) fn send_filters(&mut self, id: PeerId) -> bool {
        // Filters may name the words that are shared.
        self.act(Action::Cooperate(id));
        if !self.selection.filters.has_bundle() {
            return true;
        }
        if let Some(bytes) = self.selection.renew() {
            self.act(Action::Bundle { generation: self.selection.filters.generation(), bytes });
        }
        let generation = self.selection.filters.generation();
        let Some(peer) = self.peers.get_mut(id) else { return false };
        if peer.generation >= generation {
            return true;
        }
        let Some(group) = peer.group.or(self.groups.of_process(peer.pid)) else {
            let pid = peer.pid;
            // The kernel does not say any more whose a process was that has ended: it came too late for its group.
            if !peer.seen.as_ref().is_some_and(|seen| seen.has_ended) {
                self.no_memory(pid, "it has no buffers yet");
            }
            return false;
        };
        peer.generation = generation;
        self.send(id, Letter::Filters { group, generation });
        false
    }

    /// Sends the newest filters again where there was no room for them. Those that wait for ids get them when these are
    /// published.
    pub(crate) fn send_filters_again(&mut self) {
        for id in self.peers.that(|peer| peer.full_since.is_some() && peer.announced.is_none()) {
            if self.send_filters(id)
                && let Some(peer) = self.peers.get_mut(id)
            {
                // It needs none any more.
                peer.full_since = None;
            }
        }
    }

    /// The newest filters were taken by a process, or not. Then those events stay off whose ids it waits for.
    pub(crate) fn filters_sent(&mut self, id: PeerId, done: Result<(), SendError>, now: Now) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let pid = peer.pid;
        match done {
            Ok(()) => {
                peer.full_since = None;
                self.send_ids(id);
            }
            // It has ended: nothing of it is missing.
            Err(SendError::Gone) => {}
            Err(SendError::Locked) => {
                let text = format!(
                    "process {pid} has put all of its threads into a sandbox (seccomp) and cannot get new rules; \
                     it is recorded by the old ones"
                );
                self.problem(Kind::Filters, pid, text);
            }
            Err(SendError::Memory(why)) => {
                peer.generation = 0;
                self.no_memory(pid, &why);
            }
            // It reads what it has first: rules may change faster than a program's sites.
            Err(SendError::System(Errno(libc::EAGAIN)))
                if now.at.duration_since(*peer.full_since.get_or_insert(now.at)) < FULL_MAX =>
            {
                peer.generation = 0;
            }
            Err(SendError::System(why)) => {
                (peer.generation, peer.full_since) = (0, None);
                let text =
                    format!("process {pid} cannot be sent its filters: {why}; it is recorded as before");
                self.problem(Kind::Filters, pid, text);
            }
        }
    }

    fn no_memory(&mut self, pid: i32, why: &str) {
        let text = format!(
            "no memory for what the filters of process {pid} keep: {why}; \
             its events with filters are recorded as before, or stay off"
        );
        self.problem(Kind::Filters, pid, text);
    }

    /// Tells a process the ids of the events that it has announced, if it waits for them.
    fn send_ids(&mut self, id: PeerId) {
        let Some(ids) = self.peers.get_mut(id).and_then(|peer| peer.announced.take()) else { return };
        let word = |id: Option<u32>| {
            id.map_or(0, |id| id | if self.selection.filters.is_on(id) { ID_ON } else { 0 })
        };
        let words = ids.into_iter().map(word).collect();
        self.send(id, Letter::Ids(words));
    }
}
