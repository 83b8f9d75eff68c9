//! The thread that empties the rings.
//!
//! It polls: probes never wake anyone. The pause between two looks adapts to the load, from none while a ring
//! has whole sub-buffers waiting to [`PAUSE_MAX`] when nothing happens.
//!
//! ```text
//! trace ─> channel ─> ring ─> stacks ─> data stream ─> sink (crate::output)
//!   └──> speculated ─────────────────────────────────^
//! ```

pub(crate) mod asked;
mod channel;
mod data_streams;
pub(crate) mod losses;
mod ring;
pub(crate) mod seen;
pub(crate) mod snapshot;
mod speculated;
pub(crate) mod stacks;
pub(crate) mod state;
pub(crate) mod totals;
pub(crate) mod trace;
pub mod walk;

use crate::area::group::GroupArea;
use crate::area::session::SessionArea;
use crate::consumer::asked::Asked;
use crate::consumer::snapshot::{Beside, Snapshot};
use crate::consumer::speculated::Speculated;
use crate::consumer::trace::{Consumed, Destination, TraceConsumer};
use mote_ring::reader::Channel;
use mote_ring::threads::ThreadName;
use mote_wire::filter_counters;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Longest pause: in this time a thread at full speed writes about 20 MiB.
const PAUSE_MAX: Duration = Duration::from_millis(8);
/// The same while there are no rings: whoever brings some wakes the consumer.
const PAUSE_WITHOUT_RINGS: Duration = Duration::from_millis(64);
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// What is in rings goes to disk at least this often, so that little is lost should the recorder be killed.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Snapshots that a recording takes: a process that asks for ever must not fill the disk.
const SNAPSHOTS_MAX: u32 = 100;

/// Names of threads that a recording takes.
const NAMES_MAX: usize = 1 << 17;

/// How often it is looked whether threads with open speculations are still there.
const REAP_EVERY: Duration = Duration::from_secs(1);
/// How long a speculation is open before its thread may be taken for dead: its process may not have said hello yet.
const REAP_AFTER_NS: u64 = 2_000_000_000;

/// What both threads of the recorder look at.
#[derive(Default)]
pub(crate) struct Shared {
    /// Set when everything is to be written out.
    stop: AtomicBool,
    /// Snapshots that persons have asked for.
    pub(crate) snapshots: Asked,
    /// Figures that persons have asked for, with what is in the rings.
    pub(crate) figures: Asked,
    /// Set when a rule speculates.
    pub(crate) speculates: AtomicBool,
    /// Why no more can be written; the recording stops.
    failure: OnceLock<String>,
    /// The processes that are there, by the ids that they know themselves by: whether the kernel shows us the same.
    processes: Mutex<HashMap<u32, bool>>,
    /// What has become of processes' channels since the consumer looked.
    changes: Mutex<Vec<Change>>,
    /// The consumer, once it works.
    consumer: OnceLock<Thread>,
}

/// What becomes of a channel of processes, by its number.
pub(crate) enum Change {
    /// It is to be read.
    Come(u64, Arc<Channel>),
    /// Its processes share this, too.
    GroupArea(u64, Arc<GroupArea>),
    /// None of its processes is left, as far as is known.
    Left(u64),
    /// Its memory is wanted.
    Evict(u64),
}

impl Shared {
    /// A process has come; `visible` when its id is the same here.
    pub(crate) fn came(&self, pid: u32, visible: bool) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, visible);
    }

    /// A process has gone.
    pub(crate) fn left(&self, pid: u32) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    /// Something becomes of a channel. The consumer looks at once: a process that has just come may have much to say,
    /// and small rings.
    pub(crate) fn change(&self, change: Change) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        self.consumer.get().into_iter().for_each(Thread::unpark);
    }

    fn is_alive(&self, pid: u32, tid: u32) -> bool {
        match self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(&pid) {
            None => false,
            Some(false) => true,
            Some(true) => Path::new(&format!("/proc/{pid}/task/{tid}")).exists(),
        }
    }

    /// No more can be written. The first reason counts.
    pub(crate) fn fail(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Why no more can be written.
    pub(crate) fn failure(&self) -> Option<&String> {
        self.failure.get()
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.consumer.get().into_iter().for_each(Thread::unpark);
    }
}

