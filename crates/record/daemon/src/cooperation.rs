//! Areas that processes share with the kernel's programs, and words with names that all share: who gets what.
//!
//! A process gets its area with its welcome, when the kernel's side is on: its threads set thresholds there, and find there what the kernel publishes of them. Without
//! the kernel's side it gets one when a thread's own words are asked for. Nothing that a process writes there is believed to be more than a number.

use crate::area::Memory;
use crate::area::session::SessionArea;
use crate::kernel::Kernel;
use crate::options::{LatencyOptions, Options};
use crate::recorder::Recorder;
use crate::registration::connection::Connection;
use mote_catalog::btf::Btf;
use mote_kernel::session::Kernel as Tracer;
use mote_layout::cooperation::{Header, MAGIC, PUBLISHED, SLOTS, THRESHOLDS, VERSION, WINDOWS, area_bytes};
use mote_session::PeerId;
use mote_session::filters::Filters;
use mote_slow::{Latency, Settings};
use mote_sys::fd::Fd;
use mote_wire::Message;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::time::Duration;

/// Areas of processes that live, at most: a session does not take all memory for them.
const AREAS_MAX: u32 = 512;
/// Threads that there can be (the kernel's `PID_MAX_LIMIT`).
const THREADS_MAX: u64 = 1 << 22;

/// The options of a recording whose rules set thresholds: what reaches them is recorded, and nothing else for being slow.
pub(crate) fn with_slow_calls(mut options: Options, filters: &Filters) -> Options {
    if let Some(kernel) = options.kernel.as_mut().filter(|_| filters.asks_kernel()) {
        kernel.latency.get_or_insert_with(never);
    }
    options
}

/// Nothing is slow but what processes call so.
fn never() -> LatencyOptions {
    LatencyOptions {
        thresholds: Vec::new(),
        others: u64::MAX,
        adaptive: None,
        interval: Duration::from_secs(1),
        snapshots: 0,
    }
}

/// The cooperation of a session.
pub(crate) struct Cooperation {
    pub(crate) session_area: SessionArea,
    /// By their numbers, which the kernel's programs know them by.
    areas: BTreeMap<u32, ProcessArea>,
    /// What publishes and looks at thresholds.
    pub(crate) latency: Option<Latency>,
    /// The kernel has programs of ours.
    in_kernel: bool,
    /// Threads without a slot so far, of processes that have gone.
    without_slot: u64,
    /// Processes without an area.
    without_area: u64,
    /// The kernel has refused to publish what a process asked for.
    refused: bool,
}

struct ProcessArea {
    memory: Memory,
    pid: i32,
    /// Connections of its process.
    users: u32,
}

impl Cooperation {
    /// None yet.
    pub(crate) fn new(session_area: SessionArea, in_kernel: bool) -> Cooperation {
        let (areas, latency) = (BTreeMap::new(), None);
        Cooperation {
            session_area,
            areas,
            latency,
            in_kernel,
            without_slot: 0,
            without_area: 0,
            refused: false,
        }
    }

