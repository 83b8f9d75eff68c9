//! What processes that connect say: read from the sockets, each user in its turn, and given to the session.

use super::Recorder;
use super::peers::Heard;
use crate::process;
use crate::registration::backlog::Waiting;
use crate::registration::connection::Received;
use crate::registration::listener::Letter;
use crate::registration::listeners::Listeners;
use mote_session::trust::Guard;
use mote_session::{Input, Kind, PeerId, Way};
use mote_sys::fd::Fd;
use mote_sys::socket::Credentials;
use mote_wire::MESSAGE_MAX;
use std::collections::HashSet;
use std::time::Instant;

/// Messages of one sender that are read before it is the turn of the others.
const ROUND: usize = 64;

impl Recorder<'_> {
    /// Takes in the processes that have connected, or have put a hello into a mailbox.
    pub(super) fn admit(&mut self, listeners: &Listeners) {
        self.peers.begin_round();
        for listener in listeners.all() {
            for uid in self.peers.take_hellos(listener) {
                let text = format!("some processes of user {uid} are not recorded: too many started at once");
                self.problem_of(Kind::Admission, 0, text);
            }
            for _ in 0..ROUND {
                let Some((socket, sender)) = listener.accept() else { break };
                self.connect(Way::Listener, socket, sender, listener.guard_of_path());
            }
        }
        for uid in self.peers.waiting_users() {
            let mut began = Instant::now();
            while let Some(waiting) = self.peers.next_hello(uid) {
                self.let_in(waiting);
                self.peers.spend(uid, std::mem::replace(&mut began, Instant::now()));
            }
        }
    }

    /// Takes in a process that has put a hello into a mailbox.
    fn let_in(&mut self, Waiting { guard, bytes, letter }: Waiting) {
        let Letter { sender, socket, .. } = letter;
        let Some(socket) = socket else {
            let pid = sender.pid;
            let text = format!(
                "a process could not join: process {pid} has sent a malformed first message: no socket came with it"
            );
            return self.problem_of(Kind::Admission, pid, text);
        };
        if let Some(peer) = self.connect(Way::Mailbox, socket, sender, guard) {
            self.take(Input::Message { peer, sender: Some(sender), bytes: &bytes });
        }
    }

    /// Takes in a connection. Returns its number if it stays.
    fn connect(&mut self, way: Way, socket: Fd, sender: Credentials, guard: Guard) -> Option<PeerId> {
        match self.peers.add(socket, sender) {
            Ok(peer) => {
                self.take(Input::Connected { peer, way, sender, guard });
                self.peers.get(peer).map(|_| peer)
            }
            Err(why) => {
                let text = format!("a process could not join: {why}");
                self.problem_of(Kind::Admission, sender.pid, text);
                None
            }
        }
    }

    /// Reads what has arrived over the connections that are `ready`, or have not said hello; `None` for all.
    pub(super) fn talk(&mut self, ready: Option<&HashSet<i32>>) {
        let mut passed_over = None;
        for id in self.peers.in_turn() {
            let is_new = self.session.peer(id).is_some_and(|peer| !peer.has_said_hello());
            if !is_new && !self.peers.is_ready(id, ready) {
                continue;
            }
            if self.peers.has_time(id) {
                self.talk_to(id);
            } else {
                passed_over.get_or_insert(id);
            }
        }
        self.peers.end_round(passed_over);
        self.take(Input::RoundEnds);
    }

    /// Reads one connection's messages, while its user has time.
    fn talk_to(&mut self, id: PeerId) {
        let mut buffer = vec![0; MESSAGE_MAX + 1];
        for _ in 0..ROUND {
            let began = Instant::now();
            let uid = self.peers.get(id).map(|connection| connection.uid);
            let Some(Heard { pid, received }) = self.peers.receive(id, &mut buffer) else { return };
            match received {
                Received::Nothing => return,
                Received::Closed => self.take(Input::HungUp { peer: id, runs: process::runs(pid) }),
                Received::Message(len, sender) => {
                    let bytes = buffer.get(..len).unwrap_or(&[]);
                    self.take(Input::Message { peer: id, sender, bytes });
                }
            }
            uid.into_iter().for_each(|uid| self.peers.spend(uid, began));
        }
    }
}
