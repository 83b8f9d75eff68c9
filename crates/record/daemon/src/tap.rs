//! One trace as the consumer sees it: channels, whose rings become the streams of one directory.

use crate::flow::{Figures, Flow};
use crate::folder::Folder;
use crate::gaps::Losses;
use crate::lanes::{Lanes, Place};
use crate::packets::Files;
use crate::seen::{self, Seen};
use crate::stream::{Context, Sink, Stream, Take, Totals};
use mote_layout::Cause;
use mote_ring::Mode;
use mote_ring::reader::Channel;
use mote_ring::threads::{ENTRIES, ThreadName};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread may take to leave its name, once it has begun; and in how many looks: when the whole machine stood still, the thread has had
/// no more time than we.
const NAME_PATIENCE: (Duration, u32) = (Duration::from_secs(1), 50);
/// How long rings whose processes have gone are read: a child of theirs that has not said hello may still write.
const REST: Duration = Duration::from_secs(2);

/// What the streams of a trace have come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consumed {
    /// What is in the trace.
    pub(crate) totals: Totals,
    /// Lost events.
    pub(crate) lost: Losses,
    /// Threads that could not introduce themselves.
    pub(crate) nameless: u32,
}

/// Where the channels of a trace are emptied to.
#[derive(Clone)]
pub(crate) struct Pipe {
    pub(crate) flow: Arc<Flow>,
    pub(crate) context: Context,
    /// The directory with its journal, in that of the recording; empty for the recording's own.
    pub(crate) home: &'static str,
    /// The directory with its streams in that; empty for the same.
    pub(crate) inside: &'static str,
    /// CPUs. A channel with more rings than these has several rings of each, a level after the other.
    pub(crate) cpus: u32,
    /// What becomes of events when rings are full.
    pub(crate) mode: Mode,
}

/// The streams of all rings of a channel, from the rings' beginning.
fn streams(channel: &Arc<Channel>, pipe: &Pipe) -> Vec<Stream> {
    let geometry = channel.geometry();
    let own = geometry.cpus;
    let place = |ring| match ring {
        _ if ring >= own => Place::shared(ring, ring - own),
        _ => Place::of_cpu(ring, ring % pipe.cpus.max(1), ring / pipe.cpus.max(1)),
    };
    let stream = |ring| Some(Stream::new(channel.shared_reader(ring)?, place(ring), channel.made()));
    (0..geometry.rings()).filter_map(stream).collect()
}

/// A channel that is read.
struct Tapped {
    number: u64,
    channel: Arc<Channel>,
    streams: Vec<Stream>,
    /// Since when, and in how many looks, a thread has been leaving its name.
    naming: (Instant, u32),
    /// When something was found in it last.
    filled: Instant,
    /// None of its processes is left, as far as is known.
    left: bool,
    /// It was told that it is damaged.
    damage_told: bool,
}

impl Tapped {
    fn new(number: u64, channel: Arc<Channel>, pipe: &Pipe) -> Tapped {
        let (streams, now) = (streams(&channel, pipe), Instant::now());
        Tapped { number, channel, streams, naming: (now, 0), filled: now, left: false, damage_told: false }
    }

    /// Takes the names that threads have left; at most a table's worth, so that nobody keeps us from the rings.
    fn names(&mut self, tell: &mut dyn FnMut(ThreadName)) {
        let table = self.channel.threads();
        self.naming.1 += 1;
        if table.is_empty() {
            self.naming = (Instant::now(), 0);
        }
        for _ in 0..ENTRIES {
            let Some(name) = table.pop() else { break };
            self.naming = (Instant::now(), 0);
            tell(name);
        }
        // A thread that was killed while it left its name must not stop those behind it.
        if self.naming.0.elapsed() > NAME_PATIENCE.0 && self.naming.1 > NAME_PATIENCE.1 {
            self.naming = (Instant::now(), 0);
            table.skip();
        }
    }

    /// Reads what is left of it, and ends it.
    fn close(&mut self, sink: &mut Sink<'_>) {
        for stream in &mut self.streams {
            stream.drain(sink, Take { flush: true, pressure: false });
            stream.close(sink);
        }
    }

    fn lost(&self, context: &Context) -> Losses {
        let mut sum = Losses::default();
        self.streams.iter().for_each(|stream| sum += stream.lost(context));
        sum
    }
}

/// A pipe with what comes through it.
pub(crate) struct Tap {
    pub(crate) pipe: Pipe,
    all: Vec<Tapped>,
    lanes: Lanes,
    pub(crate) totals: Totals,
    /// Of channels that are no more.
    before: (Losses, u32),
    /// When it was last forgotten which threads records are of.
    renewed: Instant,
}

