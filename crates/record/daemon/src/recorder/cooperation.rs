//! What processes, the kernel's programs and rules ask of one another: given to processes.

use super::kernel_side::KernelSide;
use super::peers::Peers;
use crate::registration::connection::Connection;
use mote_layout::cooperation::SLOTS;
use mote_session::PeerId;
use mote_sys::fd::Fd;
use mote_wire::Message;

impl KernelSide {
    /// Gives a process that has said hello its area, and the words that all share, if there is anything to share.
    pub(crate) fn cooperate(&mut self, peers: &mut Peers, peer: PeerId) {
        let Some(connection) = peers.get_mut(peer) else { return };
        if connection.cooperates || !self.cooperation.is_used() {
            return;
        }
        connection.cooperates = true;
        let is_process = connection.is_process;
        let has_area = self.cooperation.is_in_kernel() && is_process;
        let area = if has_area { self.area_of(peers, peer) } else { None };
        let shared = self.cooperation.session_area.fd();
        let memory = area.and_then(|number| self.cooperation.area(number));
        let fds: Vec<i32> = memory.into_iter().chain(shared).map(Fd::raw).collect();
        let slots = if memory.is_some() { SLOTS } else { 0 };
        if !fds.is_empty() {
            let _ = peers.send(peer, &Message::Cooperate { slots }, &fds);
        }
    }

    /// The area of a connection's process: one that another connection of it has, or a new one.
    fn area_of(&mut self, peers: &mut Peers, peer: PeerId) -> Option<u32> {
        let (pid, area) = peers.get(peer).map(|connection| (connection.pid, connection.area))?;
        if area.is_some() {
            return area;
        }
        let same = |other: &Connection| other.pid == pid && other.pid != 0 && !other.has_hung_up();
        // After exec the old connection has been closed.
        let known = peers.iter().filter(|(_, other)| same(other)).find_map(|(_, other)| other.area);
        let area = self.cooperation.join(known, pid, self.kernel.as_ref());
        peers.get_mut(peer)?.area = area;
        area
    }

    /// Gives a process words of the shared memory by their name.
    pub(crate) fn share(
        &mut self,
        peers: &mut Peers,
        peer: PeerId,
        (name, words, each_thread): (&str, u32, bool),
    ) {
        let place = self.cooperation.session_area.names().place(name, each_thread, words);
        let shared = self.cooperation.session_area.fd().map(Fd::raw).ok();
        let area = place.filter(|_| each_thread).and_then(|_| self.area_for_words(peers, peer));
        let area = area.and_then(|number| self.cooperation.area(number)).map(Fd::raw);
        // A process that cannot be answered has ended.
        let _ = match (place, shared) {
            (Some(place), Some(shared)) => {
                let slots = if area.is_some() { SLOTS } else { 0 };
                let fds: Vec<i32> = [Some(shared), area].into_iter().flatten().collect();
                peers.send(peer, &Message::Shared { at: place.at, words: place.count, slots }, &fds)
            }
            _ => peers.send(peer, &Message::Shared { at: 0, words: 0, slots: 0 }, &[]),
        };
    }

    /// The area in which a process has words of its threads: connections that only ask have none of their own.
    fn area_for_words(&mut self, peers: &mut Peers, peer: PeerId) -> Option<u32> {
        let pid = peers.get(peer)?.pid;
        let main = peers.iter().find(|(_, other)| other.pid == pid && other.is_process);
        let main = main.map_or(peer, |(id, _)| id);
        self.area_of(peers, main)
    }

    /// A connection of a process with this area is closed.
    pub(crate) fn leave(&mut self, peers: &mut Peers, peer: PeerId) {
        let area = peers.get_mut(peer).and_then(|connection| connection.area.take());
        area.into_iter().for_each(|area| self.cooperation.leave(area));
    }
}
