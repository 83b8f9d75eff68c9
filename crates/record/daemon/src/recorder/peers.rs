//! The connections of processes: which of them wait to be let in, and whose turn it is.

use crate::registration::backlog::{Backlog, Waiting};
use crate::registration::connection::{Connection, Received};
use crate::registration::listener::Listener;
use crate::registration::listeners::Listeners;
use crate::registration::sandbox::{LOOK_EVERY, LOOKS, threads_without_main};
use crate::registration::turns::Turns;
use mote_session::{PeerId, SendError};
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::socket::Credentials;
use mote_wire::{Message, Refusal};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

/// All connections.
pub(crate) struct Peers {
    connections: BTreeMap<PeerId, Connection>,
    /// Connections so far.
    accepted: u64,
    /// Whose turn is the first.
    first: PeerId,
    /// A connection has more to say than there was time for.
    is_pressed: bool,
    /// Hellos that came through a mailbox and wait for their turn.
    backlog: Backlog,
    turns: Turns,
}

/// A message, or the end of a connection, with the process that the kernel says is behind it.
pub(crate) struct Heard {
    pub(crate) pid: i32,
    pub(crate) received: Received,
}

impl Peers {
    /// None yet.
    pub(crate) fn new() -> Peers {
        Peers {
            connections: BTreeMap::new(),
            accepted: 0,
            first: PeerId(0),
            is_pressed: false,
            backlog: Backlog::default(),
            turns: Turns::default(),
        }
    }

    /// Takes in a connection over a socket that a process has sent us, or has made.
    ///
    /// # Errors
    /// What is wrong with the socket, for a person.
    pub(crate) fn add(&mut self, socket: Fd, sender: Credentials) -> Result<PeerId, String> {
        let connection = Connection::new(socket, sender)?;
        self.accepted += 1;
        let peer = PeerId(self.accepted);
        self.connections.insert(peer, connection);
        Ok(peer)
    }

    /// The connection of this number.
    pub(crate) fn get(&self, peer: PeerId) -> Option<&Connection> {
        self.connections.get(&peer)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Connection> {
        self.connections.get_mut(&peer)
    }

    /// All connections, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PeerId, &Connection)> {
        self.connections.iter().map(|(id, connection)| (*id, connection))
    }

    /// The connections from this one on, and then those before it.
    pub(crate) fn from(&self, first: PeerId) -> impl Iterator<Item = (PeerId, &Connection)> {
        let all = self.connections.range(first..).chain(self.connections.range(..first));
        all.map(|(id, connection)| (*id, connection))
    }

    /// Closes a connection. Where a process has told of more events on it, its agent is woken up for them.
    pub(crate) fn close(&mut self, peer: PeerId) {
        let Some(closed) = self.connections.remove(&peer).filter(|closed| !closed.is_process) else { return };
        let of_it = |other: &&mut Connection| other.is_process && closed.pid != 0 && other.pid == closed.pid;
        for agent in self.connections.values_mut().filter(of_it) {
            let _ = agent.send(&Message::Attend, &[]);
        }
    }

    /// The descriptors to poll.
    pub(crate) fn polled(&self) -> impl Iterator<Item = i32> {
        self.connections.values().map(Connection::raw)
    }

