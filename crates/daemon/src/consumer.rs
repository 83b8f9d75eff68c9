//! The thread that empties the rings.
//!
//! It polls: probes never wake anyone. The pause between two looks adapts to the load, from none while a ring
//! has whole sub-buffers waiting to [`PAUSE_MAX`] when nothing happens.

use crate::area::Area;
use crate::snapshot;
use crate::speculated::Speculated;
use crate::stream::{Context, Stream, Take, Totals};
use crate::walk::Steps;
use mote_layout::loss::Lost;
use mote_ring::reader::Channel;
use mote_ring::speculation::Reader;
use mote_ring::threads::{ENTRIES, ThreadName};
use mote_wire::board;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Longest pause: in this time a thread at full speed writes about 20 MiB.
const PAUSE_MAX: Duration = Duration::from_millis(8);
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// What is in rings goes to disk at least this often, so that little is lost should the recorder be killed.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Snapshots that a recording takes: a process that asks for ever must not fill the disk.
const SNAPSHOTS_MAX: u32 = 100;

/// Names of threads that a recording takes.
const NAMES_MAX: usize = 1 << 17;
/// How long a thread may take to leave its name.
const NAME_PATIENCE: Duration = Duration::from_secs(1);

/// How often it is looked whether those who keep records aside are still there.
const REAP_EVERY: Duration = Duration::from_secs(1);
/// How long a speculation is open before its thread may be taken for dead: its process may not have said hello yet.
const REAP_AFTER_NS: u64 = 2_000_000_000;

/// What both threads of the recorder look at.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// How to walk the records of each event; grows.
    steps: RwLock<Arc<Vec<Steps>>>,
    /// Set when everything is to be written out.
    stop: AtomicBool,
    /// How many snapshots a person has asked for.
    pub(crate) snapshots: AtomicU64,
    /// Set when a rule keeps records aside.
    pub(crate) speculates: AtomicBool,
    /// Set by the consumer when it can write no more.
    pub(crate) failed: AtomicBool,
    pub(crate) bytes: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// The processes that are there, by the ids that they know themselves by: whether the kernel shows us the same.
    processes: Mutex<HashMap<u32, bool>>,
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

    fn is_alive(&self, pid: u32, tid: u32) -> bool {
        match self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(&pid) {
            None => false,
            Some(false) => true,
            Some(true) => Path::new(&format!("/proc/{pid}/task/{tid}")).exists(),
        }
    }

    pub(crate) fn add_event(&self, steps: Steps) {
        let mut all = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut all).push(steps);
    }

    fn steps(&self) -> Arc<Vec<Steps>> {
        self.steps.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// What the consumer has to tell while it works.
pub(crate) enum Notice {
    /// A thread has introduced itself.
    Thread(ThreadName),
    /// Something is wrong.
    Problem(String),
    /// What the flight recorder held is in a directory beside the recording's.
    Snapshot(PathBuf, Box<Consumed>),
}

/// What the consumer leaves.
#[derive(Clone, Debug)]
pub struct Consumed {
    /// What is in the trace.
    pub totals: Totals,
    /// Lost events by cause.
    pub lost: Lost,
    /// Threads that could not introduce themselves.
    pub nameless: u32,
}

/// Empties the rings of `channel` until told to stop, then to the end.
pub(crate) fn consume<'c>(
    channel: &'c Channel,
    shared: &'c Shared,
    directory: &'c Path,
    uuid: [u8; 16],
    clock: mote_clock::Source,
    area: &'c Area,
    tell: &dyn Fn(Notice),
) -> Consumed {
    let geometry = channel.geometry();
    let context = Context { directory, uuid, clock };
    let rings = 0..geometry.rings();
    let streams = rings.filter_map(|ring| Some(Stream::new(channel.reader(ring)?, ring, geometry.cpus)));
    let mut consumer = Consumer {
        channel,
        shared,
        context,
        overwrites: geometry.mode == mote_ring::Mode::Overwrite,
        streams: streams.collect(),
        speculated: area.pool().map(|pool| Speculated::new(Reader::new(pool), geometry.rings())),
        reaped: Instant::now(),
        totals: Totals::default(),
        names: NAMES_MAX,
        named: Instant::now(),
        area,
        snapshots: 0,
        taken: 0,
    };
    let mut pause = PAUSE_MIN;
    let mut flushed = Instant::now();
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        consumer.threads(tell);
        let flush = stop || flushed.elapsed() >= FLUSH_EVERY;
        // A flight recorder is read once, at the end.
        let taken = consumer.speculations() | ((stop || !consumer.overwrites) && consumer.pass(flush));
        if flush {
            flushed = Instant::now();
        }
        consumer.publish(tell);
        consumer.snapshot(tell);
        if stop {
            break;
        }
        if !taken && !consumer.count_some() {
            pause = (pause * 2).min(PAUSE_MAX);
        } else {
            pause = PAUSE_MIN;
        }
        if !taken || consumer.backlog() < geometry.sub_bytes() {
            std::thread::sleep(pause);
        }
    }
    consumer.finish(tell)
}

struct Consumer<'c> {
    channel: &'c Channel,
    shared: &'c Shared,
    context: Context<'c>,
    /// A flight recorder.
    overwrites: bool,
    streams: Vec<Stream<'c>>,
    /// What threads keep aside.
    speculated: Option<Speculated<'c>>,
    reaped: Instant,
    totals: Totals,
    /// Names of threads that are still taken.
    names: usize,
    /// When the table of names last gave one.
    named: Instant,
    area: &'c Area,
    /// Requests for snapshots that were seen.
    snapshots: u64,
    /// Snapshots that were taken, or could not be.
    taken: u32,
}

