//! One trace as the consumer sees it: channels, whose rings become the data streams of one directory.

use crate::consumer::channel::{ChannelConsumer, rings};
use crate::consumer::data_streams::DataStreams;
use crate::consumer::losses::Losses;
use crate::consumer::ring::{Output, RingConsumer, Take};
use crate::consumer::seen::{self, Seen};
use crate::consumer::stacks::{Stacks, StacksOf};
use crate::consumer::state::{Figures, TraceState};
use crate::consumer::totals::{Context, Totals};
use crate::output::folder::Folder;
use crate::output::packets::Files;
use mote_loss::Cause;
use mote_ring::Mode;
use mote_ring::reader::Channel;
use mote_ring::threads::ThreadName;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the data streams of a trace have come to.
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
pub(crate) struct Destination {
    pub(crate) state: Arc<TraceState>,
    pub(crate) context: Context,
    /// The directory with its journal, in that of the recording; empty for the recording's own.
    pub(crate) home: &'static str,
    /// The directory with its data streams in that; empty for the same.
    pub(crate) inside: &'static str,
    /// CPUs. A channel with more rings than these has several rings of each, a level after the other.
    pub(crate) cpus: u32,
    /// What becomes of events when rings are full.
    pub(crate) mode: Mode,
    /// What makes addresses of copies of stacks, where records have such.
    pub(crate) stacks: Option<StacksOf>,
}

/// The channels of a trace, on their way to its destination.
pub(crate) struct TraceConsumer {
    pub(crate) destination: Destination,
    channels: Vec<ChannelConsumer>,
    streams: DataStreams,
    /// What makes addresses of copies of stacks, where records have such.
    pub(crate) stacks: Option<Stacks>,
    pub(crate) totals: Totals,
    /// Of channels that are no more.
    before: (Losses, u32),
    /// When it was last forgotten which threads records are of.
    renewed: Instant,
}

/// How long the name of a thread holds until it is looked at again.
const NAME_HOLDS: Duration = Duration::from_secs(1);

impl TraceConsumer {
    /// Without a channel.
    pub(crate) fn new(destination: Destination) -> TraceConsumer {
        let named = !destination.home.is_empty();
        let seen = if named { Seen::below(seen::ids()) } else { Seen::default() };
        let totals = Totals { seen, ..Totals::default() };
        let before = (Losses::default(), 0);
        let stacks = destination.stacks.as_ref().map(|of| Stacks::open(of, destination.cpus));
        TraceConsumer {
            destination,
            channels: Vec::new(),
            streams: DataStreams::default(),
            stacks,
            totals,
            before,
            renewed: Instant::now(),
        }
    }

    /// Reads another channel, from its beginning.
    pub(crate) fn add(&mut self, number: u64, channel: Arc<Channel>) {
        self.channels.push(ChannelConsumer::new(number, channel, self.destination.cpus));
    }

    /// No process of this channel is left. It is read until nothing more comes; a flight recorder keeps what it holds
    /// until its memory is wanted.
    pub(crate) fn leave(&mut self, number: u64) {
        self.channels.iter_mut().filter(|channel| channel.number == number).for_each(ChannelConsumer::leave);
    }

    /// Ends this channel now, because its memory is wanted. Returns its number, if it was there.
    pub(crate) fn evict(&mut self, number: u64, tell: &mut dyn FnMut(ThreadName)) -> Vec<u64> {
        self.finish(|channel| channel.number == number, tell)
    }

    /// Ends the channels that were left and have been quiet since. Returns their numbers.
    pub(crate) fn end_quiet(&mut self, tell: &mut dyn FnMut(ThreadName)) -> Vec<u64> {
        if self.overwrites() || !self.channels.iter().any(ChannelConsumer::is_quiet) {
            return Vec::new();
        }
        self.finish(ChannelConsumer::is_quiet, tell)
    }

