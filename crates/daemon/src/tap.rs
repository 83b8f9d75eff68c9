//! One trace as the consumer sees it: a channel, whose rings become the streams of one directory.

use crate::directory::inside;
use crate::flow::{Figures, Flow};
use crate::gaps::Losses;
use crate::seen::{self, Seen};
use crate::stream::{Context, Place, Stream, Take, Totals};
use mote_ring::Mode;
use mote_ring::reader::Channel;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// A channel, and where it is emptied to.
#[derive(Clone, Copy)]
pub(crate) struct Pipe<'c> {
    pub(crate) channel: &'c Channel,
    pub(crate) flow: &'c Flow,
    pub(crate) context: Context<'c>,
    /// The directory with its journal, in that of the recording; empty for the recording's own.
    pub(crate) home: &'static str,
    /// The directory with its streams in that; empty for the same.
    pub(crate) inside: &'static str,
    /// CPUs. A channel with more rings than these has several rings of each, a level after the other.
    pub(crate) cpus: u32,
}

impl<'c> Pipe<'c> {
    /// The streams of all rings, from the rings' beginning.
    fn streams(&self) -> Vec<Stream<'c>> {
        let (rings, made) = (0..self.channel.geometry().rings(), self.channel.made());
        let stream = |ring| Some(Stream::new(self.channel.reader(ring)?, self.place(ring), made));
        rings.filter_map(stream).collect()
    }

    fn place(&self, ring: u32) -> Place {
        let own = self.channel.geometry().cpus;
        if ring >= own {
            return Place::shared(ring, ring - own);
        }
        Place::of_cpu(ring, ring % self.cpus.max(1), ring / self.cpus.max(1))
    }

    /// Writes what the rings hold to the directory that belongs to this trace in `root`, which is made. Writers go on meanwhile; what
    /// they overwrite is left out.
    ///
    /// # Errors
    /// Why the directory cannot be made. What goes wrong later is in the totals' problems.
    pub(crate) fn snapshot(&self, root: &Path) -> std::io::Result<Consumed> {
        let home = inside(root, self.home);
        let (directory, hidden) = (inside(&home, self.inside), home.join(mote_journal::DIRECTORY));
        std::fs::create_dir_all(&directory)?;
        std::fs::create_dir(&hidden)?;
        let context = Context { directory: &directory, hidden: &hidden, ..self.context };
        let steps = self.flow.steps();
        let mut consumed = Consumed::default();
        for stream in &mut self.streams() {
            stream.drain(&context, &steps, Take { flush: true, pressure: false }, &mut consumed.totals);
            stream.end(&context, &mut consumed.totals);
            consumed.lost += stream.lost(&context);
        }
        Ok(consumed)
    }
}

/// A pipe with its streams.
pub(crate) struct Tap<'c> {
    pub(crate) pipe: Pipe<'c>,
    streams: Vec<Stream<'c>>,
    pub(crate) totals: Totals,
    /// When it was last forgotten which threads records are of.
    renewed: Instant,
}

/// How long the name of a thread holds until it is looked at again.
const NAME_HOLDS: Duration = Duration::from_secs(1);

impl<'c> Tap<'c> {
    /// Of a channel that is read from its beginning.
    pub(crate) fn new(pipe: Pipe<'c>) -> Tap<'c> {
        let named = !pipe.home.is_empty();
        let seen = if named { Seen::below(seen::ids()) } else { Seen::default() };
        let totals = Totals { seen, ..Totals::default() };
        Tap { streams: pipe.streams(), pipe, totals, renewed: Instant::now() }
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

    /// A flight recorder.
    pub(crate) fn overwrites(&self) -> bool {
        self.pipe.channel.geometry().mode == Mode::Overwrite
    }

    /// Takes what is in each ring once. Answers true when there was anything.
    pub(crate) fn pass(&mut self, flush: bool) -> bool {
        let ring_bytes = self.pipe.channel.geometry().ring_bytes();
        let overwrites = self.overwrites();
        let mut taken = false;
        for stream in &mut self.streams {
            let backlog = stream.backlog();
            if backlog > 0 {
                // Loaded after the backlog was seen: an event is known before its first record.
                let steps = self.pipe.flow.steps();
                // Straight from the ring only where writers never come around to what is being written.
                let pressure = !overwrites && backlog > ring_bytes / 8;
                let take = Take { flush, pressure };
                taken |= stream.drain(&self.pipe.context, &steps, take, &mut self.totals);
            } else {
                stream.look_at_losses(&self.pipe.context);
            }
        }
        taken
    }

    /// Counts one packet that was written in a hurry.
    pub(crate) fn count_some(&mut self) -> bool {
        let steps = self.pipe.flow.steps();
        self.streams.iter_mut().any(|stream| stream.count_one(&steps, &mut self.totals))
    }

    /// Whether a ring holds more than a sub-buffer that was not read.
    pub(crate) fn is_behind(&self) -> bool {
        let sub_bytes = self.pipe.channel.geometry().sub_bytes();
        self.streams.iter().any(|stream| stream.backlog() >= sub_bytes)
    }

    /// Whether a stream cannot be written any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.streams.iter().any(|stream| stream.failed().is_some())
    }

    fn lost(&self) -> Losses {
        let mut sum = Losses::default();
        self.streams.iter().for_each(|stream| sum += stream.lost(&self.pipe.context));
        sum
    }

    /// Tells how far the trace is.
    pub(crate) fn publish(&self) {
        self.pipe.flow.publish(Figures {
            bytes: self.totals.bytes,
            events: self.totals.counts.iter().sum(),
            lost: self.lost().total(),
        });
    }

    /// Ends the streams: nobody writes any more.
    pub(crate) fn close(&mut self) {
        let steps = self.pipe.flow.steps();
        for stream in &mut self.streams {
            stream.close(&self.pipe.context, &steps, &mut self.totals);
        }
        while self.count_some() {}
    }

    /// What it has come to.
    pub(crate) fn end(self) -> Consumed {
        let (lost, nameless) = (self.lost(), self.pipe.channel.threads().nameless());
        Consumed { totals: self.totals, lost, nameless }
    }
}