/// What the consumer has to tell while it works.
pub(crate) enum Notice {
    /// A thread has introduced itself.
    Thread(ThreadName),
    /// Kernel events are of these threads.
    Threads(Vec<u32>),
    /// Something is wrong.
    Problem(String),
    /// Processes have damaged their rings.
    Damage(String),
    /// These channels of processes are not read any more.
    Ended(Vec<u64>),
    /// Something is in these channels of processes that cannot be.
    Damaged(Vec<u64>),
    /// What the flight recorder held is in a directory beside the recording's, trace by trace.
    Snapshot(Snapshot, Vec<Consumed>),
    /// There is no snapshot for the requests up to this number, because.
    NoSnapshot(u64, String),
    /// What was in the rings when this number was asked for is in the figures.
    Figures(u64),
}

/// The consumer at work. It is told to stop when this is dropped.
pub(crate) struct ConsumerThread {
    pub(crate) shared: Arc<Shared>,
    hear: Receiver<Notice>,
    work: Option<JoinHandle<Vec<Consumed>>>,
}

impl ConsumerThread {
    /// Starts the consumer.
    ///
    /// # Errors
    /// As pthread_create(3).
    pub(crate) fn start(task: Task) -> io::Result<ConsumerThread> {
        let shared = task.shared.clone();
        let (tell, hear) = channel();
        let builder = std::thread::Builder::new().name("mote-consumer".to_owned());
        let work = builder.spawn(move || consume(task, &|notice| drop(tell.send(notice))))?;
        Ok(ConsumerThread { shared, hear, work: Some(work) })
    }

    /// The next thing that it has noticed.
    pub(crate) fn notice(&self) -> Option<Notice> {
        self.hear.try_recv().ok()
    }

    /// Has it read everything to the end.
    pub(crate) fn stop(&self) {
        self.shared.stop();
    }

    /// Whether it has read everything to the end.
    pub(crate) fn is_finished(&self) -> bool {
        self.work.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Has it read everything to the end, and waits for that. Returns what each trace has come to; `None` when it has
    /// failed.
    pub(crate) fn finish(&mut self) -> Option<Vec<Consumed>> {
        self.shared.stop();
        self.work.take()?.join().ok()
    }
}

impl Drop for ConsumerThread {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What the consumer works on.
pub(crate) struct Task {
    /// Where snapshots go.
    pub(crate) beside: Beside,
    /// The trace of the processes.
    pub(crate) processes: Destination,
    /// The trace of the kernel, and its rings.
    pub(crate) kernel: Option<(Destination, Arc<Channel>)>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) session_area: SessionArea,
}

/// Empties the channels of processes, and that of the kernel, until told to stop, then to the end. Returns what each
/// trace has come to.
fn consume(task: Task, tell: &dyn Fn(Notice)) -> Vec<Consumed> {
    let Task { beside, processes, kernel, shared, session_area } = task;
    let mut traces = vec![TraceConsumer::new(processes)];
    if let Some((destination, channel)) = kernel {
        let mut trace = TraceConsumer::new(destination);
        trace.add(0, channel);
        traces.push(trace);
    }
    // It is set once.
    let _ = shared.consumer.set(std::thread::current());
    let mut consumer = Consumer {
        beside,
        shared: shared.clone(),
        traces,
        speculated: Speculated::default(),
        areas: AreasRead::default(),
        reaped: Instant::now(),
        names: NAMES_MAX,
        session_area,
        snapshots: 0,
        taken: 0,
        figures: 0,
    };
    let mut pause = PAUSE_MIN;
    let mut flushed = Instant::now();
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        if consumer.change(tell) {
            pause = PAUSE_MIN;
        }
        consumer.threads(tell);
        let figures = shared.figures.count();
        let flush = stop || figures != consumer.figures || flushed.elapsed() >= FLUSH_EVERY;
        let taken = consumer.speculations() | consumer.pass(flush, stop);
        if flush {
            flushed = Instant::now();
            consumer.traces.iter_mut().for_each(TraceConsumer::look);
        }
        consumer.publish(tell);
        if std::mem::replace(&mut consumer.figures, figures) != figures {
            tell(Notice::Figures(figures));
        }
        consumer.snapshot(tell);
        if stop {
            break;
        }
        if !taken && !consumer.count_some() {
            let is_idle = consumer.traces.iter().all(TraceConsumer::is_without_rings);
            pause = (pause * 2).min(if is_idle { PAUSE_WITHOUT_RINGS } else { PAUSE_MAX });
        } else {
            pause = PAUSE_MIN;
        }
        if !taken || !consumer.traces.iter().any(TraceConsumer::is_behind) {
            std::thread::park_timeout(pause);
        }
    }
    consumer.finish(tell)
}

