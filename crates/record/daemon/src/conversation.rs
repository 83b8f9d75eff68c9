//! The recorder's side of the conversations: who is let in, whose turn it is, and what becomes of what they say.

use crate::door::Door;
use crate::entrance::Letter;
use crate::hall::Caller;
use crate::peer::{Peer, Said};
use crate::problems::Kind;
use crate::process;
use crate::recorder::Recorder;
use crate::shares::Shares;
use mote_wire::{Hello, Reason};
use std::time::Instant;

/// Messages of one sender that are served before it is the turn of the others: nobody can keep the loop busy.
const ROUND: usize = 64;

impl Recorder<'_> {
    /// Lets in who stands at the door, and may come in.
    pub(crate) fn admit(&mut self, door: &Door) {
        self.shares.begin_turn();
        for entrance in door.entrances() {
            for uid in self.hall.take(entrance) {
                let text = format!("processes of user {uid} were not let in: too many came at once");
                self.problem_of(Kind::Door, 0, text);
            }
            for _ in 0..ROUND {
                let Some((socket, who)) = entrance.accept() else { break };
                let room = self.shares.admit(who.uid, &self.peers);
                match room.and_then(|()| Peer::new(socket, who, entrance.guard_of_path())) {
                    Ok(peer) => self.peers.push(peer),
                    Err(why) => {
                        self.problem_of(Kind::Door, who.pid, format!("a process was not let in: {why}"));
                    }
                }
            }
        }
        for uid in self.hall.users() {
            while self.shares.has_time(uid) {
                let began = Instant::now();
                let Some(caller) = self.hall.next(uid) else { break };
                let pid = caller.letter.sender.pid;
                if let Err(why) = self.let_in(caller) {
                    self.problem_of(Kind::Door, pid, format!("a process was not let in: {why}"));
                }
                self.shares.spend(uid, began);
            }
        }
    }

    /// Lets in who has put a letter into the mailbox.
    fn let_in(&mut self, Caller { guard, bytes, letter }: Caller) -> Result<(), String> {
        let Letter { sender, socket, .. } = letter;
        let pid = sender.pid;
        let nonsense = |what: &str| format!("process {pid} said nonsense at the door: {what}");
        let socket = socket.ok_or_else(|| nonsense("it has sent no socket"))?;
        let mut peer = Peer::new(socket, sender, guard)?;
        self.shares.admit(sender.uid, &self.peers)?;
        match peer.understand(&bytes, sender, &mut self.trace, 0) {
            Said::Hello(hello) => {
                self.check_id(&peer, hello).map_err(|why| nonsense(&why))?;
                self.greet(&mut peer, hello);
                self.peers.push(peer);
                Ok(())
            }
            Said::Nonsense(why) => Err(nonsense(&why)),
            _ => Err(nonsense("a message out of turn")),
        }
    }

    /// Serves what has arrived from those peers that may have something to say. New events are in journal and metadata
    /// before anyone is told their ids.
    pub(crate) fn talk(&mut self, may_speak: impl Fn(&Peer) -> bool) {
        let mut peers = std::mem::take(&mut self.peers);
        let mut new = Vec::new();
        let mut passed_over = None;
        peers.retain_mut(|peer| {
            if may_speak(peer) && !self.shares.has_time(peer.uid) {
                passed_over.get_or_insert(peer.raw());
                return true;
            }
            let stays = !Shares::is_silent(peer) && (!may_speak(peer) || self.talk_to(peer, &mut new));
            if !stays {
                let group = peer.group.take();
                group.into_iter().for_each(|group| self.session.groups.leave(group, peer.pid));
            }
            stays
        });
        // Whose turn it was not is the first next time.
        let first = peers.iter().position(|peer| Some(peer.raw()) == passed_over);
        peers.rotate_left(first.unwrap_or(0));
        self.pressed = passed_over.is_some();
        self.decide(&mut new);
        self.learn(&new);
        self.answer(&mut peers);
        self.peers.append(&mut peers);
        self.serve_shares();
    }

    /// Serves one peer's messages, while its user has time; false when it has gone.
    fn talk_to(&mut self, peer: &mut Peer, learned: &mut Vec<u32>) -> bool {
        for _ in 0..ROUND {
            let (began, uid) = (Instant::now(), peer.uid);
            if !self.shares.has_time(uid) {
                break;
            }
            let Some(said) = peer.serve(&mut self.trace, self.shares.events_left(uid)) else { break };
            let stays = self.heard(peer, said, learned);
            self.shares.spend(uid, began);
            if !stays {
                return false;
            }
        }
        true
    }

    /// Whether a process may be known by the id that it gives for itself: its id in its own pid namespace, which is not ours if it runs in a container. Events, names and mappings go
    /// by it, so nobody may give another user's. Of one that has ended meanwhile the kernel does not say any more; then it must not be known as another user's.
    fn check_id(&mut self, peer: &Peer, hello: Hello) -> Result<(), String> {
        let said = hello.pid;
        let ask = || process::proc_is_ours().then(|| process::own_id(peer.pid.unsigned_abs())).flatten();
        let own = if said as i32 == peer.pid { Some(said) } else { ask() };
        match own {
            Some(own) if own != said => {
                return Err(format!("it says that it is process {said}, and is {own}"));
            }
            None if self.ids.get(&said).is_some_and(|uid| *uid != peer.uid) => {
                return Err(format!("it says that it is process {said}, which is another user's"));
            }
            _ => {}
        }
        self.ids.insert(said, peer.uid);
        Ok(())
    }

    /// Does what a message asks for; false when the peer has gone.
    fn heard(&mut self, peer: &mut Peer, said: Said, learned: &mut Vec<u32>) -> bool {
        match said {
            Said::Hello(hello) => match self.check_id(peer, hello) {
                Ok(()) => self.greet(peer, hello),
                Err(why) => return self.heard(peer, Said::Nonsense(why), learned),
            },
            Said::Events { new, ids, wrong } => {
                self.shares.take_events(peer.uid, new.len());
                learned.extend(new);
                peer.answer = Some(ids);
                if let Some(why) = wrong {
                    let text = format!("an event of process {} cannot be recorded: {why}", peer.pid);
                    self.problem_of(Kind::Event, peer.pid, text);
                }
            }
            Said::Installed { interpreted, refused, why } => {
                self.installed(peer, interpreted, refused, &why);
            }
            Said::Wish(wish) => peer.wish = Some(wish),
            Said::Keeper => {}
            Said::Ready(ready) => {
                self.part(peer);
                self.ready(peer, ready);
                self.forward(peer);
            }
            Said::Renewed | Said::GoesOn => {}
            Said::Declined(why) => self.declined(peer, why),
            Said::Failed(why) => {
                self.missing(peer, format!("cannot join: {why}{}", unready_hint(why)));
                return false;
            }
            Said::Gone => {
                // Of one that has ended in the middle of the conversation nothing is missing.
                if peer.is_unready() && (peer.goes_on || process::runs(peer.pid)) {
                    self.missing(peer, "has hung up before it was ready".to_owned());
                }
                self.gone(peer);
                return false;
            }
            Said::Nonsense(why) => {
                let text = format!("process {} was sent away: {why}", peer.pid);
                self.problem_of(Kind::Conversation, peer.pid, text);
                return false;
            }
        }
        true
    }

    fn declined(&mut self, peer: &Peer, why: Reason) {
        let pid = peer.pid;
        self.problem_of(Kind::Declined, pid, match why {
            Reason::Full => format!(
                "process {pid} is not recorded: it is in {} other recordings, and more are not possible; end one of them",
                mote_wire::SESSIONS_MAX
            ),
            Reason::Stranger => format!(
                "process {pid} is not recorded: it does not believe this recorder, whose user has no number in its user namespace; run `mote record` inside of that"
            ),
        });
    }
}

/// What to do about a process that cannot join.
fn unready_hint(why: mote_sys::Errno) -> &'static str {
    match why.0 {
        libc::ENOMEM => "; its address space is limited (ulimit -v): give smaller --buffers",
        libc::EMFILE => "; it has too few descriptors (ulimit -n)",
        _ => "",
    }
}
