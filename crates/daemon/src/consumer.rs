//! The thread that empties the rings.
//!
//! It polls: probes never wake anyone. The pause between two looks adapts to the load, from none while a ring
//! has whole sub-buffers waiting to [`PAUSE_MAX`] when nothing happens.

use crate::stream::{Context, Stream, Take, Totals};
use crate::walk::Steps;
use mote_layout::loss::Lost;
use mote_ring::reader::Channel;
use mote_ring::threads::{ENTRIES, ThreadName};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// Longest pause: in this time a thread at full speed writes about 20 MiB.
const PAUSE_MAX: Duration = Duration::from_millis(8);
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// What is in rings goes to disk at least this often, so that little is lost should the recorder be killed.
const FLUSH_EVERY: Duration = Duration::from_millis(200);

/// Names of threads that a recording takes.
const NAMES_MAX: usize = 1 << 17;
/// How long a thread may take to leave its name.
const NAME_PATIENCE: Duration = Duration::from_secs(1);

/// What both threads of the recorder look at.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// How to walk the records of each event; grows.
    steps: RwLock<Arc<Vec<Steps>>>,
    /// Set when everything is to be written out.
    stop: AtomicBool,
    /// Set by the consumer when it can write no more.
    pub(crate) failed: AtomicBool,
    pub(crate) bytes: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) lost: AtomicU64,
}

impl Shared {
    pub(crate) fn add_event(&self, steps: Steps) {
        let mut all = self.steps.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::make_mut(&mut all).push(steps);
    }

    fn steps(&self) -> Arc<Vec<Steps>> {
        self.steps.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
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
pub(crate) fn consume(
    channel: &Channel,
    shared: &Shared,
    directory: &Path,
    uuid: [u8; 16],
    clock: mote_clock::Source,
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
        totals: Totals::default(),
        names: NAMES_MAX,
        named: Instant::now(),
    };
    let mut pause = PAUSE_MIN;
    let mut flushed = Instant::now();
    loop {
        let stop = shared.stop.load(Ordering::Acquire);
        consumer.threads(tell);
        let flush = stop || flushed.elapsed() >= FLUSH_EVERY;
        // A flight recorder is read once, at the end.
        let taken = (stop || !consumer.overwrites) && consumer.pass(flush);
        if flush {
            flushed = Instant::now();
        }
        consumer.publish(tell);
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
    totals: Totals,
    /// Names of threads that are still taken.
    names: usize,
    /// When the table of names last gave one.
    named: Instant,
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
        if self.streams.iter().any(|stream| stream.failed().is_some()) {
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
        self.threads(tell);
        self.publish(tell);
        let lost = self.lost();
        Consumed { totals: self.totals, lost, nameless: self.channel.threads().nameless() }
    }
}