struct Consumer {
    /// Where snapshots go.
    beside: Beside,
    shared: Arc<Shared>,
    /// The traces: that of the processes, and that of the kernel.
    traces: Vec<TraceConsumer>,
    /// Records that threads have committed, of those that they kept.
    speculated: Speculated,
    /// What groups of processes share beside their rings.
    areas: AreasRead,
    reaped: Instant,
    /// Names of threads that are still taken.
    names: usize,
    session_area: SessionArea,
    /// Requests for snapshots that were seen.
    snapshots: u64,
    /// Snapshots that were taken, or could not be.
    taken: u32,
    /// Requests for figures that were answered.
    figures: u64,
}

/// The areas of all groups, as far as the consumer reads them.
#[derive(Default)]
struct AreasRead {
    /// With the number of its group.
    all: Vec<(u64, Arc<GroupArea>)>,
    /// Snapshots that filters have asked for in those that are no more.
    past: u64,
}

impl AreasRead {
    /// Lets the areas of these groups go.
    fn end(&mut self, groups: &[u64]) {
        let (gone, stay) =
            std::mem::take(&mut self.all).into_iter().partition(|(group, _)| groups.contains(group));
        self.past = AreasRead { all: gone, past: self.past }.snapshots();
        self.all = stay;
    }

    /// The areas of these groups.
    fn of<'a>(&'a self, groups: &'a [u64]) -> impl Iterator<Item = &'a GroupArea> {
        self.all.iter().filter(|(group, _)| groups.contains(group)).map(|(_, area)| &**area)
    }

    /// Each area.
    fn each(&self) -> impl Iterator<Item = &GroupArea> {
        self.all.iter().map(|(_, area)| &**area)
    }

    /// How many snapshots filters have asked for.
    fn snapshots(&self) -> u64 {
        self.each().fold(self.past, |sum, area| sum.wrapping_add(area.word(filter_counters::SNAPSHOTS)))
    }
}