impl Consumer<'_> {
    /// Takes the names that threads have left; at most a table's worth, so that nobody keeps us from the rings.
    fn threads(&mut self, tell: &dyn Fn(Notice)) {
        for _ in 0..ENTRIES {
            let Some(name) = self.channel.threads().pop() else { break };
            self.named = Instant::now();
            match self.names {
                0 => continue,
                1 => tell(Notice::Problem(format!("more than {NAMES_MAX} threads: the others have no name"))),
                _ => tell(Notice::Thread(name)),
            }
            self.names -= 1;
        }
        // A thread that was killed while it left its name must not stop those behind it.
        if self.named.elapsed() > NAME_PATIENCE {
            self.named = Instant::now();
            self.channel.threads().skip();
        }
    }

    /// Takes what threads have committed.
    fn speculations(&mut self) -> bool {
        let Some(speculated) = &mut self.speculated else { return false };
        if !self.shared.speculates.load(Ordering::Acquire) {
            return false;
        }
        if self.reaped.elapsed() >= REAP_EVERY {
            self.reaped = Instant::now();
            let now = mote_sys::time::clock_gettime(mote_sys::time::ClockId::Monotonic);
            speculated.reader().reap(|pid, tid, began| {
                now.saturating_sub(began) < REAP_AFTER_NS || self.shared.is_alive(pid, tid)
            });
        }
        speculated.drain(&self.context, &self.shared.steps(), &mut self.totals)
    }

    /// Takes what is in each ring once.
    fn pass(&mut self, flush: bool) -> bool {
        let ring_bytes = self.channel.geometry().ring_bytes();
        let mut taken = false;
        for stream in &mut self.streams {
            let backlog = stream.backlog();
            if backlog > 0 {
                // Loaded after the backlog was seen: an event is known before its first record.
                let steps = self.shared.steps();
                // Straight from the ring only where writers never come around to what is being written.
                let pressure = !self.overwrites && backlog > ring_bytes / 8;
                let take = Take { flush, pressure };
                taken |= stream.drain(&self.context, &steps, take, &mut self.totals);
            }
        }
        taken
    }

    /// Counts one packet of each stream that was written in a hurry.
    fn count_some(&mut self) -> bool {
        let steps = self.shared.steps();
        self.streams.iter_mut().any(|stream| stream.count_one(&steps, &mut self.totals))
    }

    /// Writes down what the rings of a flight recorder hold, if somebody has asked for it. Requests that come while that is being
    /// done are answered by one more.
    fn snapshot(&mut self, tell: &dyn Fn(Notice)) {
        if !self.overwrites {
            return;
        }
        let asked =
            self.area.word(board::SNAPSHOTS).wrapping_add(self.shared.snapshots.load(Ordering::Acquire));
        if asked == self.snapshots {
            return;
        }
        self.snapshots = asked;
        self.taken += 1;
        if self.taken > SNAPSHOTS_MAX {
            return;
        }
        let directory = snapshot::path(self.context.directory, self.taken);
        match snapshot::write(self.channel, &self.context, &directory, &self.shared.steps()) {
            Ok(consumed) => tell(Notice::Snapshot(directory, Box::new(consumed))),
            Err(why) => {
                tell(Notice::Problem(format!("cannot write snapshot {}: {why}", directory.display())));
            }
        }
        if self.taken == SNAPSHOTS_MAX {
            tell(Notice::Problem(format!("{SNAPSHOTS_MAX} snapshots are taken; there will be no more")));
        }
    }

    fn backlog(&self) -> u64 {
        self.streams.iter().map(Stream::backlog).max().unwrap_or(0)
    }

    fn lost(&self) -> Lost {
        let mut sum = Lost::default();
        for stream in &self.streams {
            for (sum, lost) in sum.iter_mut().zip(stream.lost()) {
                // A traced process can write anything into its counters.
                *sum = sum.wrapping_add(lost);
            }
        }
        sum
    }

    fn publish(&mut self, tell: &dyn Fn(Notice)) {
        self.shared.bytes.store(self.totals.bytes, Ordering::Relaxed);
        self.shared.events.store(self.totals.counts.iter().sum(), Ordering::Relaxed);
        let lost = self.lost().iter().fold(0, |sum: u64, lost| sum.saturating_add(*lost));
        self.shared.lost.store(lost, Ordering::Relaxed);
        let speculated = self.speculated.as_ref().is_some_and(Speculated::has_failed);
        if speculated || self.streams.iter().any(|stream| stream.failed().is_some()) {
            self.shared.failed.store(true, Ordering::Release);
        }
        for problem in self.totals.problems.drain(..) {
            tell(Notice::Problem(problem));
        }
    }

    fn finish(mut self, tell: &dyn Fn(Notice)) -> Consumed {
        let steps = self.shared.steps();
        for stream in &mut self.streams {
            stream.close(&self.context, &steps, &mut self.totals);
        }
        while self.count_some() {}
        self.speculations();
        self.speculated.iter_mut().for_each(Speculated::close);
        self.threads(tell);
        self.publish(tell);
        let lost = self.lost();
        Consumed { totals: self.totals, lost, nameless: self.channel.threads().nameless() }
    }
}