/// How long the name of a thread holds until it is looked at again.
const NAME_HOLDS: Duration = Duration::from_secs(1);

impl Tap {
    /// Without a channel.
    pub(crate) fn new(pipe: Pipe) -> Tap {
        let named = !pipe.home.is_empty();
        let seen = if named { Seen::below(seen::ids()) } else { Seen::default() };
        let totals = Totals { seen, ..Totals::default() };
        let before = (Losses::default(), 0);
        Tap { pipe, all: Vec::new(), lanes: Lanes::default(), totals, before, renewed: Instant::now() }
    }

    /// Reads another channel, from its beginning.
    pub(crate) fn add(&mut self, number: u64, channel: Arc<Channel>) {
        let tapped = Tapped::new(number, channel, &self.pipe);
        self.all.push(tapped);
    }

    /// No process of this channel is left. It is read until nothing more comes; a flight recorder keeps what it holds until its memory is wanted.
    pub(crate) fn leave(&mut self, number: u64) {
        self.all.iter_mut().filter(|tapped| tapped.number == number).for_each(|tapped| {
            tapped.left = true;
            tapped.filled = Instant::now();
        });
    }

    /// Ends this channel now, because its memory is wanted. Returns its number, if it was there.
    pub(crate) fn evict(&mut self, number: u64, tell: &mut dyn FnMut(ThreadName)) -> Vec<u64> {
        self.finish(|tapped| tapped.number == number, tell)
    }

    /// Ends the channels that were left and have been quiet since. Returns their numbers.
    pub(crate) fn rest(&mut self, tell: &mut dyn FnMut(ThreadName)) -> Vec<u64> {
        let rested = |tapped: &Tapped| tapped.left && tapped.filled.elapsed() >= REST;
        if self.overwrites() || !self.all.iter().any(rested) {
            return Vec::new();
        }
        self.finish(rested, tell)
    }

