//! What processes, the kernel's programs and rules ask of one another: begun, given to processes, ended.

use super::Recorder;
use crate::cooperation::never;
use crate::registration::connection::Connection;
use mote_layout::cooperation::SLOTS;
use mote_session::PeerId;
use mote_sys::fd::Fd;
use mote_wire::Message;

impl Recorder<'_> {
    /// Attaches what publishes the state of threads, if rules ask for it and it is not there yet.
    pub(crate) fn begin_cooperation(&mut self) {
        let asks = self.session.filters().asks_kernel() && self.cooperation.latency.is_none();
        let wanted = self.kernel.as_ref().filter(|_| asks);
        if let Some(why) = wanted.and_then(|kernel| self.cooperation.publish(kernel).err()) {
            self.problem(format!(
                "the state of threads in the kernel (`$kernel`), which rules use, is not available: {why}"
            ));
        }
    }

    /// Attaches it when a process asks, by a call of `mote::thread_state` or a threshold: until one does, it costs
    /// no process anything.
    pub(crate) fn publish_if_asked(&mut self) {
        if !self.cooperation.is_wanted() {
            return;
        }
        if self.kernel.as_ref().is_some_and(|kernel| kernel.slow_settings().is_none()) {
            self.watch_slow_calls(&never());
        }
        let Some(kernel) = self.kernel.as_ref() else { return };
        if let Err(why) = self.cooperation.publish(kernel) {
            self.cooperation.note_refused();
            self.problem(format!(
                "the state of threads in the kernel, which a process uses, is not available: {why}"
            ));
        }
    }

    /// Gives a process that has said hello its area, and the words that all share, if there is anything to share.
    pub(crate) fn cooperate(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        if connection.cooperates || !self.cooperation.is_used() {
            return;
        }
        connection.cooperates = true;
        let is_process = connection.is_process;
        let area = if self.cooperation.is_in_kernel() && is_process { self.area_of(peer) } else { None };
        let shared = self.cooperation.session_area.fd();
        let memory = area.and_then(|number| self.cooperation.area(number));
        let fds: Vec<i32> = memory.into_iter().chain(shared).map(Fd::raw).collect();
        let slots = if memory.is_some() { SLOTS } else { 0 };
        if let Some(connection) = self.connections.get(&peer).filter(|_| !fds.is_empty()) {
            let _ = connection.send(&Message::Cooperate { slots }, &fds);
        }
    }

    /// The area of a connection's process: one that another connection of it has, or a new one.
    fn area_of(&mut self, peer: PeerId) -> Option<u32> {
        let (pid, area) = self.connections.get(&peer).map(|connection| (connection.pid, connection.area))?;
        if area.is_some() {
            return area;
        }
        let same = |other: &&Connection| other.pid == pid && other.pid != 0 && !other.has_hung_up();
        // After exec the old connection has been closed.
        let known = self.connections.values().filter(same).find_map(|other| other.area);
        let area = self.cooperation.join(known, pid, self.kernel.as_ref());
        self.connections.get_mut(&peer)?.area = area;
        area
    }

    /// Gives a process words of the shared memory by their name.
    pub(crate) fn share(&mut self, peer: PeerId, name: &str, words: u32, each_thread: bool) {
        let place = self.cooperation.session_area.names().place(name, each_thread, words);
        let shared = self.cooperation.session_area.fd().map(Fd::raw).ok();
        let area = place.filter(|_| each_thread).and_then(|_| self.area_for_words(peer));
        let area = area.and_then(|number| self.cooperation.area(number)).map(Fd::raw);
        let Some(connection) = self.connections.get(&peer) else { return };
        // A process that cannot be answered has ended.
        let _ = match (place, shared) {
            (Some(place), Some(shared)) => {
                let slots = if area.is_some() { SLOTS } else { 0 };
                let fds: Vec<i32> = [Some(shared), area].into_iter().flatten().collect();
                connection.send(&Message::Shared { at: place.at, words: place.count, slots }, &fds)
            }
            _ => connection.send(&Message::Shared { at: 0, words: 0, slots: 0 }, &[]),
        };
    }

    /// The area in which a process has words of its threads: connections that only ask have none of their own.
    fn area_for_words(&mut self, peer: PeerId) -> Option<u32> {
        let pid = self.connections.get(&peer)?.pid;
        let main = self.connections.iter().find(|(_, other)| other.pid == pid && other.is_process);
        let main = main.map_or(peer, |(id, _)| *id);
        self.area_of(main)
    }

    /// Tells what there was too little of.
    pub(crate) fn end_cooperation(&mut self) {
        for remark in self.cooperation.remarks() {
            self.problem(remark);
        }
    }
}
