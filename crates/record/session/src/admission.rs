//! Processes come and go: rights, rings, the journal.

use crate::action::{Action, Letter};
use crate::groups::{GroupId, Make, Rings};
use crate::input::{Receipt, SendError};
use crate::peer::{Awaits, Peer, PeerId, Seen, Way};
use crate::problems::Kind;
use crate::session::{Now, Session};
use crate::trust::Guard;
use mote_journal::{Fact, Process};
use mote_sys::socket::Credentials;
use mote_wire::{Hello, How, Refusal};

impl Session {
    pub(crate) fn connected(
        &mut self,
        id: PeerId,
        (way, sender, guard): (Way, Credentials, Guard),
        now: Now,
    ) {
        if let Err(why) = self.peers.connect(id, (way, sender, guard), now.at) {
            self.problem(Kind::Admission, sender.pid, format!("a process could not join: {why}"));
            self.act(Action::Close(id));
        }
    }

    /// The hello of a process: asks what the kernel says of the process.
    pub(crate) fn hello(&mut self, id: PeerId, sender: Credentials, hello: Hello, now: Now) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        if let Err(why) = peer.guard.admit(sender) {
            return self.nonsense(id, &why, now);
        }
        (peer.pid, peer.uid) = (sender.pid, sender.uid);
        peer.hello = Some(hello);
        let (pid, uid) = (peer.pid, peer.uid);
        if !self.stage.is_recording() {
            return self.send(id, Letter::Refused(Refusal::Ending));
        }
        self.act(Action::Look { peer: id, pid, uid, how: hello.how, said: hello.pid });
    }

    /// What the kernel says of a process that has said hello. It gets its rings, if it waits for some.
    pub(crate) fn looked(&mut self, id: PeerId, seen: Seen, now: Now) {
        let Some(peer) = self.peers.get_mut(id).filter(|peer| peer.seen.is_none()) else { return };
        let Some(hello) = peer.hello else { return };
        let (pid, uid) = (peer.pid, peer.uid);
        if let Err(why) = self.check_id((pid, uid), hello, &seen) {
            return self.nonsense(id, &why, now);
        }
        let whose = (seen.principal, seen.alone);
        if let Some(peer) = self.peers.get_mut(id) {
            peer.seen = Some(seen);
        }
        let mut changes = Vec::new();
        if hello.how.wants_rings() {
            let rings = self.groups.join(whose, pid, &mut changes);
            self.change_rings(changes);
            match rings {
                Some(rings) => self.await_rings(id, rings, Awaits::Welcome, now),
                None => self.send(id, Letter::Refused(Refusal::Memory)),
            }
            return;
        }
        if hello.how == How::Fork {
            // A child goes on in its parent's rings, if these are to be used.
            let group = self.groups.join_again(whose.0, pid);
            if let Some(peer) = self.peers.get_mut(id) {
                peer.group = group;
            }
            if group.is_none() {
                let rings = self.groups.join_others(whose, pid, &mut changes);
                self.change_rings(changes);
                if let Some(rings) = rings {
                    return self.await_rings(id, rings, Awaits::Others, now);
                }
            }
        }
        self.admit(id, now);
    }

    /// Whether a process may be known by the id that it gives for itself: its id in its own pid namespace, which is not
    /// ours if it runs in a container. Events, names and mappings go by it, so a process must not give another user's.
    /// Of one that has ended meanwhile the kernel does not say any more; then it must not be known as another user's.
    fn check_id(&mut self, (pid, uid): (i32, u32), hello: Hello, seen: &Seen) -> Result<(), String> {
        let said = hello.pid;
        let own = if said as i32 == pid { Some(said) } else { seen.own_id };
        match own {
            Some(own) if own != said => {
                return Err(format!("it claims to be process {said}, but is process {own}"));
            }
            None if self.known.is_of_other(said, uid) => {
                return Err(format!("it claims to be process {said}, which belongs to another user"));
            }
            _ => {}
        }
        self.known.note_user(said, uid);
        Ok(())
    }

    fn await_rings(&mut self, id: PeerId, rings: Rings, awaits: Awaits, now: Now) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        peer.awaits = Some((rings, awaits));
        match rings.make {
            Some(make) => self.act(Action::MakeRings(make)),
            None if self.groups.is_made(rings.group) => self.give_rings(id, now),
            None => {}
        }
    }

    /// Rings were made, or not.
    pub(crate) fn rings(&mut self, group: GroupId, made: bool, now: Now) {
        if made {
            self.groups.made(group);
        } else if let Some(make) = self.groups.not_made(group) {
            let make: Make = make;
            return self.act(Action::MakeRings(make));
        }
        let waits = |peer: &Peer| peer.awaits.is_some_and(|(rings, _)| rings.group == group);
        for id in self.peers.that(waits) {
            if made { self.give_rings(id, now) } else { self.give_none(id, now) }
        }
    }

    /// Gives a process the rings that it waits for.
    fn give_rings(&mut self, id: PeerId, now: Now) {
        let has_bundle = self.selection.filters.has_bundle();
        let Some(peer) = self.peers.get_mut(id) else { return };
        let Some((Rings { group, whose, .. }, awaits)) = peer.awaits else { return };
        let is_child = peer.hello.is_some_and(|hello| hello.how.is_child());
        match awaits {
            Awaits::Welcome => {
                peer.awaits = None;
                peer.group = Some(group);
                // A process that has just started gets the memory of filters with the first filters.
                let with_maps = is_child && has_bundle;
                self.send(id, Letter::Welcome { group, whose, with_maps });
            }
            Awaits::Others => {
                peer.awaits = None;
                peer.group = Some(group);
                self.send(id, Letter::Renew { group, instead: None, with_maps: has_bundle });
                self.admit(id, now);
            }
            Awaits::Instead(old) => {
                self.send(id, Letter::Renew { group, instead: Some(old), with_maps: has_bundle });
            }
        }
    }

    /// There are no rings for a process.
    fn give_none(&mut self, id: PeerId, now: Now) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let Some((_, awaits)) = peer.awaits.take() else { return };
        let pid = peer.pid;
        match awaits {
            Awaits::Welcome => self.send(id, Letter::Refused(Refusal::Memory)),
            Awaits::Others => self.admit(id, now),
            Awaits::Instead(_) => self.missing(pid, NO_OTHERS),
        }
    }

    /// A letter was taken, or not.
    pub(crate) fn sent(&mut self, id: PeerId, receipt: Receipt, done: Result<(), SendError>, now: Now) {
        match receipt {
            // One that cannot be answered has died at once: nothing of it is missing.
            Receipt::Welcome if done.is_ok() => self.admit(id, now),
            Receipt::Welcome | Receipt::Renew(None) => {}
            Receipt::Renew(Some(old)) => self.renewed(id, old, done.is_ok(), now),
            Receipt::RefusedMemory => self.refused(id, done.is_ok()),
            Receipt::Filters => self.filters_sent(id, done, now),
            Receipt::Invitation(ticket) => self.invited(ticket, done.is_ok()),
        }
    }

    /// A process that there is no memory for was told so. Of one that has ended meanwhile it cannot be said any more
    /// whose it was, and nothing of it is missing.
    fn refused(&mut self, id: PeerId, is_there: bool) {
        let Some(pid) = self.peers.get(id).filter(|_| is_there).map(|peer| peer.pid) else { return };
        self.problems.note_missing();
        let text = format!(
            "process {pid} is not recorded: all memory for buffers is taken by other processes; give larger --buffers"
        );
        self.problem(Kind::Memory, pid, text);
    }

    /// Takes a process in that has its rings, or needs none.
    fn admit(&mut self, id: PeerId, now: Now) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let (Some(hello), Some(seen)) = (peer.hello, peer.seen.as_mut()) else { return };
        peer.is_admitted = true;
        let (pid, is_process) = (peer.pid, hello.how != How::Library);
        let end = hello.comm.iter().position(|byte| *byte == 0).unwrap_or(hello.comm.len());
        let mut process = Process {
            pid: hello.pid as i32,
            parent: hello.parent as i32,
            at: now.ticks,
            how: how(hello.how).to_owned(),
            comm: String::from_utf8_lossy(&hello.comm[..end]).into_owned(),
            exe: std::mem::take(&mut seen.exe),
            maps: std::mem::take(&mut seen.maps),
        };
        // Of a program that is known only what is new.
        let begins = hello.how == How::Start;
        let is_other = self.known.note_maps(hello.pid, begins, &mut process.maps);
        match begins {
            true if is_other => self.known.note_program(pid),
            true => how(How::Library).clone_into(&mut process.how),
            false => {}
        }
        if is_process && let Some(find) = self.known.replaces(pid) {
            self.send(id, Letter::Replaces(find));
        }
        self.act(Action::Admitted { peer: id, pid: hello.pid, is_process });
        if is_process {
            self.act(Action::Cooperate(id));
        }
        if hello.how.is_child() {
            // It has inherited its filters, which may have changed since.
            self.send_filters(id);
            self.forward(id);
        }
        if is_process || !process.maps.is_empty() {
            self.act(Action::NoteProcess { pid, process });
        }
    }

    /// A process has damaged the rings of this group: the processes get rings of their own, those that listen; the
    /// others when they do.
    pub(crate) fn damaged(&mut self, group: GroupId) {
        if !self.groups.retire(group) {
            return;
        }
        let peers = self.peers.that(|peer| peer.group == Some(group) && peer.listens());
        peers.into_iter().for_each(|id| self.part(id));
        let text = "a process damaged the buffers that it shares with others of its user; \
                    each has buffers of its own from now on";
        self.problem(Kind::Recorder, 0, text.to_owned());
    }

    /// Gives a process rings of its own instead of those of its group, if these are not used any more.
    pub(crate) fn part(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(id).filter(|peer| peer.awaits.is_none()) else { return };
        let Some(group) = peer.group.filter(|group| self.groups.is_retired(*group)) else { return };
        let Some(alone) = peer.seen.as_ref().map(|seen| seen.alone) else { return };
        let pid = peer.pid;
        let mut changes = Vec::new();
        let rings = self.groups.join((alone, alone), pid, &mut changes);
        self.change_rings(changes);
        let Some(rings) = rings else { return self.missing(pid, NO_OTHERS) };
        if let Some(peer) = self.peers.get_mut(id) {
            peer.awaits = Some((rings, Awaits::Instead(group)));
        }
        match rings.make {
            Some(make) => self.act(Action::MakeRings(make)),
            None if self.groups.is_made(rings.group) => {
                let letter = Letter::Renew {
                    group: rings.group,
                    instead: Some(group),
                    with_maps: self.selection.filters.has_bundle(),
                };
                self.send(id, letter);
            }
            None => {}
        }
    }

    /// Other rings were sent to a process, or could not be.
    fn renewed(&mut self, id: PeerId, old: GroupId, done: bool, now: Now) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let Some((Rings { group: new, .. }, _)) = peer.awaits.take() else { return };
        let pid = peer.pid;
        if done {
            peer.group = Some(new);
            self.leave(old, pid, now);
        } else {
            self.leave(new, pid, now);
            self.missing(pid, NO_OTHERS);
        }
    }

    fn leave(&mut self, group: GroupId, pid: i32, now: Now) {
        let change = self.groups.leave(group, pid, now.at);
        self.change_rings(change.into_iter().collect());
    }

    /// A connection was closed at the other end.
    pub(crate) fn hung_up(&mut self, id: PeerId, runs: bool, now: Now) {
        let Some(peer) = self.peers.get(id) else { return };
        let (pid, hello) = (peer.pid, peer.hello.filter(|_| peer.is_process() && peer.is_admitted));
        // Of one that has ended in the middle of the conversation nothing is missing.
        if peer.is_unready() && (peer.goes_on || runs) {
            self.missing(pid, "disconnected before it was ready");
        }
        self.close(id, now);
        if let Some(hello) = hello {
            self.act(Action::Note(Fact::Exit { pid: hello.pid as i32, at: now.ticks }));
        }
    }

    /// Closes a connection.
    pub(crate) fn close(&mut self, id: PeerId, now: Now) {
        let Some(peer) = self.peers.remove(id) else { return };
        let awaited = peer.awaits.map(|(rings, _)| rings.group);
        peer.group.into_iter().chain(awaited).for_each(|group| self.leave(group, peer.pid, now));
        if let Some(hello) = peer.hello.filter(|_| peer.is_process() && peer.is_admitted) {
            self.act(Action::Left { peer: id, pid: hello.pid });
        }
        self.act(Action::Close(id));
    }

    /// A connection has said something that cannot be; it is closed.
    pub(crate) fn nonsense(&mut self, id: PeerId, why: &str, now: Now) {
        let Some(peer) = self.peers.get(id) else { return };
        let (pid, is_letter) = (peer.pid, peer.way == Way::Mailbox && !peer.is_admitted);
        if is_letter {
            let text =
                format!("a process could not join: process {pid} has sent a malformed first message: {why}");
            self.problem(Kind::Admission, pid, text);
        } else {
            self.problem(Kind::Conversation, pid, format!("process {pid} was disconnected: {why}"));
        }
        self.close(id, now);
    }

    /// Closes the connections that say nothing.
    pub(crate) fn close_silent(&mut self, now: Now) {
        self.peers.silent(now.at).into_iter().for_each(|id| self.close(id, now));
    }
}

/// What is said of a process that stays in damaged rings.
const NO_OTHERS: &str = "cannot get new buffers in place of the damaged ones";

/// How a process came, as the journal says it.
fn how(how: How) -> &'static str {
    match how {
        How::Start => "start",
        How::Fork | How::Apart => "fork",
        How::Library => "library",
        How::Attach => "attach",
    }
}