    fn finish(&mut self, which: impl Fn(&Tapped) -> bool, tell: &mut dyn FnMut(ThreadName)) -> Vec<u64> {
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.all).into_iter().partition(which);
        self.all = stay;
        let steps = self.pipe.flow.steps();
        let overwrites = self.overwrites();
        let mut numbers = Vec::new();
        for mut tapped in gone {
            tapped.names(tell);
            if overwrites {
                self.totals.overwritten += tapped.streams.iter().map(Stream::backlog).sum::<u64>();
            } else {
                let Tap { pipe, lanes, totals, .. } = self;
                tapped.close(&mut Sink { context: &pipe.context, events: &steps, lanes, totals });
            }
            self.before.0 += tapped.lost(&self.pipe.context);
            self.before.1 = self.before.1.wrapping_add(tapped.channel.threads().nameless());
            numbers.push(tapped.number);
        }
        numbers
    }

    /// The channels that were found damaged since this was asked last.
    pub(crate) fn damaged(&mut self) -> Vec<u64> {
        let is_new =
            |tapped: &&mut Tapped| !tapped.damage_told && tapped.streams.iter().any(Stream::is_damaged);
        let tell = |tapped: &mut Tapped| {
            tapped.damage_told = true;
            tapped.number
        };
        self.all.iter_mut().filter(is_new).map(tell).collect()
    }

    /// Threads that records are of and that were not told, or not for a while. Only for a trace in which threads do not introduce
    /// themselves.
    pub(crate) fn threads(&mut self) -> Vec<u32> {
        let new = self.totals.seen.take();
        if self.renewed.elapsed() >= NAME_HOLDS {
            self.renewed = Instant::now();
            self.totals.seen.forget();
        }
        new
    }

    /// Takes the names that threads have left.
    pub(crate) fn names(&mut self, tell: &mut dyn FnMut(ThreadName)) {
        self.all.iter_mut().for_each(|tapped| tapped.names(tell));
    }

    /// A flight recorder.
    pub(crate) fn overwrites(&self) -> bool {
        self.pipe.mode == Mode::Overwrite
    }

    /// Takes what is in each ring once. Returns true when there was anything.
    pub(crate) fn pass(&mut self, flush: bool) -> bool {
        let overwrites = self.overwrites();
        let mut any = false;
        let Tap { pipe, all, lanes, totals, .. } = self;
        for tapped in all {
            let mut taken = false;
            for stream in &mut tapped.streams {
                if stream.backlog() == 0 {
                    stream.look_at_losses(&pipe.context);
                    continue;
                }
                // Loaded after the backlog was seen: an event is known before its first record.
                let events = pipe.flow.steps();
                // Straight from the ring only where writers never come around to what is being written.
                let pressure = !overwrites && stream.backlog() > stream.geometry().ring_bytes() / 8;
                let mut sink = Sink { context: &pipe.context, events: &events, lanes, totals };
                taken |= stream.drain(&mut sink, Take { flush, pressure });
            }
            if taken {
                tapped.filled = Instant::now();
            }
            any |= taken;
        }
        any
    }

    /// Counts one packet that was written in a hurry.
    pub(crate) fn count_some(&mut self) -> bool {
        let steps = self.pipe.flow.steps();
        let Tap { all, lanes, totals, .. } = self;
        let used = all.iter_mut().flat_map(|tapped| &mut tapped.streams).filter_map(Stream::lane);
        used.chain(lanes.idle()).any(|lane| lane.count_one(&steps, totals))
    }

    /// Whether a ring holds more than a sub-buffer that was not read.
    pub(crate) fn is_behind(&self) -> bool {
        self.streams().any(|stream| stream.backlog() >= stream.geometry().sub_bytes())
    }

    /// Why nothing can be written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        let idle = self.lanes.failure();
        self.streams().find_map(Stream::failure).or(idle)
    }

    /// Looks whether the files are still there.
    pub(crate) fn look(&mut self) {
        let Tap { all, lanes, totals, .. } = self;
        let used = all.iter_mut().flat_map(|tapped| &mut tapped.streams).filter_map(Stream::lane);
        used.chain(lanes.idle()).for_each(|lane| lane.look(totals));
    }

    fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter().flat_map(|tapped| &tapped.streams)
    }

    fn lost(&self) -> Losses {
        let mut sum = self.before.0;
        self.all.iter().for_each(|tapped| sum += tapped.lost(&self.pipe.context));
        sum
    }

    /// Tells how far the trace is.
    pub(crate) fn publish(&self) {
        let lost = self.lost();
        if lost.events[Cause::NoClock as usize] > 0 {
            self.pipe.flow.note_without_clock();
        }
        self.pipe.flow.publish(Figures {
            bytes: self.totals.bytes,
            events: self.totals.counts.iter().sum(),
            lost: lost.total(),
            unknown: lost.unknown + self.totals.damages,
            waiting: self.streams().map(Stream::backlog).sum(),
        });
    }

    /// Reads what is left, and ends the streams: nobody writes any more.
    pub(crate) fn close(&mut self) {
        let events = self.pipe.flow.steps();
        let Tap { pipe, all, lanes, totals, .. } = self;
        for tapped in all {
            tapped.close(&mut Sink { context: &pipe.context, events: &events, lanes, totals });
        }
        while self.count_some() {}
        let Tap { lanes, totals, .. } = self;
        lanes.idle().for_each(|lane| lane.finish(totals));
    }

    /// Writes what the rings hold to the directory that belongs to this trace in `root`, which is made. Writers go on meanwhile; what
    /// they overwrite is left out.
    ///
    /// # Errors
    /// Why the directory cannot be made. What goes wrong later is in the totals' problems.
    pub(crate) fn snapshot(&self, root: &Folder) -> std::io::Result<Consumed> {
        let made = |folder: &Folder, name: &str| {
            if name.is_empty() { Ok(folder.clone()) } else { folder.make(name) }
        };
        let home = made(root, self.pipe.home)?;
        let (directory, hidden) = (made(&home, self.pipe.inside)?, home.make(mote_journal::DIRECTORY)?);
        let sink = Arc::new(Files { directory, hidden });
        let context = Context { sink, ..self.pipe.context.clone() };
        let events = self.pipe.flow.steps();
        let (mut consumed, mut lanes) = (Consumed::default(), Lanes::default());
        for tapped in &self.all {
            for mut stream in streams(&tapped.channel, &self.pipe) {
                let totals = &mut consumed.totals;
                let mut sink = Sink { context: &context, events: &events, lanes: &mut lanes, totals };
                stream.drain(&mut sink, Take { flush: true, pressure: false });
                stream.end(&mut sink);
                consumed.lost += stream.lost(&context);
            }
        }
        lanes.idle().for_each(|lane| lane.finish(&mut consumed.totals));
        Ok(consumed)
    }

    /// What it has come to.
    pub(crate) fn end(self) -> Consumed {
        let nameless = self.all.iter().map(|tapped| tapped.channel.threads().nameless());
        let nameless = nameless.fold(self.before.1, u32::wrapping_add);
        Consumed { lost: self.lost(), totals: self.totals, nameless }
    }
}