impl Consumer {
    /// Does what is to become of the processes' channels. Returns true when one has come.
    fn change(&mut self, tell: &dyn Fn(Notice)) -> bool {
        let changes =
            std::mem::take(&mut *self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner));
        let Consumer { traces, names, speculated, areas, .. } = self;
        let Some(trace) = traces.first_mut() else { return false };
        let has_come = changes.iter().any(|change| matches!(change, Change::Come(..)));
        let mut name = |name| tell_name(names, name, tell);
        let mut ended = Vec::new();
        for change in changes {
            match change {
                Change::Come(number, channel) => trace.add(number, channel),
                Change::GroupArea(number, area) => {
                    speculated.make_room(&area);
                    areas.all.push((number, area));
                }
                Change::Left(number) => trace.leave(number),
                Change::Evict(number) => ended.extend(trace.evict(number, &mut name)),
            }
        }
        ended.extend(trace.end_quiet(&mut name));
        if !ended.is_empty() {
            self.speculations();
            if let Some(trace) = self.traces.first_mut() {
                Speculated::reap(self.areas.of(&ended), &mut trace.totals, |_, _, _| false);
            }
            self.areas.end(&ended);
            tell(Notice::Ended(ended));
        }
        has_come
    }

    /// Takes the names that threads have left.
    fn threads(&mut self, tell: &dyn Fn(Notice)) {
        let Consumer { traces, names, .. } = self;
        if let Some(trace) = traces.first_mut() {
            trace.names(&mut |name| tell_name(names, name, tell));
        }
    }

    /// Takes what threads have committed.
    fn speculations(&mut self) -> bool {
        let Some(trace) = self.traces.first_mut() else { return false };
        if !self.shared.speculates.load(Ordering::Acquire) {
            return false;
        }
        if self.reaped.elapsed() >= REAP_EVERY {
            self.reaped = Instant::now();
            let now = mote_sys::time::clock_gettime(mote_sys::time::ClockId::Monotonic);
            Speculated::reap(self.areas.each(), &mut trace.totals, |pid, tid, began| {
                now.saturating_sub(began) < REAP_AFTER_NS || self.shared.is_alive(pid, tid)
            });
        }
        let TraceConsumer { destination, totals, stacks, .. } = trace;
        let stacks = stacks.as_mut();
        let (context, events) = (&destination.context, &destination.state.steps());
        let output = speculated::Output { context, events, totals, stacks };
        self.speculated.drain(self.areas.each(), output)
    }

    /// Takes what is in each ring once. A flight recorder is read at the end only.
    fn pass(&mut self, flush: bool, stop: bool) -> bool {
        let traces = self.traces.iter_mut().filter(|trace| stop || !trace.overwrites());
        traces.fold(false, |taken, trace| trace.pass(flush) | taken)
    }

    /// Counts one packet that was written in a hurry.
    fn count_some(&mut self) -> bool {
        self.traces.iter_mut().any(TraceConsumer::count_some)
    }

    /// Writes down what the rings of a flight recorder hold, if a person, a filter or a rule has asked for it. Requests
    /// that come while that is being done are answered by one more.
    fn snapshot(&mut self, tell: &dyn Fn(Notice)) {
        if !self.traces.first().is_some_and(TraceConsumer::overwrites) {
            return;
        }
        let persons = self.shared.snapshots.count();
        let others = self.areas.snapshots().wrapping_add(self.session_area.snapshots());
        let asked = others.wrapping_add(persons);
        if asked == self.snapshots {
            return;
        }
        self.snapshots = asked;
        self.taken += 1;
        if self.taken > SNAPSHOTS_MAX {
            let text = format!(
                "{SNAPSHOTS_MAX} snapshots have been taken, the most that a recording can have; start \
                         another recording for more"
            );
            tell(Notice::NoSnapshot(persons, text));
            return;
        }
        match self.take_snapshot(persons) {
            Ok((snapshot, parts)) => tell(Notice::Snapshot(snapshot, parts)),
            Err(why) => {
                let path = self.beside.path(self.taken);
                let text = format!("cannot write snapshot {}: {why}", path.display());
                tell(Notice::Problem(text.clone()));
                tell(Notice::NoSnapshot(persons, text));
            }
        }
        if self.taken == SNAPSHOTS_MAX {
            tell(Notice::Problem(format!(
                "{SNAPSHOTS_MAX} snapshots have been taken, the most that a recording can \
                                          have; no more will be taken"
            )));
        }
    }

    /// Writes down what the rings hold.
    fn take_snapshot(&mut self, persons: u64) -> io::Result<(Snapshot, Vec<Consumed>)> {
        let snapshot = self.beside.make(self.taken, persons)?;
        let parts: io::Result<Vec<Consumed>> =
            self.traces.iter_mut().map(|trace| trace.snapshot(&snapshot.folder)).collect();
        Ok((snapshot, parts?))
    }

    fn publish(&mut self, tell: &dyn Fn(Notice)) {
        self.traces.iter().for_each(TraceConsumer::publish);
        let damaged = self.traces.first_mut().map(TraceConsumer::damaged).unwrap_or_default();
        if !damaged.is_empty() {
            tell(Notice::Damaged(damaged));
        }
        if let Some(why) = self.traces.iter().find_map(TraceConsumer::failure).or(self.speculated.failure()) {
            self.shared.fail(why);
        }
        let seen = self.traces.iter_mut().map(TraceConsumer::threads);
        seen.filter(|ids| !ids.is_empty()).for_each(|ids| tell(Notice::Threads(ids)));
        for TraceConsumer { totals, .. } in &mut self.traces {
            totals.problems.drain(..).for_each(|problem| tell(Notice::Problem(problem)));
            totals.damaged.drain(..).for_each(|damage| tell(Notice::Damage(damage)));
        }
    }

    fn finish(mut self, tell: &dyn Fn(Notice)) -> Vec<Consumed> {
        self.change(tell);
        self.traces.iter_mut().for_each(TraceConsumer::close);
        self.speculations();
        if let Some(trace) = self.traces.first_mut() {
            // What is committed and not whole by now will not be.
            Speculated::reap(self.areas.each(), &mut trace.totals, |_, _, _| false);
            self.speculated.close(&mut trace.totals);
        }
        self.threads(tell);
        self.publish(tell);
        self.traces.into_iter().map(TraceConsumer::end).collect()
    }
}

/// Tells a thread's name, if not too many were told already.
fn tell_name(left: &mut usize, name: ThreadName, tell: &dyn Fn(Notice)) {
    match *left {
        0 => return,
        1 => tell(Notice::Problem(format!(
            "more than {NAMES_MAX} threads were recorded; the names of the others are \
                                           missing"
        ))),
        _ => tell(Notice::Thread(name)),
    }
    *left -= 1;
}