    /// Whether hellos wait for their turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether there is nothing left to read of what was there in the last round.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.backlog.is_empty() && !self.is_pressed
    }

    /// A round of the loop begins: each user has its time again.
    pub(crate) fn begin_round(&mut self) {
        self.turns.begin_round();
    }

    /// Empties a mailbox. Returns the users some of whose processes are sent away.
    pub(crate) fn take_hellos(&mut self, listener: &Listener) -> Vec<u32> {
        self.backlog.take(listener)
    }

    /// The users whose hellos wait.
    pub(crate) fn waiting_users(&self) -> Vec<u32> {
        self.backlog.users()
    }

    /// The next hello of a user, while it has time.
    pub(crate) fn next_hello(&mut self, uid: u32) -> Option<Waiting> {
        if self.turns.has_time(uid) { self.backlog.next(uid) } else { None }
    }

    /// A user's process has had the loop's time since `began`.
    pub(crate) fn spend(&mut self, uid: u32, began: Instant) {
        self.turns.spend(uid, began);
    }

    /// All connections, the one first that was passed over in the round before.
    pub(crate) fn in_turn(&self) -> Vec<PeerId> {
        self.from(self.first).map(|(id, _)| id).collect()
    }

    /// Whether a connection's descriptor is among those that are `ready`; `None` for all.
    pub(crate) fn is_ready(&self, peer: PeerId, ready: Option<&HashSet<i32>>) -> bool {
        let raw = self.get(peer).map(Connection::raw);
        raw.is_some_and(|raw| ready.is_none_or(|ready| ready.contains(&raw)))
    }

    /// Whether a connection's user has time left in this round.
    pub(crate) fn has_time(&self, peer: PeerId) -> bool {
        self.get(peer).is_some_and(|connection| self.turns.has_time(connection.uid))
    }

    /// Ends a round in which this connection was the first for which there was no time.
    pub(crate) fn end_round(&mut self, passed_over: Option<PeerId>) {
        self.is_pressed = passed_over.is_some();
        self.first = passed_over.unwrap_or(PeerId(0));
    }

    /// Receives what has come over a connection, while its user has time.
    pub(crate) fn receive(&mut self, peer: PeerId, buffer: &mut [u8]) -> Option<Heard> {
        let connection = self.connections.get_mut(&peer)?;
        if !self.turns.has_time(connection.uid) {
            return None;
        }
        match connection.receive(buffer) {
            Received::Nothing => None,
            received => Some(Heard { pid: connection.pid, received }),
        }
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(crate) fn send(&self, peer: PeerId, message: &Message<'_>, fds: &[i32]) -> Result<(), SendError> {
        let connection = self.get(peer).ok_or(SendError::Gone)?;
        connection.send(message, fds).map_err(|why| match why {
            Errno(libc::EPIPE | libc::ECONNRESET) => SendError::Gone,
            Errno(libc::EACCES) => SendError::Locked,
            why => SendError::System(why),
        })
    }

    /// Looks at some processes: whether they have locked themselves in (seccomp), and whether only their agents'
    /// threads are left. Returns those that have locked themselves in since.
    pub(crate) fn look(&mut self, is_without_clock: bool) -> Vec<i32> {
        let mut agents: HashMap<i32, u32> = HashMap::new();
        for connection in self.connections.values().filter(|connection| connection.is_process) {
            *agents.entry(connection.pid).or_default() += 1;
        }
        let mut locked = Vec::new();
        let due = |connection: &&mut Connection| {
            connection.is_process
                && connection.sandbox.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY)
        };
        for connection in self.connections.values_mut().filter(due).take(LOOKS) {
            connection.sandbox.looked = Some(Instant::now());
            let (pid, own) = (connection.pid, agents.get(&connection.pid).copied().unwrap_or(1));
            if connection.sandbox.is_locked(pid)
                && !std::mem::replace(&mut connection.sandbox.is_reported, true)
            {
                connection.let_be();
                locked.push(pid);
            }
            // Of one that we cannot see, only it can know.
            if pid == 0 || threads_without_main(pid) == Some(own + 1) {
                let _ = connection.send(&Message::Look { agents: own }, &[]);
            }
            if is_without_clock && !connection.sandbox.may_call && connection.sandbox.is_free(pid) {
                connection.sandbox.may_call = connection.send(&Message::MayCall, &[]).is_ok();
            }
        }
        locked
    }

    /// Sees to it that processes that have locked themselves in sleep on when we are gone.
    pub(crate) fn let_be(&mut self) {
        self.connections.values_mut().for_each(Connection::let_be);
    }

    /// Whether a process is still there that leaves when it is asked to.
    pub(crate) fn can_leave(&self) -> bool {
        self.connections.values().any(Connection::can_leave)
    }

    /// Sends processes away that have put a hello into a mailbox when the recording ends.
    pub(crate) fn send_away(&mut self, listeners: &Listeners) {
        listeners.all().for_each(|listener| drop(self.backlog.take(listener)));
        for uid in self.backlog.users() {
            while let Some(waiting) = self.backlog.next(uid) {
                let (sender, socket) = (waiting.letter.sender, waiting.letter.socket);
                if waiting.guard.admit(sender).is_ok()
                    && let Some(Ok(connection)) = socket.map(|socket| Connection::new(socket, sender))
                {
                    let _ = connection.send(&Message::Refused(Refusal::Ending), &[]);
                }
            }
        }
    }
}
