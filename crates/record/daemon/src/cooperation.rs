//! Areas that processes share with the kernel's programs, and words with names that all share: which process gets what.
//!
//! A process gets its area with its welcome, when the kernel's side is on: its threads set thresholds there, and find
//! there what the kernel publishes of them. Without the kernel's side it gets one when a thread's own words are asked
//! for. Nothing that a process writes there is believed to be more than a number.

use crate::area::Memory;
use crate::area::session::SessionArea;
use crate::kernel::Kernel;
use crate::options::{LatencyOptions, Options};
use mote_catalog::btf::Btf;
use mote_kernel::session::Kernel as Tracer;
use mote_layout::cooperation::{Header, MAGIC, PUBLISHED, SLOTS, THRESHOLDS, VERSION, WINDOWS, area_bytes};
use mote_session::filters::Filters;
use mote_slow::{Latency, Settings};
use mote_sys::fd::Fd;
use mote_words::counted;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::time::Duration;

/// Areas of processes that live, at most: a session does not take all memory for them.
const AREAS_MAX: u32 = 512;
/// Threads that there can be (the kernel's `PID_MAX_LIMIT`).
const THREADS_MAX: u64 = 1 << 22;

/// The options of a recording whose rules set thresholds: what reaches them is recorded, and nothing else for being
/// slow.
pub(crate) fn with_slow_calls(mut options: Options, filters: &Filters) -> Options {
    if let Some(kernel) = options.kernel.as_mut().filter(|_| filters.asks_kernel()) {
        kernel.latency.get_or_insert_with(never);
    }
    options
}

/// Nothing is slow but what processes call so.
pub(crate) fn never() -> LatencyOptions {
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
    is_refused: bool,
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
            is_refused: false,
        }
    }

    /// Attaches what publishes the state of threads and looks at thresholds; nothing is recorded by that.
    ///
    /// # Errors
    /// Why it cannot be, in words.
    pub(crate) fn publish(&mut self, kernel: &Kernel) -> Result<(), String> {
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
        // A process that ends meanwhile has no threads: no program looks.
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

    /// Takes a connection of a process in, which has the area `known`, or gets one. Returns its number; `None` when
    /// there are too many, or no memory.
    pub(crate) fn join(&mut self, known: Option<u32>, pid: i32, kernel: Option<&Kernel>) -> Option<u32> {
        let number = known.or_else(|| self.make(pid, kernel));
        match number.and_then(|number| self.areas.get_mut(&number)) {
            Some(area) => area.users += 1,
            None => self.without_area += 1,
        }
        number
    }

    /// The memory of a process's area.
    pub(crate) fn area(&self, number: u32) -> Option<&Fd> {
        self.areas.get(&number).map(|area| area.memory.fd())
    }

    /// The kernel's programs share areas with processes: each gets one when it comes.
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.in_kernel
    }

    /// Whether there is anything to share so far.
    pub(crate) fn is_used(&self) -> bool {
        self.in_kernel || self.session_area.is_made()
    }

    /// Whether a process asks for what the kernel does not publish yet, and has not refused to.
    pub(crate) fn is_wanted(&self) -> bool {
        self.latency.is_none() && !self.is_refused && self.is_asked()
    }

    /// The kernel has refused to publish: it is not asked again.
    pub(crate) fn note_refused(&mut self) {
        self.is_refused = true;
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
    pub(crate) fn remarks(&mut self) -> Vec<String> {
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
                "{} did not fit into the memory shared with the kernel (at most {SLOTS} per process): they have the \
                 thresholds of their process, and `$kernel` and `$thread` are 0 there",
                counted(self.without_slot, "thread", "threads")
            ));
        }
        if self.without_area > 0 {
            remarks.push(format!(
                "{} could not share memory with the kernel: the thresholds of the session apply there, and \
                 `$kernel` is 0",
                counted(self.without_area, "process", "processes")
            ));
        }
        remarks
    }
}