    /// Attaches what publishes the state of threads and looks at thresholds; nothing is recorded by that.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    fn publish(&mut self, kernel: &Kernel) -> Result<(), String> {
        self.watch(&kernel.tracer, &Settings { thresholds: Vec::new(), others: u64::MAX })?;
        self.register_all(kernel);
        Ok(())
    }

    /// Tells programs of rules that are new of all areas.
    pub(crate) fn register_all(&self, kernel: &Kernel) {
        self.areas.keys().for_each(|number| self.register(*number, kernel));
    }

    /// Tells the kernel's programs of an area, and its process of them.
    fn register(&self, number: u32, kernel: &Kernel) {
        let Some(ProcessArea { memory: Memory::Map(map), pid, .. }) = self.areas.get(&number) else { return };
        let windows = kernel.wanting.rules.set_area(number, map.map()).is_ok();
        let published =
            self.latency.as_ref().is_some_and(|latency| latency.set_area(number, map.map()).is_ok());
        // A process that ends meanwhile has no threads: nobody looks.
        let _ = kernel.tracer.set_process_index(pid.unsigned_abs(), number);
        let flags = if published { PUBLISHED | THRESHOLDS } else { 0 } | if windows { WINDOWS } else { 0 };
        map.store32(offset_of!(Header, flags), flags);
    }

    /// Attaches what looks for slow system calls, and publishes the state of threads.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    pub(crate) fn watch(&mut self, tracer: &Tracer, settings: &Settings) -> Result<(), String> {
        let btf = Btf::of_kernel().map_err(|why| why.to_string())?;
        let latency = Latency::attach(tracer.state(), &btf, settings).map_err(|why| why.to_string())?;
        self.latency = Some(latency);
        Ok(())
    }

    /// Makes an area for a process. `None` when there are too many, or no memory.
    fn make(&mut self, pid: i32, kernel: Option<&Kernel>) -> Option<u32> {
        let number = (1..=AREAS_MAX).find(|number| !self.areas.contains_key(number))?;
        let memory = Memory::make(c"mote-area", area_bytes(SLOTS), self.in_kernel).ok()?;
        memory.put32(offset_of!(Header, version), VERSION);
        memory.put32(offset_of!(Header, slots), SLOTS);
        memory.put32(offset_of!(Header, process), pid as u32);
        let flags = if self.in_kernel { WINDOWS } else { 0 };
        memory.put32(offset_of!(Header, flags), flags);
        // Last: what has this is whole.
        memory.put64(offset_of!(Header, magic), MAGIC);
        self.areas.insert(number, ProcessArea { memory, pid, users: 0 });
        kernel.into_iter().for_each(|kernel| self.register(number, kernel));
        Some(number)
    }

    /// A connection of a process with this area is closed.
    pub(crate) fn leave(&mut self, number: u32) {
        let Some(area) = self.areas.get_mut(&number) else { return };
        area.users = area.users.saturating_sub(1);
        if area.users > 0 {
            return;
        }
        // The process counts, and may have written anything there.
        let count = area.memory.get64(offset_of!(Header, without_slot));
        self.without_slot += if count <= THREADS_MAX { count } else { 0 };
        if let Some(latency) = &self.latency {
            latency.forget_area(number);
        }
        self.areas.remove(&number);
    }

    /// Whether a process has asked for what the kernel's programs publish, or has set a threshold.
    fn is_asked(&self) -> bool {
        self.areas.values().any(|area| area.memory.get64(offset_of!(Header, asked)) as u32 != 0)
    }

    /// What a person should know at the end.
    fn remarks(&mut self) -> Vec<String> {
        let numbers: Vec<u32> = self.areas.keys().copied().collect();
        for number in numbers {
            if let Some(area) = self.areas.get_mut(&number) {
                // The kernel's programs have gone; the process goes on.
                area.memory.put32(offset_of!(Header, flags), 0);
                area.users = 1;
            }
            self.leave(number);
        }
        let mut remarks = Vec::new();
        if self.without_slot > 0 {
            remarks.push(format!(
                "{} threads found no place in the memory shared with the kernel ({SLOTS} a process): their thresholds were their process's, \
                 and `$kernel` and `$thread` were 0 in them",
                self.without_slot
            ));
        }
        if self.without_area > 0 {
            remarks.push(format!(
                "{} processes got no memory shared with the kernel: their thresholds were the session's, and `$kernel` was 0 in them",
                self.without_area
            ));
        }
        remarks
    }
}

impl Recorder<'_> {
    /// Attaches what publishes the state of threads, if rules ask for it and it is not there yet.
    pub(crate) fn begin_cooperation(&mut self) {
        let asks = self.session.filters().asks_kernel() && self.cooperation.latency.is_none();
        let wanted = self.kernel.as_ref().filter(|_| asks);
        if let Some(why) = wanted.and_then(|kernel| self.cooperation.publish(kernel).err()) {
            self.problem(format!(
                "the kernel does not publish the state of threads, which rules ask for: {why}"
            ));
        }
    }

    /// Attaches it when a process asks, by a call of `mote::thread_state` or a threshold: until one does, it costs nobody anything.
    pub(crate) fn publish_if_asked(&mut self) {
        if self.cooperation.latency.is_some() || self.cooperation.refused || !self.cooperation.is_asked() {
            return;
        }
        if self.kernel.as_ref().is_some_and(|kernel| kernel.latency.is_none()) {
            self.watch_slow(never());
        }
        let Some(kernel) = self.kernel.as_ref() else { return };
        if let Err(why) = self.cooperation.publish(kernel) {
            self.cooperation.refused = true;
            self.problem(format!(
                "the kernel does not publish the state of threads, which a process asks for: {why}"
            ));
        }
    }

    /// Gives a process that has said hello its area, and the words that all share, if there is anything to share.
    pub(crate) fn cooperate(&mut self, peer: PeerId) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        if connection.cooperates || !self.cooperation.in_kernel && !self.cooperation.session_area.is_made() {
            return;
        }
        connection.cooperates = true;
        let is_process = connection.is_process;
        let area = if self.cooperation.in_kernel && is_process { self.area_of(peer) } else { None };
        let shared = self.cooperation.session_area.fd();
        let memory = area.and_then(|number| self.cooperation.areas.get(&number)).map(|area| area.memory.fd());
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
        let area = known.or_else(|| self.cooperation.make(pid, self.kernel.as_ref()));
        match area.and_then(|number| self.cooperation.areas.get_mut(&number)) {
            Some(area) => area.users += 1,
            None => self.cooperation.without_area += 1,
        }
        self.connections.get_mut(&peer)?.area = area;
        area
    }

    /// Gives a process words of the shared memory by their name.
    pub(crate) fn share(&mut self, peer: PeerId, name: &str, words: u32, each_thread: bool) {
        let place = self.cooperation.session_area.names().place(name, each_thread, words);
        let shared = self.cooperation.session_area.fd().map(Fd::raw).ok();
        let area = place.filter(|_| each_thread).and_then(|_| self.area_for_words(peer));
        let area =
            area.and_then(|number| self.cooperation.areas.get(&number)).map(|area| area.memory.fd().raw());
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
