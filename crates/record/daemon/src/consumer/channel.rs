//! One channel that is read: the rings of a group of processes, or of the kernel's programs.

use super::data_streams::Place;
use super::losses::Losses;
use super::ring::{Output, RingConsumer, Take};
use super::totals::Context;
use mote_ring::reader::Channel;
use mote_ring::threads::{ENTRIES, ThreadName};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread may take to leave its name, once it has begun; and in how many looks: when the whole machine stood
/// still, the thread has had no more time than we.
const NAME_PATIENCE: (Duration, u32) = (Duration::from_secs(1), 50);
/// How long rings whose processes have gone are read: a child of theirs that has not said hello may still write.
const QUIET_FOR: Duration = Duration::from_secs(2);

/// All rings of a channel, from their beginning, of a trace with so many CPUs.
pub(super) fn rings(channel: &Arc<Channel>, cpus: u32) -> Vec<RingConsumer> {
    let geometry = channel.geometry();
    let (own, cpus) = (geometry.cpus, cpus.max(1));
    let place = |ring| match ring {
        _ if ring >= own => Place::shared(ring, ring - own),
        _ => Place::of_cpu(ring, ring % cpus, ring / cpus),
    };
    let read = |ring| Some(RingConsumer::new(channel.shared_reader(ring)?, place(ring), channel.made()));
    (0..geometry.rings()).filter_map(read).collect()
}

/// A channel that is read.
pub(super) struct ChannelConsumer {
    pub(super) number: u64,
    channel: Arc<Channel>,
    pub(super) rings: Vec<RingConsumer>,
    /// Since when, and in how many looks, a thread has been leaving its name.
    naming: (Instant, u32),
    /// When something was found in it last.
    filled: Instant,
    /// None of its processes is left, as far as is known.
    is_left: bool,
    /// It was reported as damaged.
    pub(super) damage_reported: bool,
}

impl ChannelConsumer {
    pub(super) fn new(number: u64, channel: Arc<Channel>, cpus: u32) -> ChannelConsumer {
        let (rings, now) = (rings(&channel, cpus), Instant::now());
        let (naming, filled) = ((now, 0), now);
        ChannelConsumer { number, channel, rings, naming, filled, is_left: false, damage_reported: false }
    }

    /// The channel that this consumes, for another share of it.
    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Something was found in it.
    pub(super) fn note_filled(&mut self) {
        self.filled = Instant::now();
    }

    /// None of its processes is left.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
        self.note_filled();
    }

    /// Whether its processes have gone, and nothing has come since for long enough.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_left && self.filled.elapsed() >= QUIET_FOR
    }

    /// Takes the names that threads have left; at most a table's worth, so that no process keeps us from the rings.
    pub(super) fn names(&mut self, tell: &mut dyn FnMut(ThreadName)) {
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

    /// How many threads could not leave their name.
    pub(super) fn nameless(&self) -> u32 {
        self.channel.threads().nameless()
    }

    /// Bytes that were not read.
    pub(super) fn backlog(&self) -> u64 {
        self.rings.iter().map(RingConsumer::backlog).sum()
    }

    /// Reads what is left of it, and ends it.
    pub(super) fn close(&mut self, output: &mut Output<'_>) {
        for ring in &mut self.rings {
            ring.drain(output, Take { flush: true, pressure: false });
            ring.close(output);
        }
    }

    /// Events that its rings have lost.
    pub(super) fn lost(&self, context: &Context) -> Losses {
        let mut sum = Losses::default();
        self.rings.iter().for_each(|ring| sum += ring.lost(context));
        sum
    }
}