    fn finish(
        &mut self,
        which: impl Fn(&ChannelConsumer) -> bool,
        tell: &mut dyn FnMut(ThreadName),
    ) -> Vec<u64> {
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.channels).into_iter().partition(which);
        self.channels = stay;
        let steps = self.destination.state.steps();
        let overwrites = self.overwrites();
        let mut numbers = Vec::new();
        for mut channel in gone {
            channel.names(tell);
            if overwrites {
                self.totals.overwritten += channel.backlog();
            } else {
                let TraceConsumer { destination, streams, totals, stacks, .. } = self;
                let (context, stacks) = (&destination.context, stacks.as_mut());
                channel.close(&mut Output { context, events: &steps, streams, totals, stacks });
            }
            self.before.0 += channel.lost(&self.destination.context);
            self.before.1 = self.before.1.wrapping_add(channel.nameless());
            numbers.push(channel.number);
        }
        numbers
    }

    /// The channels that were found damaged since this was asked last.
    pub(crate) fn damaged(&mut self) -> Vec<u64> {
        let is_new = |channel: &&mut ChannelConsumer| {
            !channel.damage_reported && channel.rings.iter().any(RingConsumer::is_damaged)
        };
        let tell = |channel: &mut ChannelConsumer| {
            channel.damage_reported = true;
            channel.number
        };
        self.channels.iter_mut().filter(is_new).map(tell).collect()
    }

    /// Threads that records are of and that were not told, or not for a while. Only for a trace in which threads do not
    /// introduce themselves.
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
        self.channels.iter_mut().for_each(|channel| channel.names(tell));
    }

    /// A flight recorder.
    pub(crate) fn overwrites(&self) -> bool {
        self.destination.mode == Mode::Overwrite
    }

    /// Takes what is in each ring once. Returns true when there was anything.
    pub(crate) fn pass(&mut self, flush: bool) -> bool {
        let overwrites = self.overwrites();
        let mut any = false;
        let TraceConsumer { destination, channels, streams, totals, stacks, .. } = self;
        for channel in channels {
            let mut taken = false;
            for ring in &mut channel.rings {
                if ring.backlog() == 0 {
                    ring.look_at_losses(&destination.context);
                    continue;
                }
                // Loaded after the backlog was seen: an event is known before its first record.
                let events = destination.state.steps();
                // Straight from the ring only where writers never come around to what is being written, and nothing is
                // made of it.
                let is_plain = !overwrites && stacks.is_none();
                let pressure = is_plain && ring.backlog() > ring.geometry().ring_bytes() / 8;
                let (context, stacks) = (&destination.context, stacks.as_mut());
                let mut output = Output { context, events: &events, streams, totals, stacks };
                taken |= ring.drain(&mut output, Take { flush, pressure });
            }
            if taken {
                channel.note_filled();
            }
            any |= taken;
        }
        any
    }

    /// Counts one packet that was written in a hurry.
    pub(crate) fn count_some(&mut self) -> bool {
        let steps = self.destination.state.steps();
        let TraceConsumer { channels, streams, totals, .. } = self;
        let used =
            channels.iter_mut().flat_map(|channel| &mut channel.rings).filter_map(RingConsumer::stream);
        used.chain(streams.idle()).any(|stream| stream.count_one(&steps, totals))
    }

    /// Whether nothing is to be read.
    pub(crate) fn is_without_rings(&self) -> bool {
        self.channels.is_empty()
    }

    /// Whether a ring holds more than a sub-buffer that was not read.
    pub(crate) fn is_behind(&self) -> bool {
        self.rings().any(|ring| ring.backlog() >= ring.geometry().sub_bytes())
    }

    /// Why nothing can be written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        let idle = self.streams.failure();
        self.rings().find_map(RingConsumer::failure).or(idle)
    }

    /// Looks whether the files are still there, and takes in what processes have mapped.
    pub(crate) fn look(&mut self) {
        let TraceConsumer { channels, streams, totals, stacks, .. } = self;
        stacks.iter_mut().for_each(Stacks::refresh);
        let used =
            channels.iter_mut().flat_map(|channel| &mut channel.rings).filter_map(RingConsumer::stream);
        used.chain(streams.idle()).for_each(|stream| stream.look(totals));
    }

    fn rings(&self) -> impl Iterator<Item = &RingConsumer> {
        self.channels.iter().flat_map(|channel| &channel.rings)
    }

    fn lost(&self) -> Losses {
        let mut sum = self.before.0;
        self.channels.iter().for_each(|channel| sum += channel.lost(&self.destination.context));
        sum
    }

    /// Tells how far the trace is.
    pub(crate) fn publish(&self) {
        let lost = self.lost();
        if lost.events[Cause::NoClock as usize] > 0 {
            self.destination.state.note_without_clock();
        }
        self.destination.state.publish(Figures {
            bytes: self.totals.bytes,
            events: self.totals.counts.iter().sum(),
            lost: lost.total(),
            unknown: lost.unknown + self.totals.damages,
            waiting: self.rings().map(RingConsumer::backlog).sum(),
        });
    }

    /// Reads what is left, and ends the rings: no process writes any more.
    pub(crate) fn close(&mut self) {
        let events = self.destination.state.steps();
        let TraceConsumer { destination, channels, streams, totals, stacks, .. } = self;
        for channel in channels {
            let (context, stacks) = (&destination.context, stacks.as_mut());
            channel.close(&mut Output { context, events: &events, streams, totals, stacks });
        }
        while self.count_some() {}
        let TraceConsumer { streams, totals, .. } = self;
        streams.idle().for_each(|stream| stream.finish(totals));
    }

    /// Writes what the rings hold to the directory that belongs to this trace in `root`, which is made. Writers go on
    /// meanwhile; what they overwrite is left out.
    ///
    /// # Errors
    /// Why the directory cannot be made. What goes wrong later is in the totals' problems.
    pub(crate) fn snapshot(&mut self, root: &Folder) -> std::io::Result<Consumed> {
        let made = |folder: &Folder, name: &str| {
            if name.is_empty() { Ok(folder.clone()) } else { folder.make(name) }
        };
        let home = made(root, self.destination.home)?;
        let (directory, hidden) =
            (made(&home, self.destination.inside)?, home.make(mote_journal::DIRECTORY)?);
        let sink = Arc::new(Files { directory, hidden });
        let context = Context { sink, ..self.destination.context.clone() };
        let events = self.destination.state.steps();
        let (mut consumed, mut streams) = (Consumed::default(), DataStreams::default());
        for channel in &self.channels {
            for mut ring in rings(channel.channel(), self.destination.cpus) {
                let totals = &mut consumed.totals;
                let (streams, stacks) = (&mut streams, self.stacks.as_mut());
                let mut output = Output { context: &context, events: &events, streams, totals, stacks };
                ring.drain(&mut output, Take { flush: true, pressure: false });
                ring.end(&mut output);
                consumed.lost += ring.lost(&context);
            }
        }
        streams.idle().for_each(|stream| stream.finish(&mut consumed.totals));
        Ok(consumed)
    }

    /// What it has come to.
    pub(crate) fn end(self) -> Consumed {
        let nameless = self.channels.iter().map(ChannelConsumer::nameless);
        let nameless = nameless.fold(self.before.1, u32::wrapping_add);
        Consumed { lost: self.lost(), totals: self.totals, nameless }
    }
}
